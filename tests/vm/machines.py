"""The kinds of machine that a node can be, by name."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path

from tests.vm.cluster import NodeOpener
from tests.vm.namespace import namespace_node
from tests.vm.node import Node
from tests.vm.shapes import machine_of
from tests.vm.virtual import virtual_node


def opener_of(kind: str, shape: str, *, numakube: Path) -> NodeOpener:
    """Return what opens a node of that kind and shape."""
    machine = machine_of(shape)

    def opened(folder: Path, kubeconfig: Path) -> AbstractAsyncContextManager[Node]:
        if kind == "vm":
            return virtual_node(folder, machine, kubeconfig=kubeconfig, numakube=numakube)
        return namespace_node(folder, machine, kubeconfig=kubeconfig, numakube=numakube)

    return opened
