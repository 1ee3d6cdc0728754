"""From the zones of an NRT to the NUMA nodes of a machine.

Zones of type ``Node`` or ``numa node`` are NUMA nodes, and sockets and dies of nri-plugins that
stand for one; `numakube.topology.machine_hierarchy` knows the types. Upstream asks for names
``node-<id>``; here any name that ends in a number will do, because some producers write ``NUMA node
#0`` or ``0``. A NUMA node that cannot be identified makes the whole object useless: without it, the
smallest number of nodes a request needs would come out wrong.

A bad quantity gives no credit: the zone has nothing of that resource, and a problem is noted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from numakube.api.nrt import ZONE_TYPE_NODE, attribute_value, numa_id_of
from numakube.errors import InvalidValue
from numakube.topology.machine_hierarchy import (
    MEMORY_SET,
    Level,
    Part,
    is_flat,
    level_of,
    standing_for_numa_nodes,
)
from numakube.values.cpuset import CpuSet
from numakube.values.gotext import INT64_MAX
from numakube.values.numamask import MAX_NODE_ID
from numakube.values.quantity import Quantity, parse_quantity
from numakube.values.resources import CPU

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numakube.api.codec import QuantityText
    from numakube.api.nrt import Zone, ZoneResource
    from numakube.values.resources import Amounts

_NUMBER_AT_END: Final = re.compile(r"(?:.*[^0-9])?([0-9]{1,9})", re.DOTALL)
_LARGEST: Final = Quantity.of_count(INT64_MAX // 1000)


@dataclass(frozen=True, slots=True)
class Unusable:
    """Why the data of a node cannot be used; the node is then one without data.

    Attributes:
        parts: what the object tells besides NUMA nodes, for people to look at.
    """

    reason: str
    parts: tuple[Part, ...] = ()


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


def other_parts(zones: Sequence[Zone], nodes: Sequence[ZoneView]) -> tuple[Part, ...]:
    """Return all zones with their places in the hierarchy; none if there is no hierarchy."""
    if is_flat(zones):
        return ()
    ids = {node.name: node.id for node in nodes}
    return tuple(_part(zone, ids) for zone in zones)


def _part(zone: Zone, ids: Mapping[str, int]) -> Part:
    # What is wrong with the amounts of NUMA nodes is told elsewhere; the others decide nothing.
    amounts = {one.name: _amounts(one, "", []) for one in zone.resources}
    return Part(
        name=zone.name,
        type=zone.type,
        level=level_of(zone),
        parent=zone.parent,
        numa_id=ids.get(zone.name),
        allocatable={name: allocatable for name, (_, allocatable, _) in amounts.items()},
        available={name: available for name, (_, _, available) in amounts.items()},
        attributes={one.name: one.value for one in reversed(zone.attributes)},
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
        attributes={one.name: one.value for one in reversed(zone.attributes)},
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
