"""Usage of zones and nodes.

`zone_usages` is the base; a node adds its zones up. What an NRT says is taken as it is: pods that
came since its last report are not taken off, but counted in ``pending``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from numakube.insight.dra_devices import amounts_outside, counted_again, with_dra_devices
from numakube.insight.facts import NO_EXPORTER, troubles_of
from numakube.insight.scheduler_holdings import allotted_view
from numakube.insight.usage.close_pairs import added_pairs, close_pairs
from numakube.insight.usage.largest_pod import (
    NOTHING,
    PodShape,
    largest_shape,
    largest_with_devices,
)
from numakube.insight.usage.stranded_amounts import proportion, stranded
from numakube.topology.numa_zones import Unusable, within
from numakube.values.cpuset import union
from numakube.values.resources import CPU, MEMORY, MILLI_PER_CPU, add_amounts, is_memory

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numakube.insight.dra_devices import DraDevice
    from numakube.insight.facts import ClusterFacts
    from numakube.insight.usage.close_pairs import ClosePairs
    from numakube.topology.exact_report import ExactReport
    from numakube.topology.topology_view import NodeTopology, ZoneView
    from numakube.values.resources import Amounts

NO_LABEL: Final = "<none>"
"""The group of nodes without the label, in kubectl's words."""
_FULL_CORES: Final = "full-pcpus-only"
_NO_AMOUNTS: Final[Amounts] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneUsage:
    """One NUMA zone; amounts in base units.

    Attributes:
        within: what the zone is part of, such as a socket, from the outside in; `node_usage` tells.
        cpus: whole CPUs that can be given out exclusively, in whole cores if the kubelet insists.
        stranded: what is free but unusable, see `numakube.insight.usage.largest_pod`.
        largest: the most CPUs with their share of memory that still fit.
        with_devices: the same with as many devices as possible, by resource.
        pairs: devices of two resources behind one PCIe switch; `node_usage` tells.
    """

    node: str
    zone: int
    allocatable: Amounts
    free: Amounts
    within: tuple[str, ...] = ()
    cpus: int = 0
    stranded: Amounts = field(default_factory=lambda: _NO_AMOUNTS)
    largest: PodShape = NOTHING
    with_devices: Mapping[str, PodShape] = field(default_factory=lambda: MappingProxyType({}))
    pairs: tuple[ClosePairs, ...] = ()

    @property
    def used(self) -> Amounts:
        """What is not free."""
        return {name: amount - self.free.get(name, 0) for name, amount in self.allocatable.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeUsage:
    """One node, a group of nodes, or a whole cluster (then ``node`` is empty).

    Attributes:
        nodes: how many nodes these are.
        troubles: why no pod, or no new one, runs there, in kubectl's words, and whether its
            exporter is gone.
        policy: the Topology Manager's.
        exact: whether its report tells who has what.
        why_unknown: why there are no amounts; empty if there are.
        pending: pods on the node that its report does not have yet.
        largest_on: the node of the largest shape, in a cluster.
        fragmentation: by resource, how far the best zone is from what one zone could have; see
            `fragmentation_of`.
        fits: how many pods of the kind that was asked about fit, by the scheduler's word; ``None``
            if that is not known.
        pairs: devices of two resources behind one PCIe switch, where it is known.
    """

    node: str
    nodes: int = 1
    troubles: tuple[str, ...] = ()
    policy: str = ""
    zones: int = 0
    exact: bool = False
    stale: str = ""
    why_unknown: str = ""
    pending: int = 0
    allocatable: Amounts = field(default_factory=lambda: _NO_AMOUNTS)
    free: Amounts = field(default_factory=lambda: _NO_AMOUNTS)
    stranded: Amounts = field(default_factory=lambda: _NO_AMOUNTS)
    largest: PodShape = NOTHING
    largest_on: str = ""
    with_devices: Mapping[str, PodShape] = field(default_factory=lambda: MappingProxyType({}))
    fragmentation: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    fits: int | None = 0
    pairs: tuple[ClosePairs, ...] = ()

    @property
    def used(self) -> Amounts:
        """What is not free."""
        return {name: amount - self.free.get(name, 0) for name, amount in self.allocatable.items()}


def zone_usages(view: NodeTopology) -> list[ZoneUsage]:
    """Return the usage of every zone of a node."""
    return [_zone(view, zone) for zone in view.zones]


def _zone(view: NodeTopology, zone: ZoneView) -> ZoneUsage:
    cpus, ratio = _whole_cpus(view, zone), proportion(zone.allocatable)
    free = zone.available
    largest = largest_shape(free, cpus, ratio)
    resources = [name for name in free if name != CPU and not is_memory(name)]
    return ZoneUsage(
        node=view.node,
        zone=zone.id,
        allocatable=zone.allocatable,
        free=free,
        cpus=cpus,
        stranded=stranded(zone.allocatable, free, cpus, ratio),
        largest=largest,
        with_devices={
            name: found
            for name in resources
            if largest.cpus
            and not (found := largest_with_devices(zone.allocatable, free, largest, name)).empty
        },
    )


def _whole_cpus(view: NodeTopology, zone: ZoneView) -> int:
    """Return how many CPUs can be given out; a kubelet that insists on cores gives whole ones."""
    count = zone.available.get(CPU, 0) // MILLI_PER_CPU
    if view.report is None or view.report.settings.cpu_options.get(_FULL_CORES) != "true":
        return count
    return min(count, _on_free_cores(view.report, zone.id))


def _on_free_cores(report: ExactReport, zone: int) -> int:
    """Return how many CPUs are on cores of which no pod has any."""
    shared = report.shared_cpus.bits if report.shared_cpus else 0
    reserved = report.settings.reserved_cpus
    free = shared & ~(reserved.bits if reserved else 0)
    node = next((node for node in report.machine.nodes if node.id == zone), None)
    masks = [(_bits(core.threads), len(core.threads)) for core in (node.cores if node else ())]
    return sum(count for mask, count in masks if free & mask == mask)


_NO_REPORT: Final = "no NodeResourceTopology"
_FORBIDDEN: Final = "not allowed (403)"


# Machines that are alike have the same cores.
@lru_cache(maxsize=16384)
def _bits(cpus: tuple[int, ...]) -> int:
    return union(1 << cpu for cpu in cpus)


def node_usage(
    facts: ClusterFacts, node: str, *, fits: int | None = 0
) -> tuple[NodeUsage, list[ZoneUsage]]:
    """Return the usage of a node, and of its zones; a node without data has none."""
    view = facts.view(node)
    troubles = troubles_of(facts.nodes.get(node))
    if view is None or isinstance(view, Unusable):
        missing = _FORBIDDEN if facts.why_no_reports else _NO_REPORT
        why = missing if view is None else view.reason
        return NodeUsage(node=node, why_unknown=why, troubles=troubles, fits=fits), []
    devices = facts.dra_devices(node)
    zones = [
        replace(zone, within=within(view, zone.zone), pairs=_pairs(view, devices, zone.zone))
        for zone in zone_usages(with_dra_devices(allotted_view(facts, view), devices))
    ]
    best = max(zones, key=lambda zone: _size(zone.largest), default=None)
    several, several_free = _counted_again(view.report)
    known = {zone.zone for zone in zones}
    more, more_free = counted_again(devices, known)
    several, several_free = add_amounts(several, more), add_amounts(several_free, more_free)
    outside, outside_free = amounts_outside(devices, known)
    free = _less(add_amounts(outside_free, *(zone.free for zone in zones)), several_free)
    stranded = _less(
        add_amounts(*(zone.stranded for zone in zones)), _usable_elsewhere(devices, zones)
    )
    return (
        NodeUsage(
            node=node,
            troubles=(*troubles, *((NO_EXPORTER,) if view.orphaned else ())),
            policy=view.known_policy,
            zones=len(zones),
            exact=view.report is not None,
            stale=view.why_old or ("" if view.live else "its amounts never change"),
            pending=_pending(facts, view),
            allocatable=_less(add_amounts(outside, *(zone.allocatable for zone in zones)), several),
            free=free,
            stranded={
                name: min(free.get(name, 0), part) for name, part in stranded.items() if part
            },
            largest=best.largest if best else NOTHING,
            largest_on=node,
            with_devices=_best_by_resource(zone.with_devices for zone in zones),
            fragmentation=fragmentation_of(zones),
            fits=fits,
            pairs=_pairs(view, devices),
        ),
        zones,
    )


def _pairs(
    view: NodeTopology, devices: Sequence[DraDevice], zone: int | None = None
) -> tuple[ClosePairs, ...]:
    return close_pairs(view.report, devices, zone) if view.report is not None else ()


def _usable_elsewhere(devices: Iterable[DraDevice], zones: Sequence[ZoneUsage]) -> Amounts:
    """Return how often zones count devices as stranded that others count too, or can use."""
    amounts: dict[str, int] = {}
    for device in devices if len(zones) > 1 else ():
        driver = device.called
        local = [zone for zone in zones if zone.zone in device.zones]
        lost = sum(driver in zone.stranded for zone in local)
        if device.is_free and lost and len(local) > 1:
            amounts[driver] = amounts.get(driver, 0) + lost - (lost == len(local))
    return amounts


def _counted_again(report: ExactReport | None) -> tuple[Amounts, Amounts]:
    """Return how often zones count devices that other zones count too: all, and free ones."""
    everything: dict[str, int] = {}
    free: dict[str, int] = {}
    if report is None:
        return everything, free
    for resource, table in report.devices.items():
        held = {device for pod in report.pods.values() for device in pod.devices.get(resource, ())}
        for position, zones in enumerate(table.numa_nodes):
            if len(zones) > 1 and position not in table.unhealthy:
                everything[resource] = everything.get(resource, 0) + len(zones) - 1
                free[resource] = free.get(resource, 0) + (len(zones) - 1) * (position not in held)
    return everything, free


def _less(amounts: Amounts, some: Amounts) -> Amounts:
    return {name: max(0, amount - some.get(name, 0)) for name, amount in amounts.items()}


def _pending(facts: ClusterFacts, view: NodeTopology) -> int:
    if view.report is None:
        return 0
    report = view.report
    return sum(not report.accounts_for(pod.metadata.uid) for pod in facts.pods_on(view.node))


def fragmentation_of(zones: Sequence[ZoneUsage]) -> dict[str, float]:
    """Return by resource how much worse the best zone is than it could be, from 0 to 1.

    With what is free on the node, one zone could at best have all of it, or be empty: 1 less the
    share of that which the best zone really has. 0 is as good as can be; two zones of four GPUs
    with two free ones each have 0.5.
    """
    found: dict[str, float] = {}
    resources = {name for zone in zones for name in zone.free}
    for resource in sorted(resources):
        free = [zone.free.get(resource, 0) for zone in zones]
        widest = max(zone.allocatable.get(resource, 0) for zone in zones)
        possible = min(sum(free), widest)
        if possible > 0:
            found[resource] = 1 - max(free) / possible
    return found


def usage_by_label(facts: ClusterFacts, nodes: Iterable[NodeUsage], label: str) -> list[NodeUsage]:
    """Return what the nodes with the same value of *label* have together, by value."""
    groups: dict[str, list[NodeUsage]] = {}
    for node in nodes:
        known = facts.nodes.get(node.node)
        value = known.metadata.labels.get(label, "") if known else ""
        groups.setdefault(value or NO_LABEL, []).append(node)
    return [replace(cluster_usage(groups[value]), node=value) for value in sorted(groups)]


def cluster_usage(nodes: Sequence[NodeUsage]) -> NodeUsage:
    """Return what all of *nodes* have together, and the largest shape on any of them."""
    known = [node for node in nodes if not node.why_unknown]
    best = max(known, key=lambda node: _size(node.largest), default=None)
    free = add_amounts(*(node.free for node in known))
    return NodeUsage(
        node="",
        nodes=len(nodes),
        troubles=_counted_troubles(nodes),
        zones=sum(node.zones for node in known),
        exact=bool(known) and all(node.exact for node in known),
        pending=sum(node.pending for node in known),
        allocatable=add_amounts(*(node.allocatable for node in known)),
        free=free,
        stranded=add_amounts(*(node.stranded for node in known)),
        largest=best.largest if best else NOTHING,
        largest_on=best.node if best and not best.largest.empty else "",
        with_devices=_best_by_resource(node.with_devices for node in known),
        fragmentation=_mean_fragmentation(known, free),
        fits=_sum_fits(nodes),
        pairs=added_pairs(pairs for node in known for pairs in node.pairs),
    )


def _sum_fits(nodes: Sequence[NodeUsage]) -> int | None:
    """Return how many pods fit on *nodes*; ``None`` if that is known of none of them."""
    counts = [node.fits for node in nodes if node.fits is not None]
    return sum(counts) if counts or not nodes else None


def _counted_troubles(nodes: Iterable[NodeUsage]) -> tuple[str, ...]:
    counts = Counter(trouble for node in nodes for trouble in node.troubles)
    return tuple(f"{count} {trouble}" for trouble, count in sorted(counts.items()))


def _mean_fragmentation(nodes: Sequence[NodeUsage], free: Amounts) -> dict[str, float]:
    """Return the mean by resource, nodes counting by what they have free of it."""
    sums: dict[str, float] = {}
    for node in nodes:
        for resource, value in node.fragmentation.items():
            sums[resource] = sums.get(resource, 0.0) + value * node.free.get(resource, 0)
    return {resource: total / free[resource] for resource, total in sums.items() if free[resource]}


def _best_by_resource(shapes: Iterable[Mapping[str, PodShape]]) -> dict[str, PodShape]:
    """Return by resource the shape with most devices, then most CPUs."""
    best: dict[str, PodShape] = {}
    for by_resource in shapes:
        for resource, shape in by_resource.items():
            known = best.get(resource, NOTHING)
            ours = (shape.devices[resource], shape.cpus)
            if ours > (known.devices.get(resource, 0), known.cpus):
                best[resource] = shape
    return best


def _size(shape: PodShape) -> tuple[int, int]:
    return shape.cpus, shape.memory_bytes


def by_name(amounts: Amounts) -> dict[str, int]:
    """Return *amounts* in the order that tables have: CPU, memory, then the rest by name."""
    first = [name for name in (CPU, MEMORY) if name in amounts]
    rest = sorted(name for name in amounts if name not in (CPU, MEMORY))
    return {name: amounts[name] for name in (*first, *rest)}
