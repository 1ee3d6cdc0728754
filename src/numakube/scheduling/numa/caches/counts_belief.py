"""Beliefs made of counts: what a report says is free, less what pods take off which zones.

They serve where no exact data is: third-party reports, and upstream's caches. What a pod takes
where is exact only if the report has upstream's encoding of NUMA placements; otherwise a pod counts
on every zone that could have it, so that nothing is promised twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from numakube.api.nrt import attribute_value
from numakube.api.pod_resources import GUARANTEED, is_sidecar
from numakube.kubelet.pod_demand import ContainerRole, DemandRules, demand_of
from numakube.topology import nrt_names
from numakube.topology.fingerprint import (
    BadPlacement,
    ContainerName,
    decode_placement,
    read_placement,
)
from numakube.values.cpuset import union
from numakube.values.resources import (
    CPU,
    MILLI_PER_CPU,
    add_amounts,
    amounts_of,
    is_memory,
    is_native,
    largest_amounts,
    quantity_of,
    shortfalls,
)
from numakube.values.topology_policy import TopologyPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numakube.api.nrt import NodeResourceTopology, Zone, ZoneResource
    from numakube.api.pod import Pod
    from numakube.kubelet.admission_outcome import MemoryBlock
    from numakube.kubelet.kubelet_model import KubeletNode
    from numakube.kubelet.machine import Machine
    from numakube.kubelet.pod_demand import PodDemand
    from numakube.scheduling.numa.caches.known_pods import KnownPod
    from numakube.scheduling.numa.caches.latest_reports import LatestReport
    from numakube.scheduling.snapshot.pods import PodInfo
    from numakube.scheduling.snapshot.zone_belief import ZoneUse
    from numakube.topology.exact_report import ExactReport, Holding
    from numakube.topology.fingerprint import Placement
    from numakube.topology.topology_view import NodeTopology, ZoneView
    from numakube.values.resources import Amounts

    PerZone = Sequence[Amounts]
    """Amounts for each zone of a node, in the order of its zones."""


# ------------------------------------------------------------------------------------------------
# What one pod takes off which zones of a node.
#
# `claim_on` says what a pod takes for itself, as far as the report of a node tells what can be
# taken: whole CPUs and memory are exclusive for Guaranteed pods, devices for all pods. A resource
# that the report does not list, or whose manager is known to be off, is not taken from any zone.
#
# `everywhere` and `may_be_in` take a pod off zones when it is not known which of them will have
# it. Upstream takes the pod's whole request off every zone. `may_be_in` spares the zones that
# could not have it even if they were empty: what happens to be free in a report says less, because
# pods may have ended since.
#
# `use_in_model` and `use_in_report` return what an admitted pod holds on which NUMA nodes.


@dataclass(frozen=True, slots=True)
class ZoneClaim:
    """What a pod takes.

    Attributes:
        whole: the pod at its peak.
        running: each app container and sidecar, which run at the same time.
        starting: each plain init container, which run alone.
    """

    whole: Amounts
    running: tuple[Amounts, ...]
    starting: tuple[Amounts, ...]

    def __bool__(self) -> bool:
        """Tell whether it takes anything."""
        return any(self.whole.values())


def claim_on(pod: PodInfo, topology: NodeTopology) -> ZoneClaim:
    """Return what *pod* takes on a node with *topology*."""
    demand = pod.memo("claimed-demand", _demand)
    listed = {name for zone in topology.zones for name in zone.available}
    cpu = CPU in listed and topology.cpu_manager_policy != "none"
    memory = topology.memory_manager_policy != "None"
    managed = demand.guaranteed and demand.managed

    def amounts(cpus: int, memory_bytes: Mapping[str, int], limits: Mapping[str, int]) -> Amounts:
        taken = {name: count for name, count in limits.items() if not is_native(name)}
        if managed and memory:
            taken.update((kind, size) for kind, size in memory_bytes.items() if is_memory(kind))
        if managed and cpu:
            taken[CPU] = cpus * MILLI_PER_CPU
        return {name: amount for name, amount in taken.items() if amount and name in listed}

    parts: dict[bool, list[Amounts]] = {True: [], False: []}
    for container in demand.containers:
        part = amounts(container.exclusive_cpus, container.memory or {}, container.limits)
        parts[container.role is ContainerRole.INIT].append(part)
    whole = amounts(demand.exclusive_cpus, demand.memory or {}, demand.limits)
    return ZoneClaim(whole, tuple(parts[False]), tuple(parts[True]))


def _demand(pod: Pod) -> PodDemand:
    return demand_of(pod, DemandRules())


def exclusive_requests(pod: PodInfo, topology: NodeTopology) -> dict[str, Amounts]:
    """Return what each sidecar and app container asks for exclusively, by upstream's rule.

    Unlike `claim_on` it goes by the pod alone and does not ask which managers are on. Plain init
    containers are left out, as the kubelet leaves them out of what it tells.
    """
    guaranteed = pod.qos_class == GUARANTEED
    listed = {name for zone in topology.zones for name in zone.available}
    exclusive: dict[str, Amounts] = {}
    spec = pod.pod.spec
    for container in (*filter(is_sidecar, spec.init_containers), *spec.containers):
        requests = amounts_of(container.resources.requests if container.resources else None)
        taken = {
            name: amount
            for name, amount in requests.items()
            if _is_exclusive(name, amount, guaranteed=guaranteed, listed=name in listed)
        }
        if taken:
            exclusive[container.name] = taken
    return exclusive


def _is_exclusive(name: str, amount: int, *, guaranteed: bool, listed: bool) -> bool:
    if not is_native(name):
        return listed
    if not guaranteed or amount <= 0:
        return False
    return is_memory(name) or (name == CPU and amount % MILLI_PER_CPU == 0)


def everywhere(amounts: Amounts, topology: NodeTopology) -> tuple[Amounts, ...]:
    """Take *amounts* off every zone."""
    return (amounts,) * len(topology.zones)


def may_be_in(claim: ZoneClaim, topology: NodeTopology) -> tuple[Amounts, ...]:
    """Return the most that the pod may take off each zone."""
    if topology.policy is not TopologyPolicy.SINGLE_NUMA_NODE:
        return everywhere(claim.whole, topology)
    sizes = (zone.allocatable for zone in topology.zones)
    if topology.scope == "pod":
        parts = tuple(claim.whole if _fits(claim.whole, size) else {} for size in sizes)
    else:
        parts = tuple(_containers_in(claim, size) for size in sizes)
    # A pod that fits nowhere is there nevertheless: the report does not tell the whole story.
    return parts if any(parts) else everywhere(claim.whole, topology)


def _containers_in(claim: ZoneClaim, size: Amounts) -> Amounts:
    """Return what the containers take that fit the zone, each by itself."""
    running = add_amounts(*_fitting(claim.running, size))
    return largest_amounts(running, *_fitting(claim.starting, size))


def _fitting(parts: Iterable[Amounts], size: Amounts) -> Iterable[Amounts]:
    return (part for part in parts if _fits(part, size))


def _fits(wanted: Amounts, size: Amounts) -> bool:
    # A resource that the zone does not list has no place of its own.
    return not shortfalls({name: wanted[name] for name in wanted.keys() & size.keys()}, size)


def use_in_model(node: KubeletNode, uid: str) -> ZoneUse:
    """Return what an admitted pod holds in the model."""
    use = _Use()
    if node.cpus is not None:
        held = union(node.cpus.assignments.get(uid, {}).values()) | node.cpus.bubbles.get(uid, 0)
        use.add_cpus(held, node.cpus.topology.numa)
    if node.memory is not None:
        whole = node.memory.bubbles.get(uid)
        containers = node.memory.assignments.get(uid, {}).values()
        use.add_memory(whole or (block for blocks in containers for block in blocks))
    devices = {
        (resource, device)
        for held in node.devices.assignments.get(uid, {}).values()
        for resource, ids in held.items()
        for device in ids
    }
    for resource, device in devices:
        use.add(node.devices.numa_nodes_of(resource, device), resource, 1)
    return use.amounts


def use_in_report(report: ExactReport, holding: Holding) -> ZoneUse:
    """Return what a pod holds according to *report*."""
    use = _Use()
    use.add_cpus(holding.cpus.bits, _cpus_by_node(report.machine) if holding.cpus else {})
    use.add_memory(holding.memory)
    for resource, positions in holding.devices.items():
        for position in positions:
            use.add(report.devices[resource].numa_nodes[position], resource, 1)
    return use.amounts


def _cpus_by_node(machine: Machine) -> dict[int, int]:
    """Return the CPUs of each NUMA node as bit sets."""
    return {
        node.id: union(1 << cpu for core in node.cores for cpu in core.threads)
        for node in machine.nodes
    }


class _Use:
    """Adds up what a pod holds."""

    def __init__(self) -> None:
        self.amounts: dict[tuple[int, ...], dict[str, int]] = {}

    def add(self, nodes: Iterable[int], resource: str, amount: int) -> None:
        if amount:
            held = self.amounts.setdefault(tuple(sorted(nodes)), {})
            held[resource] = held.get(resource, 0) + amount

    def add_cpus(self, cpus: int, by_node: Mapping[int, int]) -> None:
        for node, members in by_node.items():
            self.add((node,), CPU, (cpus & members).bit_count() * MILLI_PER_CPU)

    def add_memory(self, blocks: Iterable[MemoryBlock]) -> None:
        for block in blocks:
            self.add(block.numa_nodes, block.type, block.size_bytes)


# ------------------------------------------------------------------------------------------------
# What the pods of a report hold where, from upstream's encoding of NUMA placements.
#
# The encoding lists containers by position among the sorted hashes of their names, so it can only
# be read with exactly the containers that it was made of. If those known are others, nothing is
# known.


def holdings_of(report: LatestReport, pods: Sequence[KnownPod]) -> Mapping[str, Sequence[Amounts]]:
    """Return what each of *pods*, which *report* contains, holds in each zone, as far as known."""
    placement = _placement(report)
    if placement is None:
        return {}
    for chosen in _possible(report, pods):
        places = decode_placement(placement, _containers(report, chosen))
        if not isinstance(places, BadPlacement):
            return {pod.uid: _holding(report, pod, places) for pod in chosen}
    return {}


def _placement(report: LatestReport) -> Placement | None:
    """Return the placement that *report* bears; it is only defined for one policy."""
    metadata = attribute_value(report.nrt.attributes, nrt_names.PLACEMENT_METADATA)
    if metadata is None or report.topology.policy is not TopologyPolicy.SINGLE_NUMA_NODE:
        return None
    vectors = {
        zone.id: zone.attributes[nrt_names.PLACEMENT_VECTOR]
        for zone in report.topology.zones
        if nrt_names.PLACEMENT_VECTOR in zone.attributes
    }
    placement = read_placement(metadata, vectors)
    return None if isinstance(placement, BadPlacement) else placement


def _possible(report: LatestReport, pods: Sequence[KnownPod]) -> Iterator[Sequence[KnownPod]]:
    """Yield sets of pods that the placement may be of: those that ask, and those that are given."""
    asking = [pod for pod in pods if exclusive_requests(pod.info, report.topology)]
    yield asking
    given = [pod for pod in asking if claim_on(pod.info, report.topology)]
    if given != asking:
        yield given


def _containers(report: LatestReport, pods: Sequence[KnownPod]) -> Iterator[ContainerName]:
    for pod in pods:
        for container in exclusive_requests(pod.info, report.topology):
            yield ContainerName(pod.info.namespace, pod.info.name, container)


def _holding(
    report: LatestReport, pod: KnownPod, places: Mapping[ContainerName, int]
) -> tuple[Amounts, ...]:
    held: dict[int, Amounts] = {}
    for container, amounts in exclusive_requests(pod.info, report.topology).items():
        zone = places.get(ContainerName(pod.info.namespace, pod.info.name, container))
        if zone is not None:
            held[zone] = add_amounts(held.get(zone, {}), amounts)
    return tuple(held.get(zone.id, {}) for zone in report.topology.zones)


# ------------------------------------------------------------------------------------------------
# A belief made of counts: what a report says is free, less what is booked on top of it.


class CountsBelief:
    """What is free by counts alone.

    Args:
        report: the report that it rests on.
        charges: what each pod that the report does not account for takes off which zone.
        blocked: why the node must not be used.
        holdings: returns what each pod that the report does account for is known to hold in each
            zone, which its end would give back; pods whose place is unknown are missing.
        available: what is free in each zone, if the caller has worked it out.
    """

    __slots__ = ("_charges", "_holdings", "_nrt", "_report", "available", "blocked")

    def __init__(
        self,
        report: LatestReport,
        *,
        charges: Mapping[str, PerZone] | None = None,
        blocked: str = "",
        holdings: Callable[[], Mapping[str, PerZone]] | None = None,
        available: tuple[Amounts, ...] | None = None,
    ) -> None:
        self._report = report
        self._charges = charges or {}
        self._holdings = holdings
        self._nrt: NodeResourceTopology | None = None
        self.blocked = blocked
        if available is None:
            reported = tuple(zone.available for zone in report.topology.zones)
            available = _less(reported, self._charges.values())
        self.available: tuple[Amounts, ...] = available

    @property
    def topology(self) -> NodeTopology:
        """The report as it came."""
        return self._report.topology

    @property
    def report(self) -> LatestReport:
        """The report that it rests on."""
        return self._report

    @property
    def charged(self) -> Mapping[str, PerZone]:
        """What each pod that the report does not account for takes off which zone, by uid."""
        return self._charges

    @property
    def nrt(self) -> NodeResourceTopology:
        """The report as an object, bookings taken off."""
        if self._nrt is None:
            self._nrt = reduced(self._report, self.available)
        return self._nrt

    def model(self) -> KubeletNode | None:
        """Return nothing: counts do not tell enough."""
        return None

    def followed_by(self, pod: PodInfo) -> CountsBelief:
        """Return what is free when *pod* takes its part of every zone where it may be."""
        charge = may_be_in(claim_on(pod, self.topology), self.topology)
        return CountsBelief(
            self._report,
            charges={**self._charges, pod.uid: charge},
            blocked=self.blocked,
            holdings=self._holdings,
            available=_less(self.available, (charge,)),
        )

    def places_of(self, uid: str) -> frozenset[int]:
        """Return the NUMA nodes on which a pod is known to hold something, or may."""
        held = self._charges.get(uid) or self._known_holdings().get(uid, ())
        pairs = zip(self.topology.zones, held, strict=False)
        return frozenset(zone.id for zone, part in pairs if part)

    def without(self, uids: Iterable[str]) -> CountsBelief:
        """Return what is free without those pods."""
        gone = set(uids)
        kept = {uid: charge for uid, charge in self._charges.items() if uid not in gone}
        belief = CountsBelief(
            self._report, charges=kept, blocked=self.blocked, holdings=self._holdings
        )
        known = self._known_holdings()
        returned = [known[uid] for uid in gone - self._charges.keys() if uid in known]
        if returned:
            belief.available = _more(self.topology, belief.available, returned)
        return belief

    def _known_holdings(self) -> Mapping[str, PerZone]:
        return self._holdings() if self._holdings is not None else {}


def _less(free: Iterable[Amounts], charges: Iterable[PerZone]) -> tuple[Amounts, ...]:
    """Return what is *free* in the zones less *charges*, never below zero."""
    available = list(free)
    for charge in charges:
        for position, taken in enumerate(charge):
            if taken:
                available[position] = {
                    name: max(0, amount - taken.get(name, 0))
                    for name, amount in available[position].items()
                }
    return tuple(available)


def _more(
    topology: NodeTopology, available: Iterable[Amounts], returned: Iterable[PerZone]
) -> tuple[Amounts, ...]:
    """Return *available* and what is *returned*; a pod that would return too much returns nothing.

    More than a zone may give to pods cannot be right: the place of that pod is not known after all.
    """
    now = [dict(free) for free in available]
    for pod in returned:
        then = [
            {name: amount + back.get(name, 0) for name, amount in free.items()}
            for free, back in zip(now, pod, strict=True)
        ]
        if all(map(_is_possible, then, topology.zones)):
            now = then
    return tuple(now)


def _is_possible(free: Amounts, zone: ZoneView) -> bool:
    return all(amount <= zone.allocatable[name] for name, amount in free.items())


def reduced(report: LatestReport, available: Sequence[Amounts]) -> NodeResourceTopology:
    """Return the NRT of *report* with *available* in place of its own."""
    free = {zone.name: left for zone, left in zip(report.topology.zones, available, strict=True)}
    zones = tuple(_zone(zone, free.get(zone.name)) for zone in report.nrt.zones)
    return msgspec.structs.replace(report.nrt, zones=zones)


def _zone(zone: Zone, free: Amounts | None) -> Zone:
    if free is None:
        return zone
    resources = tuple(_resource(resource, free) for resource in zone.resources)
    return msgspec.structs.replace(zone, resources=resources)


def _resource(resource: ZoneResource, free: Amounts) -> ZoneResource:
    amount = free.get(resource.name)
    if amount is None:
        return resource
    text = str(quantity_of(resource.name, amount))
    return msgspec.structs.replace(resource, available=text)
