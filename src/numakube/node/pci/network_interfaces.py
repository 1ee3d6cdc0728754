"""Network interfaces of PCI functions: which is the uplink, what link it is, and who routes by it.

All of it is read from files: ``type`` has the number that netlink would give a name, the uplink of
a switch tells itself by ``phys_switch_id`` and ``phys_port_name``, and the kernel's routing table
is in ``/proc``.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from numakube.node.pci.sysfs_files import names_in, number_of, text_of

if TYPE_CHECKING:
    from collections.abc import Sequence
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
