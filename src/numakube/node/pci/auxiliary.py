"""Auxiliary devices of PCI functions, of which subfunctions (SFs) are those that pods can get."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from numakube.node.pci.pci_functions import nearest_address
from numakube.node.pci.sysfs_files import names_in, number_of

if TYPE_CHECKING:
    from pathlib import Path

DEVICES: Final = "bus/auxiliary/devices"
_NAME: Final = re.compile(r"(?P<driver>.+)\.(?P<type>[^.]+)\.(?P<id>[0-9]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuxiliaryDevice:
    """An auxiliary device.

    Attributes:
        name: such as ``mlx5_core.sf.4``.
        type: the middle part of the name.
        parent: the PCI function that it belongs to.
        number: the number of the subfunction; ``None`` for other devices.
        interfaces: its network interfaces on this host.
    """

    name: str
    type: str
    parent: str
    number: int | None = None
    interfaces: tuple[str, ...] = ()


def auxiliary_devices(sysfs: Path) -> tuple[AuxiliaryDevice, ...]:
    """Return all auxiliary devices of PCI functions, in order of their names."""
    folder = sysfs / DEVICES
    found = []
    for name in names_in(folder):
        parts = _NAME.fullmatch(name)
        parent = nearest_address(folder / name) if parts else ""
        if parts and parent:
            device = AuxiliaryDevice(
                name=name,
                type=parts["type"],
                parent=parent,
                number=number_of(folder / name / "sfnum"),
                interfaces=names_in(folder / name / "net"),
            )
            found.append(device)
    return tuple(found)
