"""From the zones of an NRT to the NUMA nodes of a machine, and to its hierarchy.

Zones of type ``Node`` or ``numa node`` are NUMA nodes, and sockets and dies of nri-plugins that
stand for one; `LEVELS` has the types. Upstream asks for names
``node-<id>``; here any name that ends in a number will do, because some producers write ``NUMA node
#0`` or ``0``. A NUMA node that cannot be identified makes the whole object useless: without it, the
smallest number of nodes a request needs would come out wrong.

A bad quantity gives no credit: the zone has nothing of that resource, and a problem is noted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from numakube.api.nrt import ZONE_TYPE_NODE, attribute_value, numa_id_of
from numakube.errors import InvalidValue
from numakube.values.cpuset import CpuSet
from numakube.values.gotext import INT64_MAX
from numakube.values.numamask import MAX_NODE_ID
from numakube.values.quantity import Quantity, parse_quantity
from numakube.values.resources import CPU

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numakube.api.codec import QuantityText
    from numakube.api.nrt import Zone, ZoneResource
    from numakube.topology.topology_view import NodeTopology
    from numakube.values.resources import Amounts


# The hierarchy of a machine as producers tell it: sockets, dies, NUMA nodes, caches, pools.
#
# Zones of an NRT may have any type and may name a parent. `LEVELS` says which level of the
# canonical hierarchy a type is. RTE, NFD, koordlet and our exporter write ``Node``; the rest are
# the words of nri-plugins (August 2026), whose policy ``topology-aware`` writes a tree from the
# whole machine down to L3 caches, and whose policy ``balloons`` writes pools of CPUs and the
# containers in them.


ZONE_TYPE_SOCKET: Final = "socket"
MEMORY_SET: Final = "memory set"
"""The attribute of nri-plugins' zones that lists the NUMA nodes of their memory."""


class Level(StrEnum):
    """What a part of a machine is; every producer has its own words for it."""

    MACHINE = "machine"
    SOCKET = "socket"
    DIE = "die"
    NUMA = "numa"
    L3 = "l3"
    POOL = "pool"
    CONTAINER = "container"
    OTHER = "other"


LEVELS: Final[Mapping[str, Level]] = {
    ZONE_TYPE_NODE: Level.NUMA,
    "numa node": Level.NUMA,
    "virtual node": Level.MACHINE,
    ZONE_TYPE_SOCKET: Level.SOCKET,
    "die": Level.DIE,
    "L3 cache": Level.L3,
    "balloon": Level.POOL,
    "allocation for container": Level.CONTAINER,
}
"""The types that producers write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachinePart:
    """One part of a machine.

    Attributes:
        name: as the producer calls it; so is ``type``.
        parent: the name of the part that it belongs to; empty at the top.
        numa_id: the NUMA node that it is; ``None`` if it is none.
        allocatable: by resource in base units; so is ``available``.
    """

    name: str
    type: str
    level: Level
    parent: str = ""
    numa_id: int | None = None
    allocatable: Amounts = field(default_factory=lambda: MappingProxyType({}))
    available: Amounts = field(default_factory=lambda: MappingProxyType({}))
    attributes: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


def level_of(zone: Zone) -> Level:
    """Return the level of a zone's type; types that nobody is known to write are `Level.OTHER`."""
    return LEVELS.get(zone.type, Level.OTHER)


def is_flat(zones: Sequence[Zone]) -> bool:
    """Tell whether *zones* are NUMA nodes side by side, as most producers write them."""
    return all(zone.type == ZONE_TYPE_NODE and not zone.parent for zone in zones)


def standing_for_numa_nodes(zones: Sequence[Zone]) -> list[Zone]:
    """Return the sockets and dies that are one NUMA node each, and have no zone for it.

    nri-plugins leaves out the NUMA node of a socket or die that has only one. The memory of such a
    zone tells which one it is.
    """
    parents = {zone.name: zone.parent for zone in zones}
    divided: set[str] = set()
    for zone in zones:
        above = zone.parent if level_of(zone) in (Level.DIE, Level.NUMA) else ""
        while above in parents and above not in divided:
            divided.add(above)
            above = parents[above]
    return [
        zone
        for zone in zones
        if level_of(zone) in (Level.SOCKET, Level.DIE)
        and zone.name not in divided
        and any(attribute.name == MEMORY_SET for attribute in zone.attributes)
    ]


def within(view: NodeTopology, numa_id: int) -> tuple[str, ...]:
    """Return what a NUMA node is part of, from the outside in, the whole machine left out."""
    if view.report is not None:
        nodes = (node for node in view.report.machine.nodes if node.id == numa_id)
        sockets = {core.socket for node in nodes for core in node.cores}
        return ("+".join(f"socket {socket}" for socket in sorted(sockets)),) if sockets else ()
    part = next((part for part in view.parts if part.numa_id == numa_id), None)
    if part is None:
        return ()
    by_name = {part.name: part for part in view.parts}
    parents = {part.name: part.parent for part in view.parts}
    around = [by_name[name] for name in _upwards(part.parent, parents)]
    own = (part.name,) if part.level is not Level.NUMA else ()
    outer = (part.name for part in reversed(around) if part.level is not Level.MACHINE)
    return (*outer, *own)


def in_order(parts: Sequence[MachinePart]) -> Iterator[tuple[int, MachinePart]]:
    """Yield every part once, with its depth: below the one that it belongs to, where that is told.

    Parts that belong to each other in a circle stand at the top.
    """
    names = {part.name for part in parts}
    circles = in_circles({part.name: part.parent for part in parts})
    children: dict[str, list[MachinePart]] = {}
    top: list[MachinePart] = []
    for part in parts:
        rooted = part.parent in names and part.name not in circles
        (children.setdefault(part.parent, []) if rooted else top).append(part)
    waiting = [(0, part) for part in reversed(top)]
    while waiting:
        depth, part = waiting.pop()
        yield depth, part
        below = children.pop(part.name, [])
        waiting += [(depth + 1, child) for child in reversed(below)]


def in_circles(parents: Mapping[str, str]) -> set[str]:
    """Return the names that are their own ancestors; every name is looked at once."""
    found: set[str] = set()
    seen: set[str] = set()
    for start in parents:
        name, path = start, dict[str, None]()
        while name in parents and name not in seen:
            seen.add(name)
            path[name] = None
            name = parents[name]
        if name in path:
            names = list(path)
            found.update(names[names.index(name) :])
    return found


def _upwards(name: str, parents: Mapping[str, str]) -> Iterator[str]:
    """Yield *name* and the names around it, the nearest first; a circle ends."""
    seen: set[str] = set()
    while name in parents and name not in seen:
        yield name
        seen.add(name)
        name = parents[name]


_NUMBER_AT_END: Final = re.compile(r"(?:.*[^0-9])?([0-9]{1,9})", re.DOTALL)
_LARGEST: Final = Quantity.of_count(INT64_MAX // 1000)


@dataclass(frozen=True, slots=True)
class Unusable:
    """Why the data of a node cannot be used; the node is then one without data.

    Attributes:
        parts: what the object tells besides NUMA nodes, for people to look at.
    """

    reason: str
    parts: tuple[MachinePart, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneView:
    """One NUMA node: amounts in base units, costs by NUMA id (10 is local)."""

    id: int
    name: str
    capacity: Amounts
    allocatable: Amounts
    available: Amounts
    costs: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({}))
    attributes: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


def numa_zones(zones: Sequence[Zone], problems: list[str]) -> tuple[ZoneView, ...] | Unusable:
    """Return the NUMA nodes among *zones* by id, or why they are unknown."""
    nodes = _numa_nodes(zones, problems)
    if not nodes:
        return Unusable(_no_nodes(zones), parts=other_parts(zones, ()))
    ids: dict[str, int] = {}
    for zone, number in nodes:
        if number is None:
            return Unusable(f"zone {zone.name!r}: the name has no NUMA id from 0 to {MAX_NODE_ID}")
        if number in ids.values():
            return Unusable(f"zone {zone.name!r}: NUMA id {number} appears twice")
        ids[zone.name] = number
    views = [_view(zone, ids, problems) for zone, _ in nodes]
    return tuple(sorted(views, key=lambda view: view.id))


def other_parts(zones: Sequence[Zone], nodes: Sequence[ZoneView]) -> tuple[MachinePart, ...]:
    """Return all zones with their places in the hierarchy; none if there is no hierarchy."""
    if is_flat(zones):
        return ()
    ids = {node.name: node.id for node in nodes}
    return tuple(_part(zone, ids) for zone in zones)


def _part(zone: Zone, ids: Mapping[str, int]) -> MachinePart:
    # What is wrong with the amounts of NUMA nodes is told elsewhere; the others decide nothing.
    amounts = {resource.name: _amounts(resource, "", []) for resource in zone.resources}
    return MachinePart(
        name=zone.name,
        type=zone.type,
        level=level_of(zone),
        parent=zone.parent,
        numa_id=ids.get(zone.name),
        allocatable={name: allocatable for name, (_, allocatable, _) in amounts.items()},
        available={name: available for name, (_, _, available) in amounts.items()},
        attributes={attribute.name: attribute.value for attribute in reversed(zone.attributes)},
    )


def _numa_nodes(zones: Sequence[Zone], problems: list[str]) -> list[tuple[Zone, int | None]]:
    """Return the zones that are NUMA nodes, with their ids."""
    told = _without_nested([zone for zone in zones if level_of(zone) is Level.NUMA], problems)
    nodes = [(zone, _numa_id(zone.name)) for zone in told]
    if is_flat(zones):
        return nodes
    return [*nodes, *((zone, _id_of_memory(zone)) for zone in standing_for_numa_nodes(zones))]


def _id_of_memory(zone: Zone) -> int | None:
    """Return the first NUMA node of a zone's memory: those after it have memory and no CPUs."""
    text = attribute_value(zone.attributes, MEMORY_SET) or ""
    try:
        ids = list(CpuSet.parse(text))
    except InvalidValue:
        return None
    return ids[0] if ids and ids[0] <= MAX_NODE_ID else None


def _no_nodes(zones: Sequence[Zone]) -> str:
    if not zones:
        return "there are no zones"
    types = ", ".join(sorted({repr(zone.type) for zone in zones}))
    pools = all(level_of(zone) in (Level.POOL, Level.CONTAINER) for zone in zones)
    more = ": pools of CPUs tell no NUMA nodes" if pools else ""
    return f"no zone has type {ZONE_TYPE_NODE!r}; found {types}{more}"


def _without_nested(nodes: list[Zone], problems: list[str]) -> list[Zone]:
    """Drop parts of other NUMA nodes, which would be counted twice."""
    names = {zone.name for zone in nodes}
    kept = []
    for zone in nodes:
        if zone.parent in names and zone.parent != zone.name:
            problems.append(f"zone {zone.name!r}: ignored as a part of zone {zone.parent!r}")
        else:
            kept.append(zone)
    return kept


def _numa_id(name: str) -> int | None:
    try:
        number = numa_id_of(name)
    except InvalidValue:
        match = _NUMBER_AT_END.fullmatch(name)
        if match is None or name.startswith("node-"):
            return None
        number = int(match[1])
    return number if number <= MAX_NODE_ID else None


def _view(zone: Zone, ids: Mapping[str, int], problems: list[str]) -> ZoneView:
    capacity: dict[str, int] = {}
    allocatable: dict[str, int] = {}
    available: dict[str, int] = {}
    for resource in zone.resources:
        where = f"zone {zone.name!r}: {resource.name}"
        if resource.name in available:
            problems.append(f"{where}: appears twice, the last one counts")
        (
            capacity[resource.name],
            allocatable[resource.name],
            available[resource.name],
        ) = _amounts(resource, where, problems)
    return ZoneView(
        id=ids[zone.name],
        name=zone.name,
        capacity=_shared_amounts(tuple(capacity.items())),
        allocatable=_shared_amounts(tuple(allocatable.items())),
        available=available,
        costs=_shared_costs(tuple(_costs(zone, ids, problems).items())),
        attributes={attribute.name: attribute.value for attribute in reversed(zone.attributes)},
    )


@lru_cache(maxsize=16384)
def _shared_amounts(items: tuple[tuple[str, int], ...]) -> Amounts:
    """Return *items* as a mapping, the same one for all machines that are alike."""
    return dict(items)


@lru_cache(maxsize=16384)
def _shared_costs(items: tuple[tuple[int, int], ...]) -> Mapping[int, int]:
    return dict(items)


def _amounts(resource: ZoneResource, where: str, problems: list[str]) -> tuple[int, int, int]:
    """Return capacity, allocatable and available, the latter never above allocatable."""
    texts = (resource.capacity, resource.allocatable, resource.available)
    try:
        capacity, allocatable, available = (
            _amount(text, milli=resource.name == CPU) for text in texts
        )
    except InvalidValue as error:
        problems.append(f"{where}: read as none: {error}")
        return 0, 0, 0
    if available < 0:
        problems.append(f"{where}: available is negative, read as 0")
        available = 0
    if available > allocatable:
        problems.append(f"{where}: more available than allocatable, read as allocatable")
        available = max(0, allocatable)
    return capacity, allocatable, available


# The same few counts stand in the zones of a whole cluster, and a zone's sizes in all its reports.
@lru_cache(maxsize=65536, typed=True)
def _amount(text: QuantityText, *, milli: bool) -> int:
    """Return a quantity in base units, rounded down: a part of a device cannot be given out."""
    quantity = parse_quantity(text)
    if quantity > _LARGEST:
        raise InvalidValue(f"quantity {text!r}: too large")
    amount = quantity.milli_value() if milli else quantity.value()
    exact = Quantity.of_milli(amount) if milli else Quantity.of_count(amount)
    return amount - 1 if exact > quantity else amount


def _costs(zone: Zone, ids: Mapping[str, int], problems: list[str]) -> dict[int, int]:
    costs = {}
    for cost in zone.costs:
        if cost.name in ids:
            costs[ids[cost.name]] = cost.value
        else:
            problems.append(f"zone {zone.name!r}: cost to unknown zone {cost.name!r} ignored")
    return dict(sorted(costs.items()))
