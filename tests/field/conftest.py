"""The clusters that the scenarios of a module share: for each scope, and with an operator."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio
from tests.field.cluster import Field, field_of
from tests.field.operated import operated_lab

from numakube.kube.client import Client


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared() -> AsyncIterator[Field]:
    """Three nodes under single-numa-node, in container scope."""
    async with field_of("container") as found:
        yield found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_in_pod_scope() -> AsyncIterator[Field]:
    """The same in pod scope."""
    async with field_of("pod") as found:
        yield found


@pytest_asyncio.fixture(loop_scope="module")
async def cluster(shared: Field) -> AsyncIterator[Field]:
    """The nodes in container scope, as free afterwards as before, and without workloads."""
    yield shared
    await shared.clear()


@pytest_asyncio.fixture(loop_scope="module")
async def pod_scope(shared_in_pod_scope: Field) -> AsyncIterator[Field]:
    """The nodes in pod scope, as free afterwards as before, and without workloads."""
    yield shared_in_pod_scope
    await shared_in_pod_scope.clear()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def operated() -> AsyncIterator[Client]:
    """A cluster of three nodes with an operator, exporters and a scheduler."""
    async with operated_lab() as client:
        yield client
