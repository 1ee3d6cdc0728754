"""One mixed cluster for all tests of a module."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio
from packages.placement.tests.mixed_cluster.mixed import Mixed, mixed_cluster


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared() -> AsyncIterator[Mixed]:
    """The cluster."""
    async with mixed_cluster() as found:
        yield found


@pytest_asyncio.fixture(loop_scope="module")
async def mixed(shared: Mixed) -> AsyncIterator[Mixed]:
    """The cluster, without pods of other tests."""
    yield shared
    await shared.clear()
