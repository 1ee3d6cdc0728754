"""What is known of one node's zones, in numbers, as the decision needs it.

Two amounts count for each zone: what is free, and the total by which the kubelet judges how small a
placement could be. That total includes reserved and busy CPUs and unhealthy devices, but for memory
only what pods may use (kubelet 1.35: the hint providers in pkg/kubelet/cm).

The report's attributes say whether a manager is on. A report without them is taken at its
data: a kubelet whose manager is off gives no allocatable CPUs or memory to report, so
zones that have some mean a manager that is on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Final

from numakube.kubelet.kubelet_versions import behaviour_of
from numakube.kubelet.pod_demand import DemandRules, demand_rules
from numakube.scheduling.snapshot.zone_table import UNKNOWN_DISTANCE
from numakube.values.resources import CPU, ResourceKind, is_memory, kind_of
from numakube.values.topology_policy import TopologyPolicy, TopologyScope

if TYPE_CHECKING:
    from collections.abc import Callable

    from numakube.topology.topology_view import NodeTopology, ZoneView
    from numakube.values.resources import Amounts

LOCAL_DISTANCE: Final = 10

Distances = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, kw_only=True)
class NodeRules:
    """How a node's kubelet decides; nodes with equal rules are judged together.

    Attributes:
        zones: how many zones the node has.
        reported: the resources that any zone names.
        closest: the option ``prefer-closest-numa-nodes``.
        by_socket: the option ``align-by-socket``, which makes more sets of zones acceptable and
            takes CPUs from any zone of a socket.
        cpus_per_core: what numbers of CPUs must be a multiple of: 1, unless ``full-pcpus-only``
            is on and the machine is known.
        shared_devices: resources that have devices near several zones; each zone counts them.
        stray_devices: resources that have devices near no zone. No hint counts those, but a kubelet
            gives them out where its hint leaves the zone open, as on a node of one zone.
        connected: whether the report says how devices of several resources are connected.
        exact: whether the kubelet model can be asked.
        told: whether the report says which managers are on.
        demand: how the kubelet reads pods with pod-level resources.
    """

    zones: int
    policy: TopologyPolicy
    scope: TopologyScope = TopologyScope.CONTAINER
    manages_cpu: bool = True
    manages_memory: bool = True
    reported: frozenset[str] = frozenset()
    closest: bool = False
    by_socket: bool = False
    cpus_per_core: int = 1
    shared_devices: frozenset[str] = frozenset()
    stray_devices: frozenset[str] = frozenset()
    connected: bool = False
    exact: bool = False
    told: bool = True
    demand: DemandRules = field(default_factory=DemandRules)

    @cached_property
    def devices(self) -> tuple[str, ...]:
        """The device resources that any zone names, by name."""
        extended = (name for name in self.reported if kind_of(name) is ResourceKind.EXTENDED)
        return tuple(sorted(extended))

    @cached_property
    def refuses_unaligned(self) -> bool:
        """Whether the policy refuses pods that cannot be aligned."""
        return self.policy in (TopologyPolicy.SINGLE_NUMA_NODE, TopologyPolicy.RESTRICTED)


@dataclass(frozen=True, kw_only=True)
class NodeCounts:
    """One node in numbers; zones are known by position, ``ids`` has their NUMA ids.

    Most decisions look at little of it, so that what follows from the report is worked out when it
    is asked for.

    Attributes:
        zones: what the report says of each.
        free: what each zone has left, reservations taken off.
    """

    rules: NodeRules
    zones: tuple[ZoneView, ...]
    free: tuple[Amounts, ...]

    @cached_property
    def ids(self) -> tuple[int, ...]:
        """The NUMA id of each zone."""
        return tuple([zone.id for zone in self.zones])

    @cached_property
    def totals(self) -> tuple[Amounts, ...]:
        """What each zone has when nothing runs."""
        return tuple([_totals(zone.capacity, zone.allocatable) for zone in self.zones])

    @cached_property
    def allocatable(self) -> tuple[Amounts, ...]:
        """What pods may use of that."""
        return tuple([zone.allocatable for zone in self.zones])

    @cached_property
    def distances(self) -> Distances:
        """How far it is from each zone to each."""
        return tuple(
            tuple(zone.costs.get(other, UNKNOWN_DISTANCE) for other in self.ids)
            for zone in self.zones
        )


def counts_of(topology: NodeTopology, available: tuple[Amounts, ...]) -> NodeCounts:
    """Return the numbers of a node from its report and what is believed to be free."""
    return NodeCounts(rules=_rules_in(_SameRules(topology)), zones=topology.zones, free=available)


class _SameRules:
    """A report as a key that only itself equals: comparing what is in it would take longer."""

    __slots__ = ("topology",)

    def __init__(self, topology: NodeTopology) -> None:
        self.topology = topology

    def __hash__(self) -> int:
        return id(self.topology)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _SameRules) and self.topology is other.topology


@lru_cache(maxsize=256)
def _rules_in(report: _SameRules) -> NodeRules:
    return rules_of(report.topology)


def rules_of(topology: NodeTopology) -> NodeRules:
    """Return how the node decides, as far as its report tells."""
    zones = topology.zones
    return NodeRules(
        zones=len(zones),
        reported=frozenset(name for zone in zones for name in zone.available),
        policy=topology.policy,
        scope=topology.scope,
        manages_cpu=manages_cpu(topology),
        manages_memory=manages_memory(topology),
        closest=prefers_closest(topology),
        by_socket=aligns_by_socket(topology),
        cpus_per_core=cpus_per_core(topology),
        shared_devices=_devices_near(topology, lambda nodes: len(nodes) > 1),
        stray_devices=_devices_near(topology, lambda nodes: not nodes),
        connected=topology.report is not None and topology.report.connects_devices,
        exact=topology.report is not None,
        told=None not in (topology.cpu_manager_policy, topology.memory_manager_policy),
        demand=demand_rules_of(topology),
    )


def manages_cpu(topology: NodeTopology) -> bool:
    """Tell whether the CPU Manager gives out whole CPUs."""
    if topology.cpu_manager_policy is None:
        return any(zone.allocatable.get(CPU, 0) > 0 for zone in topology.zones)
    return topology.cpu_manager_policy == "static"


def manages_memory(topology: NodeTopology) -> bool:
    """Tell whether the Memory Manager places memory."""
    if topology.memory_manager_policy is None:
        return any(_has_memory(zone.allocatable) for zone in topology.zones)
    return topology.memory_manager_policy == "Static"


def prefers_closest(topology: NodeTopology) -> bool:
    """Tell whether distances decide between sets of zones of the same size."""
    return _is_on(topology.topology_options.get("prefer-closest-numa-nodes"))


def aligns_by_socket(topology: NodeTopology) -> bool:
    """Tell whether CPUs are aligned by socket."""
    return _is_on(topology.cpu_manager_options.get("align-by-socket"))


def cpus_per_core(topology: NodeTopology) -> int:
    """Return what numbers of CPUs must be a multiple of; only an exact report tells."""
    if topology.report is None or not _is_on(topology.cpu_manager_options.get("full-pcpus-only")):
        return 1
    machine = topology.report.machine
    cores = sum(len(node.cores) for node in machine.nodes)
    return max(1, machine.cpu_count // cores) if cores else 1


def _devices_near(
    topology: NodeTopology, nodes_are: Callable[[tuple[int, ...]], bool]
) -> frozenset[str]:
    """Return the resources with a device near such NUMA nodes; only an exact report tells."""
    if topology.report is None:
        return frozenset()
    return frozenset(
        name
        for name, table in topology.report.devices.items()
        if any(map(nodes_are, table.numa_nodes))
    )


def demand_rules_of(topology: NodeTopology) -> DemandRules:
    """Return how the kubelet reads pod-level resources; without exact data, as by default."""
    report = topology.report
    if report is None:
        return DemandRules()
    return demand_rules(report.settings, behaviour_of(report.kubernetes))


def _totals(capacity: Amounts, allocatable: Amounts) -> Amounts:
    if capacity == allocatable:
        return allocatable
    return {
        name: amount if is_memory(name) else max(amount, capacity.get(name, 0))
        for name, amount in allocatable.items()
    }


def _has_memory(amounts: Amounts) -> bool:
    return any(amount > 0 and is_memory(name) for name, amount in amounts.items())


def _is_on(option: str | None) -> bool:
    return option is not None and option.lower() in _TRUE


# What Go reads as true, in lower case.
_TRUE: Final = frozenset({"1", "t", "true"})
