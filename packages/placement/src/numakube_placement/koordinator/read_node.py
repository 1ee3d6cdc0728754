"""What is known of a node, from its own object, its NRT and its Device.

Any producer of NRTs will do; koordlet and our exporter tell where the CPUs are, so that some can be
bound. Labels have Koordinator's words; unknown ones mean none, where Koordinator takes an unknown
policy for a real one that nothing implements. What cannot be read is listed in `NodeFacts.problems`
and counts as not said.

Where a Topology Manager is at work nothing is allotted, so the exact report, which the kubelet
model reads there, is left alone: facts of such a node do not change with every pod.

A kubelet that aligns nothing gives out neither CPUs nor memory by NUMA node, so a report made from
its words has no amounts of them, or amounts without the CPUs that its CPU Manager reserves. Then
the machine tells what each NUMA node has: CPUs by the layout (what is reserved is taken off later,
CPU by CPU), memory and hugepages by our exact report, less what the node as a whole keeps from
pods. koordlet's amounts are of the machine anyway and stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from numakube.api.koordinator import keys
from numakube.api.koordinator.devices import GpuPartitionEntry, by_present_names
from numakube.errors import InvalidValue
from numakube.kubelet.machine import address_of
from numakube.topology.topology_view import Producer
from numakube.values.numamask import MAX_NODE_ID
from numakube.values.quantity import value
from numakube.values.resources import (
    CPU,
    MEMORY,
    MILLI_PER_CPU,
    amount_of,
    amounts_of,
    hugepage_name,
)
from numakube.values.topology_policy import TopologyPolicy, TopologyScope
from numakube_placement.koordinator.annotation_values import (
    BindPolicy,
    Strategy,
    annotation,
    label,
    read_json,
    read_policy_name,
    read_word,
)
from numakube_placement.koordinator.node_facts import DevicePlace, GpuPartition, NodeFacts
from numakube_placement.koordinator.read_cpus import (
    cpu_layout_of,
    kept_by_kubelet,
    kept_by_owner,
    kept_in_report,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numakube.api.koordinator.devices import DeviceCr, DeviceInfo
    from numakube.api.nodes import Node
    from numakube.api.nrt import NodeResourceTopology
    from numakube.kubelet.machine import Machine, NumaNode, PciPath
    from numakube.topology import ExactReport
    from numakube.topology.topology_view import NodeTopology
    from numakube.values.cpuset import CpuMask
    from numakube.values.resources import Amounts
    from numakube_placement.koordinator.node_facts import CpuLayout


def zones_of(
    view: NodeTopology, layout: CpuLayout | None, report: ExactReport | None, node: Node
) -> dict[int, Amounts]:
    """Return what each NUMA node has, by id.

    Args:
        view: what the NRT says.
        layout: where CPUs are, if that is known.
        report: what our exporter says of the machine, if anything.
        node: what the node as a whole has.
    """
    zones: dict[int, dict[str, int]] = {
        zone.id: {name: amount for name, amount in zone.allocatable.items() if amount > 0}
        for zone in view.zones
    }
    if layout is not None:
        for zone, cpus in layout.by_numa.items():
            told = zones.get(zone)
            if told is not None and (view.producer is not Producer.KOORDLET or CPU not in told):
                told[CPU] = MILLI_PER_CPU * cpus.bit_count()
    if report is not None:
        _fill_memory(zones, report.machine, node)
    return dict(zones)


def _fill_memory(zones: Mapping[int, dict[str, int]], machine: Machine, node: Node) -> None:
    """Add the memory of *machine* unless some zone tells of memory itself."""
    if any(MEMORY in told for told in zones.values()):
        return
    sizes = {numa.id: _pages(numa) for numa in machine.nodes if numa.id in zones}
    kept = _kept_from_pods(sizes, node)
    everything = sum(amounts[MEMORY] for amounts in sizes.values())
    for zone, amounts in sizes.items():
        # Rounded up, so that the zones never have more than the node as a whole.
        part = -(-kept * amounts[MEMORY] // everything) if everything else 0
        told = {**amounts, MEMORY: max(0, amounts[MEMORY] - part)}
        zones[zone].update({name: amount for name, amount in told.items() if amount > 0})


def _pages(numa: NumaNode) -> dict[str, int]:
    """Return the memory and hugepages of a NUMA node in bytes."""
    pools = {hugepage_name(pool.page_bytes): pool.total_bytes for pool in numa.hugepages}
    return {**pools, MEMORY: max(0, numa.memory_bytes - sum(pools.values()))}


def _kept_from_pods(sizes: Mapping[int, Amounts], node: Node) -> int:
    """Return how much memory of the machine is not the pods' according to the Node."""
    try:
        allocatable = amount_of(MEMORY, node.status.allocatable[MEMORY])
    except (InvalidValue, KeyError):
        return 0
    return max(0, sum(amounts[MEMORY] for amounts in sizes.values()) - allocatable)


_BIND_WORDS: Final = {
    "": BindPolicy.NONE,
    "None": BindPolicy.NONE,
    "FullPCPUsOnly": BindPolicy.FULL_PCPUS,
    "SpreadByPCPUs": BindPolicy.SPREAD_BY_PCPUS,
}
_LARGEST_RATIO: Final = 1000.0
"""A larger one is a mistake."""
_HONOR: Final = "Honor"


def facts_of(
    node: Node,
    nrt: NodeResourceTopology | None,
    view: NodeTopology | None,
    device: DeviceCr | None,
) -> NodeFacts:
    """Return what is known of *node*.

    Args:
        node: the node.
        nrt: its NodeResourceTopology, if there is one.
        view: what that says, if it can be used.
        device: its Device, if there is one.
    """
    name = node.metadata.name
    of_node, of_nrt, of_device = list[str](), list[str](), list[str]()
    told = nrt.metadata.annotations if nrt is not None else {}
    labels = read_labels(node.metadata.labels, of_node)
    policy = view.policy if view is not None else TopologyPolicy.NONE
    scope = view.scope if view is not None else TopologyScope.CONTAINER
    report = view.report if view is not None and not policy.aligns else None
    layout = cpu_layout_of(told, report, of_nrt)
    of_node += _overruled(labels, policy, scope)
    return NodeFacts(
        node=name,
        zones=zones_of(view, layout, report, node) if view is not None else {},
        cpus=layout,
        reserved_cpus=_kept_from_nrt(told, report, layout, of_nrt)
        | kept_by_owner(
            node.metadata.annotations,
            # koordlet picks CPUs for a reservation that lists none, and writes them on the NRT.
            None if keys.NODE_RESERVATION in told else layout,
            of_node,
        ),
        kubelet_policy=policy,
        kubelet_scope=scope,
        label_policy=labels.policy,
        label_scope=labels.scope,
        bind_policy=labels.bind or _kubelet_binding(view),
        binds_all=labels.bind is not BindPolicy.NONE,
        strategy=labels.strategy,
        ratios=read_ratios(told, of_nrt) or read_ratios(node.metadata.annotations, of_node),
        devices=devices_of(device, of_device, report) if device is not None else (),
        gpu_partitions=partitions_of(device, of_device) if device is not None else (),
        honors_partitions=honors_partitions(
            node.metadata.labels, device.metadata.labels if device is not None else {}
        ),
        problems=(
            *(f"Node {name}: {one}" for one in of_node),
            *(f"NodeResourceTopology {name}: {one}" for one in of_nrt),
            *(f"Device {name}: {one}" for one in of_device),
        ),
    )


def _kept_from_nrt(
    annotations: Mapping[str, str],
    report: ExactReport | None,
    layout: CpuLayout | None,
    problems: list[str],
) -> CpuMask:
    kept = kept_by_owner(annotations, layout, problems) | kept_by_kubelet(annotations, problems)
    return kept | kept_in_report(report) if report is not None else kept


def _kubelet_binding(view: NodeTopology | None) -> BindPolicy:
    """Return how CPUs are bound because the kubelet gives out whole cores only."""
    if view is None or view.cpu_manager_policy != "static":
        return BindPolicy.NONE
    whole_cores = view.cpu_manager_options.get("full-pcpus-only") == "true"
    return BindPolicy.FULL_PCPUS if whole_cores else BindPolicy.NONE


def _overruled(labels: NodeLabels, policy: TopologyPolicy, scope: TopologyScope) -> Iterator[str]:
    """Yield the labels that say otherwise than a Topology Manager that is at work."""
    if not policy.aligns:
        return
    if labels.policy.aligns and labels.policy is not policy:
        yield (
            f"{label(keys.NODE_POLICY)}: {labels.policy.api_name} does not count, "
            f"because the kubelet aligns by {policy.api_name}"
        )
    if labels.scope and labels.scope is not scope:
        yield (
            f"{label(keys.NODE_SCOPE)}: {labels.scope} does not count, "
            f"because the kubelet aligns by {scope}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLabels:
    """What the labels say; ``NONE`` or ``None`` where they say nothing."""

    policy: TopologyPolicy = TopologyPolicy.NONE
    scope: TopologyScope | None = None
    bind: BindPolicy = BindPolicy.NONE
    strategy: Strategy | None = None


def read_labels(labels: Mapping[str, str], problems: list[str]) -> NodeLabels:
    """Return what the *labels* of a node say."""
    policy, bind = labels.get(keys.NODE_POLICY, ""), labels.get(keys.NODE_BIND_POLICY, "")
    scope, strategy = labels.get(keys.NODE_SCOPE), labels.get(keys.NODE_STRATEGY)
    if bind not in _BIND_WORDS:
        known = ", ".join(filter(None, _BIND_WORDS))
        place = label(keys.NODE_BIND_POLICY)
        problems.append(f"{place}: unknown word {bind!r}: use one of {known}")
    return NodeLabels(
        policy=read_policy_name(policy or "None", label(keys.NODE_POLICY), problems)
        or TopologyPolicy.NONE,
        scope=read_word(TopologyScope, scope, label(keys.NODE_SCOPE), problems) if scope else None,
        bind=_BIND_WORDS.get(bind, BindPolicy.NONE),
        strategy=read_word(Strategy, strategy, label(keys.NODE_STRATEGY), problems)
        if strategy
        else None,
    )


def read_ratios(annotations: Mapping[str, str], problems: list[str]) -> dict[str, float]:
    """Return the amplification ratios above 1; one that is no ratio counts as not set."""
    key = keys.NODE_AMPLIFICATION
    ratios = read_json(dict[str, float], annotations, key, problems) or {}
    for name, ratio in ratios.items():
        if not 1 <= ratio <= _LARGEST_RATIO:
            place = annotation(key, f"[{name}]")
            problems.append(f"{place}: {ratio} is not between 1 and {_LARGEST_RATIO:.0f}")
    return {name: ratio for name, ratio in ratios.items() if 1 < ratio <= _LARGEST_RATIO}


def devices_of(
    device: DeviceCr, problems: list[str], report: ExactReport | None = None
) -> tuple[DevicePlace, ...]:
    """Return the devices by type and minor; of two with the same the first counts.

    A Device tells PCIe roots; which switches are below them, the *report* of the node may know.
    """
    paths = report.tree.paths if report is not None else {}
    places: dict[tuple[str, int], DevicePlace] = {}
    for index, info in enumerate(device.spec.devices):
        place = f"spec.devices[{index}]"
        if (info.type, info.minor) in places:
            problems.append(f"{place}: {info.type} {info.minor} is listed twice")
            continue
        bus_id = info.topology.bus_id if info.topology is not None else ""
        amounts = _amounts(info, place, problems)
        places[info.type, info.minor] = _place_of(info, amounts, paths.get(address_of(bus_id)))
    return tuple(places[key] for key in sorted(places))


def _place_of(info: DeviceInfo, amounts: Amounts, path: PciPath | None) -> DevicePlace:
    topology = info.topology
    pcie = topology.pcie_id if topology is not None else ""
    numa = topology.node_id if topology is not None else -1
    return DevicePlace(
        type=info.type,
        minor=info.minor,
        id=info.id,
        numa=numa if 0 <= numa <= MAX_NODE_ID else None,
        pcie=pcie or (path.root if path is not None else ""),
        bridges=path.bridges if path is not None else (),
        healthy=info.health,
        resources=amounts,
        labels=info.labels,
        vfs=tuple(sorted(vf.bus_id for group in info.vf_groups for vf in group.vfs)),
        vf_labels={
            vf.bus_id: group.labels for group in info.vf_groups if group.labels for vf in group.vfs
        },
    )


def _amounts(info: DeviceInfo, place: str, problems: list[str]) -> Amounts:
    try:
        return by_present_names(amounts_of(info.resources))
    except InvalidValue as error:
        problems.append(f"{place}.resources: {error}")
        return {}


def partitions_of(device: DeviceCr, problems: list[str]) -> tuple[GpuPartition, ...]:
    """Return the partitions; a table that cannot be read has none."""
    key = keys.GPU_PARTITIONS
    read = dict[str, tuple[GpuPartitionEntry, ...]]
    table = read_json(read, device.metadata.annotations, key, problems) or {}
    return tuple(_partitions(table, problems))


def honors_partitions(*labels: Mapping[str, str]) -> bool:
    """Tell whether GPUs are given in partitions only, by the labels of the Device or the node."""
    return any(one.get(keys.GPU_PARTITION_POLICY) == _HONOR for one in labels)


def _partitions(
    table: Mapping[str, tuple[GpuPartitionEntry, ...]], problems: list[str]
) -> Iterator[GpuPartition]:
    for count, entries in table.items():
        for index, entry in enumerate(entries):
            place = annotation(keys.GPU_PARTITIONS, f"[{count}][{index}]")
            if str(len(set(entry.minors))) != count:
                problems.append(f"{place}.minors: {len(set(entry.minors))} GPUs, not {count}")
                continue
            try:
                bandwidth = value(entry.ring_bus_bandwidth or 0)
            except InvalidValue as error:
                problems.append(f"{place}.ringBusBandwidth: {error}")
                continue
            yield GpuPartition(frozenset(entry.minors), entry.allocation_score, bandwidth)
