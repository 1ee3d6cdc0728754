"""The hierarchy of a machine as producers tell it: sockets, dies, NUMA nodes, caches, pools.

Zones of an NRT may have any type and may name a parent. `LEVELS` says which level of the canonical
hierarchy a type is. RTE, NFD, koordlet and our exporter write ``Node``; the rest are the words of
nri-plugins (August 2026), whose policy ``topology-aware`` writes a tree from the whole machine down
to L3 caches, and whose policy ``balloons`` writes pools of CPUs and the containers in them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from numakube.api.nrt import ZONE_TYPE_NODE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numakube.api.nrt import Zone
    from numakube.topology.topology_view import NodeTopology
    from numakube.values.resources import Amounts

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
class Part:
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
        and any(one.name == MEMORY_SET for one in zone.attributes)
    ]


def within(view: NodeTopology, numa_id: int) -> tuple[str, ...]:
    """Return what a NUMA node is part of, from the outside in, the whole machine left out."""
    if view.report is not None:
        nodes = (node for node in view.report.machine.nodes if node.id == numa_id)
        sockets = {core.socket for node in nodes for core in node.cores}
        return ("+".join(f"socket {socket}" for socket in sorted(sockets)),) if sockets else ()
    part = next((one for one in view.parts if one.numa_id == numa_id), None)
    if part is None:
        return ()
    by_name = {one.name: one for one in view.parts}
    parents = {one.name: one.parent for one in view.parts}
    around = [by_name[name] for name in _upwards(part.parent, parents)]
    own = (part.name,) if part.level is not Level.NUMA else ()
    outer = (one.name for one in reversed(around) if one.level is not Level.MACHINE)
    return (*outer, *own)


def in_order(parts: Sequence[Part]) -> Iterator[tuple[int, Part]]:
    """Yield every part once, with its depth: below the one that it belongs to, where that is told.

    Parts that belong to each other in a circle stand at the top.
    """
    names = {part.name for part in parts}
    circles = in_circles({part.name: part.parent for part in parts})
    children: dict[str, list[Part]] = {}
    top: list[Part] = []
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
