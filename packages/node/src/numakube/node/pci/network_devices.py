"""What network cards have besides PCI functions: interfaces, RDMA, vDPA and auxiliary devices.

Of network interfaces it is told which is the uplink, what link it is, and who routes by it. All of
it is read from files: ``type`` has the number that netlink would give a name, the uplink of a
switch tells itself by ``phys_switch_id`` and ``phys_port_name``, and the kernel's routing table is
in ``/proc``.

``/sys/bus/vdpa/devices`` links to every vDPA device below the PCI function that it stands on, maybe
with an auxiliary device in between. Of auxiliary devices, subfunctions (SFs) are those that pods
can get.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from numakube.node.pci.pci_functions import names_in, nearest_address, number_of, target_of, text_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


# linux/if_arp.h, under the names that netlink libraries give them.
_LINK_TYPES: Final = MappingProxyType(
    {
        0: "generic",
        1: "ether",
        19: "atm",
        32: "infiniband",
        512: "ppp",
        772: "loopback",
        801: "ieee802.11",
        65534: "none",
    }
)
_UPLINK_PORT: Final = re.compile(r"p[0-9]+")
_DOWN: Final = frozenset({"down", "lowerlayerdown", "notpresent"})
_ANYWHERE: Final = "00000000"
_UP_FLAG: Final = 0x1
_ROUTE_FIELDS: Final = 8


def link_type_of(folder: Path, interfaces: Sequence[str]) -> str:
    """Return the kind of link of the first of *interfaces* below *folder* that tells."""
    for interface in interfaces:
        number = number_of(folder / "net" / interface / "type")
        if number is not None:
            return _LINK_TYPES.get(number, str(number))
    return ""


def uplink_of(folder: Path) -> str:
    """Return the interface of a physical function: of a switch its uplink, else the first."""
    interfaces = names_in(folder / "net")
    for interface in interfaces if len(interfaces) > 1 else ():
        net = folder / "net" / interface
        if text_of(net / "phys_switch_id") and _UPLINK_PORT.fullmatch(
            text_of(net / "phys_port_name") or ""
        ):
            return interface
    return interfaces[0] if interfaces else ""


def is_down(folder: Path, interface: str) -> bool:
    """Tell whether an interface has no link; one that does not say counts as up."""
    return (text_of(folder / "net" / interface / "operstate") or "") in _DOWN


def default_route_interfaces(proc: Path) -> frozenset[str]:
    """Return the interfaces that carry an IPv4 default route of the host.

    The table of process 1 is the host's even if we are in a container with a network of its own
    but see the host's ``/proc``.
    """
    table = text_of(proc / "1/net/route")
    if table is None:
        table = text_of(proc / "net/route") or ""
    rows = [line.split() for line in table.splitlines()[1:]]
    return frozenset(row[0] for row in rows if len(row) >= _ROUTE_FIELDS and _is_default(row))


def _is_default(row: Sequence[str]) -> bool:
    _, destination, _, flags, _, _, _, mask = row[:_ROUTE_FIELDS]
    try:
        is_up = int(flags, 16) & _UP_FLAG
    except ValueError:
        return False
    return bool(is_up) and destination == _ANYWHERE and mask == _ANYWHERE


DEVICE_FOLDER: Final = "/dev/infiniband"
_MANAGER: Final = "rdma_cm"
# Class of sysfs and what its entries' names contain, in the order in which containers get them.
_KINDS: Final = (
    ("infiniband_cm", "ucm"),
    ("infiniband_mad", "issm"),
    ("infiniband_mad", "umad"),
    ("infiniband_verbs", "uverbs"),
)


def rdma_devices(folder: Path) -> tuple[str, ...]:
    """Return the RDMA devices of the function described in *folder*."""
    return names_in(folder / "infiniband")


def character_devices(sysfs: Path) -> Mapping[str, tuple[str, ...]]:
    """Return the names of character devices by the RDMA device that they belong to."""
    found: dict[str, list[str]] = {}
    for class_name, kind in _KINDS:
        folder = sysfs / "class" / class_name
        for name in names_in(folder):
            owner = text_of(folder / name / "ibdev") if kind in name else None
            if owner:
                found.setdefault(owner, []).append(name)
    return {owner: tuple(names) for owner, names in found.items()}


def connection_manager(dev: Path) -> tuple[str, ...]:
    """Return the one character device that all RDMA devices share, if there is one."""
    return (_MANAGER,) if (dev / "infiniband" / _MANAGER).exists() else ()


def default_partition_key(folder: Path) -> str:
    """Return the partition key at index 0 of the first port that has one; empty if none has."""
    for device in rdma_devices(folder):
        ports = folder / "infiniband" / device / "ports"
        for port in names_in(ports):
            key = text_of(ports / port / "pkeys" / "0")
            if key:
                return key
    return ""


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


AUXILIARY_DEVICES: Final = "bus/auxiliary/devices"
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
    folder = sysfs / AUXILIARY_DEVICES
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
