"""What the Go plugin reads from an NRT: the Topology Manager's configuration, and NUMA zones.

The configuration is the defaults, then the first legacy ``topologyPolicies``, then attributes in
order; odd values change nothing. Legacy values without a scope say nothing here, unlike in
`numakube.topology.kubelet_attributes`.

Zones of another type or with a name other than ``node-<id>`` do not count. Ids above 63 do not
either; the Go plugin panics on 64. Zones keep the order of the object, and two with the same id
both count, with the costs of the last.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from numakube.api.nrt import POLICY_AND_SCOPE, ZONE_TYPE_NODE, numa_id_of
from numakube.errors import InvalidValue
from numakube.topology import nrt_names
from numakube.topology.kubelet_attributes import DEFAULT_MAX_NUMA_NODES, LARGEST_MAX_NUMA_NODES
from numakube.values.gotext import parse_integer
from numakube.values.numamask import MAX_NODE_ID
from numakube.values.quantity import parse_quantity
from numakube.values.topology_policy import TopologyPolicy, TopologyScope

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numakube.api.nrt import Cost, NodeResourceTopology
    from numakube.values.quantity import Quantity

_POLICIES: Final = tuple(TopologyPolicy)
_SCOPES: Final = tuple(TopologyScope)
_REMEMBERED: Final = 1024
"""Readings kept; what-ifs of preemption make an NRT each, which is never seen again."""


@dataclass(frozen=True, slots=True)
class TopologyManager:
    """How a node's kubelet aligns."""

    policy: TopologyPolicy = TopologyPolicy.NONE
    scope: TopologyScope = TopologyScope.CONTAINER
    max_numa_nodes: int = DEFAULT_MAX_NUMA_NODES

    @property
    def is_single_numa_node(self) -> bool:
        """Tell whether pods or containers must fit one zone."""
        return self.policy is TopologyPolicy.SINGLE_NUMA_NODE

    @property
    def is_pod_scope(self) -> bool:
        """Tell whether the pod is aligned as a whole."""
        return self.scope is TopologyScope.POD


def topology_manager(nrt: NodeResourceTopology) -> TopologyManager:
    """Return what *nrt* says, and the kubelet's defaults for the rest."""
    policy, scope = POLICY_AND_SCOPE.get(
        nrt.topology_policies[0] if nrt.topology_policies else "",
        (TopologyPolicy.NONE, TopologyScope.CONTAINER),
    )
    max_numa_nodes = DEFAULT_MAX_NUMA_NODES
    for attribute in nrt.attributes:
        if attribute.name == nrt_names.TOPOLOGY_POLICY and attribute.value in _POLICIES:
            policy = TopologyPolicy(attribute.value)
        elif attribute.name == nrt_names.TOPOLOGY_SCOPE and attribute.value in _SCOPES:
            scope = TopologyScope(attribute.value)
        elif attribute.name == nrt_names.MAX_NUMA_NODES:
            max_numa_nodes = _max_numa_nodes(attribute.value) or max_numa_nodes
    return TopologyManager(policy, scope, max_numa_nodes)


def _max_numa_nodes(text: str) -> int | None:
    try:
        number = parse_integer(text)
    except InvalidValue:
        return None
    return min(number, LARGEST_MAX_NUMA_NODES) if number > 1 else None


@dataclass(slots=True)
class NumaZone:
    """One NUMA zone; ``available`` is changed while containers are placed one after the other."""

    id: int
    available: dict[str, Quantity]
    costs: dict[int, int]

    def copy(self) -> NumaZone:
        """Return a zone from which can be taken without changing this one."""
        return NumaZone(self.id, dict(self.available), self.costs)


@dataclass(frozen=True, slots=True)
class Reading:
    """What one NRT says; ``zones`` are shared, copy those that are changed."""

    manager: TopologyManager
    zones: tuple[NumaZone, ...]


def read(nrt: NodeResourceTopology) -> Reading | None:
    """Return what *nrt* says; ``None`` if it has a quantity that Go could not have decoded."""
    try:
        return Reading(topology_manager(nrt), tuple(numa_zones(nrt)))
    except InvalidValue:
        return None


class Reader:
    """Reads NRTs and remembers what they say: nodes outlive cycles."""

    def __init__(self) -> None:
        # The object is kept beside its reading, so that its identity stays its own.
        self._known: dict[int, tuple[NodeResourceTopology, Reading | None]] = {}

    def read(self, nrt: NodeResourceTopology) -> Reading | None:
        """Return what `read` does, from memory if possible."""
        known = self._known.get(id(nrt))
        if known is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            known = self._known[id(nrt)] = (nrt, read(nrt))
        return known[1]


def numa_zones(nrt: NodeResourceTopology) -> list[NumaZone]:
    """Return the zones of *nrt*; raise `InvalidValue` for a malformed quantity."""
    costs: dict[int, dict[int, int]] = {}
    zones = []
    for zone in nrt.zones:
        numa_id = _numa_id(zone.name) if zone.type == ZONE_TYPE_NODE else None
        if numa_id is None:
            continue
        costs[numa_id] = _costs(zone.costs)
        available = {one.name: parse_quantity(one.available) for one in zone.resources}
        zones.append(NumaZone(numa_id, available, {}))
    for made in zones:
        made.costs = costs[made.id]
    return zones


@lru_cache(maxsize=1024)
def _numa_id(name: str) -> int | None:
    try:
        number = numa_id_of(name)
    except InvalidValue:
        return None
    return number if number <= MAX_NODE_ID else None


def _costs(costs: Iterable[Cost]) -> dict[int, int]:
    known = ((_numa_id(cost.name), cost.value) for cost in costs)
    return {numa_id: value for numa_id, value in known if numa_id is not None}
