"""Machines to try on, by name.

Each is small enough to be emulated; `numakube machine` shows any of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from numakube.kubelet.machine import Machine
from numakube.kubelet.machines.shape_text import from_shape

SHAPES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "one": "1 socket, 4 cores, 1536Mi, numbering adjacent, nic 2",
        "two": "2 sockets, 4 cores, 1536Mi, hugepages-2Mi 64, distances 10 20 20, nic 2, vf 4",
        "two-smt": (
            "2 sockets, 2 cores, smt 2, numbering adjacent, 1536Mi, hugepages-2Mi 64,"
            " distances 10 20 20, nic 2, vf 4"
        ),
        "four": (
            "4 sockets, 2 cores, smt 2, numbering adjacent, 1536Mi, hugepages-2Mi 64,"
            " distances 10 20 20, nic 2, vf 4"
        ),
        "memory-only": "2 sockets, 3 cores, 1536Mi, 1 cxl 1536Mi, distances 10 20 20 30, nic 2",
    }
)


def machine_of(name: str) -> Machine:
    """Return a machine by its name here, or by what `numakube machine` understands."""
    return from_shape(SHAPES.get(name, name))
