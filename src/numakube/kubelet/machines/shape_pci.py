"""What the devices of a shape are attached to: switches, slots and links, as a tree of addresses.

Each switch and each card has a host bridge to itself, as in today's servers: devices of one NUMA
node behind different ones are ``NODE`` to each other. Buses are numbered by ascending NUMA id.
Where devices without NUMA node are attached is not known.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import combinations, count
from typing import TYPE_CHECKING, Final

from numakube.kubelet.device_connections import NO_TREE, PciPath, tree_of
from numakube.kubelet.machines.shape import Attachment, LinksClause, PciClause

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numakube.kubelet.device_connections import DeviceTree
    from numakube.kubelet.machine import Device, Machine
    from numakube.kubelet.machines.shape import Shape

_KINDS: Final = {1: Attachment.SLOTS, 3: Attachment.SWITCHES, 5: Attachment.CASCADES}
"""By the number of bridges above a device."""

_BUSES: Final = 0x100
_PLACES: Final = 32
"""Devices that a bus has room for."""


def attached(
    shape: Shape, devices: Mapping[str, tuple[Device, ...]]
) -> tuple[dict[str, tuple[Device, ...]], DeviceTree]:
    """Return *devices* with their addresses, and how they are connected."""
    if shape.pci is None:
        return dict(devices), NO_TREE
    paths = _Buses(shape.pci).attach(sorted(shape.node_ids), devices)
    known = {
        resource: tuple(
            replace(one, pci=paths[resource, one.id].address) if one.numa_nodes else one
            for one in some
        )
        for resource, some in devices.items()
    }
    links = {
        pair: clause.count
        for clause in shape.links
        for pair in _pairs(known.get(clause.resource, ()))
    }
    return known, tree_of(paths.values(), links)


def pci_of(machine: Machine) -> PciClause | None:
    """Return the clause that attaches the devices of *machine*, if one does."""
    depths = {len(path.bridges) for path in machine.tree.paths.values()}
    kind = _KINDS.get(max(depths, default=0))
    if kind is None:
        return None
    places: dict[object, set[str]] = defaultdict(set)
    for resource, devices in machine.devices.items():
        for one in devices:
            path = machine.tree.paths.get(one.pci)
            if path is not None:
                here = (path.numa_node, resource) if kind is Attachment.SLOTS else path.numa_node
                places[here].add(path.root)
    return PciClause(kind, max(map(len, places.values()), default=1))


def links_of(machine: Machine) -> tuple[LinksClause, ...]:
    """Return the clauses that link the devices of *machine*, as far as clauses can."""
    found = []
    for resource, devices in machine.devices.items():
        counts = {machine.tree.links.get(pair, 0) for pair in _pairs(devices)}
        if len(counts) == 1 and counts != {0}:
            found.append(LinksClause(resource, counts.pop()))
    return tuple(found)


def _pairs(devices: Sequence[Device]) -> Iterator[tuple[str, str]]:
    return combinations(sorted({one.pci for one in devices if one.pci}), 2)


class _Buses:
    """Gives out buses and addresses."""

    def __init__(self, clause: PciClause) -> None:
        self._clause = clause
        self._numbers = count()

    def attach(
        self, nodes: Sequence[int], devices: Mapping[str, tuple[Device, ...]]
    ) -> dict[tuple[str, str], PciPath]:
        """Return the path of each device that has a NUMA node."""
        paths: dict[tuple[str, str], PciPath] = {}
        for node in nodes:
            here = {
                resource: [one.id for one in some if one.numa_nodes[:1] == (node,)]
                for resource, some in devices.items()
            }
            slots = self._clause.kind is Attachment.SLOTS
            paths |= self._cards(node, here) if slots else self._switches(node, here)
        return paths

    def _cards(
        self, node: int, devices: Mapping[str, Sequence[str]]
    ) -> dict[tuple[str, str], PciPath]:
        paths: dict[tuple[str, str], PciPath] = {}
        for resource, ids in devices.items():
            for card in _dealt(ids, min(self._clause.count, len(ids))):
                root, port = self._root()
                path = PciPath(_address(next(self._numbers)), root, (port,), node)
                paths |= {(resource, id_): path for id_ in card}
        return paths

    def _switches(
        self, node: int, devices: Mapping[str, Sequence[str]]
    ) -> dict[tuple[str, str], PciPath]:
        number = min(self._clause.count, max(map(len, devices.values()), default=0))
        shares = {resource: _dealt(ids, number) for resource, ids in devices.items()}
        paths: dict[tuple[str, str], PciPath] = {}
        for switch in range(number):
            behind = [(name, id_) for name, share in shares.items() for id_ in share[switch]]
            root, port = self._root()
            above = (port, _address(next(self._numbers)))
            for place, device in enumerate(behind):
                if place % _PLACES == 0:
                    bus = next(self._numbers)
                ports = (*above, _address(bus, place % _PLACES), *self._second_stage())
                paths[device] = PciPath(_address(next(self._numbers)), root, ports, node)
        return paths

    def _second_stage(self) -> tuple[str, ...]:
        if self._clause.kind is not Attachment.CASCADES:
            return ()
        return _address(next(self._numbers)), _address(next(self._numbers))

    def _root(self) -> tuple[str, str]:
        """Return the next host bridge and its root port."""
        bus = next(self._numbers)
        domain, number = divmod(bus, _BUSES)
        return f"pci{domain:04x}:{number:02x}", _address(bus, 1)


def _dealt(ids: Sequence[str], number: int) -> list[list[str]]:
    """Return *ids* in *number* parts, as even as they get, in order."""
    parts: list[list[str]] = [[] for _ in range(number)]
    for position, id_ in enumerate(ids):
        parts[position * number // len(ids)].append(id_)
    return parts


def _address(bus: int, place: int = 0) -> str:
    domain, number = divmod(bus, _BUSES)
    return f"{domain:04x}:{number:02x}:{place:02x}.0"
