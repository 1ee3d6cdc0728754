"""vDPA devices: which PCI function each stands on, and how containers reach it.

``/sys/bus/vdpa/devices`` links to every vDPA device below the PCI function that it stands on, maybe
with an auxiliary device in between.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from numakube.node.pci.pci_functions import nearest_address
from numakube.node.pci.sysfs_files import names_in, target_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

VHOST: Final = "vhost"
VIRTIO: Final = "virtio"
DRIVERS: Final = MappingProxyType({"vhost_vdpa": VHOST, "virtio_vdpa": VIRTIO})
_VHOST_PREFIX: Final = "vhost-vdpa"


@dataclass(frozen=True, slots=True)
class VdpaDevice:
    """A vDPA device.

    Attributes:
        name: such as ``vdpa0``.
        kind: `VHOST`, `VIRTIO`, or empty if it is bound to neither driver.
        path: its character device, for vhost.
    """

    name: str
    kind: str = ""
    path: str = ""


def vdpa_devices(sysfs: Path) -> Mapping[str, VdpaDevice]:
    """Return the first vDPA device of each PCI function by the function's address."""
    folder = sysfs / "bus/vdpa/devices"
    found: dict[str, VdpaDevice] = {}
    for name in names_in(folder):
        address = nearest_address(folder / name)
        if address and address not in found:
            found[address] = _described(folder / name)
    return found


def _described(folder: Path) -> VdpaDevice:
    kind = DRIVERS.get(target_of(folder / "driver"), "")
    vhost = [name for name in names_in(folder) if name.startswith(_VHOST_PREFIX)]
    path = f"/dev/{vhost[0]}" if kind == VHOST and vhost else ""
    return VdpaDevice(folder.name, kind, path)
