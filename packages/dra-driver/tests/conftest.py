"""Fixtures of the driver's tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from random import Random

import pytest
from dra_bed import Bed

from kube_lab_server import ApiServer
from kube_lab_server.kinds.all_kinds import GATES
from numakube.kube.clock import ManualClock


@pytest.fixture
async def bed(tmp_path: Path) -> AsyncIterator[Bed]:
    """A node beside an API server."""
    clock = ManualClock()
    async with ApiServer(now=clock.now, rng=Random(7), gates=GATES) as server:
        yield Bed.on(server, clock, tmp_path)
