"""How the devices of a node are connected, as rows and words: a matrix, and who shares a switch.

The words are those of ``nvidia-smi topo -m``. Devices that are parts of one PCI function, such as
the virtual functions of a network card, are one row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from numakube.kubelet.device_connections import Closeness
from numakube.values.display import short_name

if TYPE_CHECKING:
    from numakube.insight.drawing.picture import Device, NodePicture
    from numakube.kubelet.device_connections import DeviceTree, PciPath

UNKNOWN: Final = "?"
SELF: Final = "X"
XGMI: Final = "XGMI"
_AMD: Final = "amd.com/"

MEANINGS: Final = {
    "NV#": "that many NVLinks",
    XGMI: "linked by xGMI",
    "PIX": "one PCIe switch",
    "PXB": "several PCIe switches",
    "PHB": "a host bridge",
    "NODE": "host bridges of one NUMA node",
    "SYS": "between NUMA nodes",
    UNKNOWN: "not known",
}
"""What is between two devices, by the word in the matrix."""


@dataclass(frozen=True, slots=True)
class Function:
    """A PCI function with the devices of one resource that are parts of it."""

    resource: str
    path: PciPath
    devices: tuple[Device, ...]

    @property
    def number(self) -> str:
        """The position of its device; of several, its address within the domain."""
        if len(self.devices) > 1:
            return self.path.address.partition(":")[2]
        return str(self.devices[0].position)

    @property
    def label(self) -> str:
        """Its name in little space: ``gpu 0``, ``sriov 3b:00.0``."""
        return f"{short_name(self.resource)} {self.number}"

    def owners(self) -> list[int]:
        """Return the numbers of the pods that have devices of it."""
        return sorted({one.owner for one in self.devices if one.owner is not None})


@dataclass(frozen=True, slots=True)
class Connections:
    """The functions of a node in the order of their resources, and what is between them."""

    tree: DeviceTree
    functions: tuple[Function, ...]

    def word(self, one: Function, other: Function) -> str:
        """Return what is between two functions, in the word of the matrix."""
        if one is other:
            return SELF
        found = self.tree.between(one.path.address, other.path.address)
        if found is None:
            return UNKNOWN
        is_link = found.closeness is Closeness.LINK
        return XGMI if is_link and one.resource.startswith(_AMD) else found.text

    def matrix(self) -> tuple[tuple[str, ...], ...]:
        """Return a row of words for each function."""
        return tuple(
            tuple(self.word(one, other) for other in self.functions) for one in self.functions
        )

    def switches(self) -> tuple[tuple[Function, ...], ...]:
        """Return the functions that share a PCIe switch, where several do."""
        groups: dict[tuple[str, ...], list[Function]] = {}
        for one in self.functions:
            groups.setdefault(one.path.switch, []).append(one)
        ordered = sorted(groups.items(), key=lambda item: (_zone(item[1][0]), item[0]))
        return tuple(tuple(group) for key, group in ordered if len(key) > 1 and len(group) > 1)

    def legend(self) -> tuple[str, ...]:
        """Return what the words mean that the matrix has."""
        used = {_kind(word) for row in self.matrix() for word in row}
        return tuple(f"{word} {meaning}" for word, meaning in MEANINGS.items() if word in used)


def connections_of(picture: NodePicture) -> Connections | None:
    """Return how the devices of *picture* are connected; ``None`` if that is not known."""
    groups: dict[tuple[str, str], list[Device]] = {}
    for device in picture.devices():
        if device.pci in picture.tree.paths:
            groups.setdefault((device.resource, device.pci), []).append(device)
    functions = [
        Function(resource, picture.tree.paths[address], tuple(devices))
        for (resource, address), devices in groups.items()
    ]
    if len(functions) < 2:
        return None
    return Connections(picture.tree, tuple(sorted(functions, key=_order)))


def _order(function: Function) -> tuple[str, int]:
    return function.resource, min(one.position for one in function.devices)


def _zone(function: Function) -> int:
    return -1 if function.path.numa_node is None else function.path.numa_node


def _kind(word: str) -> str:
    return "NV#" if word.startswith("NV") else word
