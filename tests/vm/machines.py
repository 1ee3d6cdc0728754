"""The kinds of machine that a node can be, by name."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from tests.vm.cluster import NodeOpener
from tests.vm.namespace import namespace_node
from tests.vm.node import Node
from tests.vm.shapes import machine_of


def opener_of(kind: str, shape: str, *, numakube: Path) -> NodeOpener:
    """Return what opens a node of that kind and shape."""
    machine = machine_of(shape)

    @asynccontextmanager
    async def namespace(folder: Path, kubeconfig: Path) -> AsyncIterator[Node]:
        async with namespace_node(
            folder, machine, kubeconfig=kubeconfig, numakube=numakube
        ) as node:
            yield node

    def opened(folder: Path, kubeconfig: Path) -> AbstractAsyncContextManager[Node]:
        return namespace(folder, kubeconfig)

    return opened
