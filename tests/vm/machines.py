"""The kinds of machine that a node can be, by name."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path

from tests.vm import image, namespace
from tests.vm.cluster import NodeOpener
from tests.vm.namespace import namespace_node
from tests.vm.node import Node
from tests.vm.programs import Missing, require
from tests.vm.shapes import machine_of
from tests.vm.virtual import virtual_node


def opener_of(kind: str, shape: str, *, numakube: Path) -> NodeOpener:
    """Return what opens a node of that kind and shape.

    Raises:
        Missing: such a node cannot be had here, with all that it lacks.
    """
    require(image.PACKAGES if kind == "vm" else namespace.PACKAGES)
    if kind == "namespace" and not namespace.can_be_had():
        raise Missing(namespace.NEEDS)
    machine = machine_of(shape)

    def opened(folder: Path, kubeconfig: Path) -> AbstractAsyncContextManager[Node]:
        if kind == "vm":
            return virtual_node(folder, machine, kubeconfig=kubeconfig, numakube=numakube)
        return namespace_node(folder, machine, kubeconfig=kubeconfig, numakube=numakube)

    return opened
