"""A cluster for the length of a test leaves nothing behind."""

from __future__ import annotations

import gc
import warnings

import pytest

from numakube.kube.catalog import PODS
from numakube_lab.testing import lab_cluster


async def fail() -> None:
    """Fail as a test does, with a connection in use."""
    async with lab_cluster(0, exporters=False) as world:
        assert not (await world.connect().list(PODS)).items
        raise ZeroDivisionError


async def test_the_connections_of_a_test_that_fails_are_closed() -> None:
    """Otherwise a warning about them would fail the next test, too."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with pytest.raises(ZeroDivisionError):
            await fail()
        gc.collect()
    assert [str(message.message) for message in told] == []
