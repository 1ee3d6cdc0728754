"""A node of a real cluster as a simulation or a lab needs it: its machine and its kubelet.

Exact data in a node's NodeResourceTopology tells everything: cores with their threads and caches,
memory, devices, the kubelet's settings. Without it, zones become NUMA nodes of plain cores (one
thread each, a socket a zone), with as many of them reserved as pods may not use; and without zones
a node is a machine of one zone with the node's capacity. A kubelet's configuration, where there is
one, goes first; words of the user change whatever was found.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from numakube.api.nrt import numa_id_of
from numakube.errors import InvalidValue, MalformedObject
from numakube.kubelet.config_from_words import (
    configuration_of,
    lab_configuration,
    overridden,
    with_memory_reserved,
)
from numakube.kubelet.kubelet_versions import DEFAULT
from numakube.kubelet.machine import Core, Device, HugePages, Machine, NumaNode
from numakube.kubelet.settings_from_config import allocatable_of
from numakube.simulation.cluster_model import SimulatedNode
from numakube.topology.topology_view import NodeTopology, view_of
from numakube.values.cpuset import CpuSet
from numakube.values.quantity import value
from numakube.values.resources import (
    CPU,
    MEMORY,
    PODS,
    amounts_of,
    hugepage_bytes,
    is_extended,
    is_hugepages,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.api.affinity_and_taints import Taint
    from numakube.api.kubelet_config import KubeletConfiguration
    from numakube.api.nodes import Node
    from numakube.api.nrt import NodeResourceTopology, Zone
    from numakube.topology.exact_report import ExactReport
    from numakube.values.resources import Amounts

_LOCAL, _REMOTE = 10, 20
_STATE_TAINTS = "node.kubernetes.io/"
"""Taints that say how a node is; controllers find out for themselves."""

_CORDONED = "node.kubernetes.io/unschedulable"


def observed_node(
    node: Node,
    topology: NodeResourceTopology | None,
    config: KubeletConfiguration | None = None,
    *,
    words: Mapping[str, str] | None = None,
    kubernetes: str | None = None,
) -> SimulatedNode:
    """Return *node* as far as it is known.

    Args:
        node: the object.
        topology: its report.
        config: its kubelet's configuration.
        words: change the configuration (`numakube.kubelet.config_from_words`).
        kubernetes: goes before the version that the kubelet says it is.
    """
    told = words or {}
    view = view_of(topology) if topology else None
    known = view if isinstance(view, NodeTopology) else None
    report = known.report if known else None
    machine = _exact_machine(report) if report else _counted_machine(node, topology)
    if config is None and report is not None:
        config = configuration_of(report.settings)
    if config is None:
        said = {**_reserved(topology, machine), **_words(known)}
        config = lab_configuration(machine, {**said, **told})
        if kept := _memory_kept(node):
            config = with_memory_reserved(config, machine, kept)
    config = overridden(_for_as_many_pods(config, node), machine, told)
    return SimulatedNode(
        name=node.metadata.name,
        machine=machine,
        config=config,
        kubernetes=kubernetes or _version(node, report),
        labels=node.metadata.labels,
        taints=tuple(filter(_is_kept, node.spec.taints)),
        also=_also(node, config, machine),
        unschedulable=node.spec.unschedulable,
    )


def _also(node: Node, config: KubeletConfiguration, machine: Machine) -> Amounts:
    """Return what the node offers that its machine and kubelet do not account for."""
    own = allocatable_of(config, machine)
    offered = amounts_of(node.status.allocatable)
    return {name: amount for name, amount in offered.items() if name not in own}


def _capacity(node: Node) -> dict[str, int]:
    return {name: value(text) for name, text in node.status.capacity.items()}


def _version(node: Node, report: ExactReport | None) -> str:
    """Return the kubelet's version without what vendors append."""
    info = node.status.node_info
    told = info.kubelet_version if info is not None else ""
    plain = told.partition("-")[0].partition("+")[0]
    return plain or (report.kubernetes if report is not None else DEFAULT)


def _is_kept(taint: Taint) -> bool:
    return taint.key == _CORDONED or not taint.key.startswith(_STATE_TAINTS)


def _for_as_many_pods(config: KubeletConfiguration, node: Node) -> KubeletConfiguration:
    most = config.max_pods or _capacity(node).get(PODS, 0)
    return msgspec.structs.replace(config, max_pods=most)


def _memory_kept(node: Node) -> int:
    """Return the bytes that are kept from pods, besides hugepages."""
    capacity = _capacity(node)
    allocatable = {name: value(text) for name, text in node.status.allocatable.items()}
    if MEMORY not in allocatable:
        return 0
    pages = sum(amount for name, amount in allocatable.items() if is_hugepages(name))
    return max(0, capacity.get(MEMORY, 0) - pages - allocatable[MEMORY])


def _words(view: NodeTopology | None) -> dict[str, str]:
    """Return the kubelet options that the topology's attributes tell."""
    if view is None:
        return {}
    found = {
        "policy": view.policy,
        "scope": view.scope,
        "cpu": view.cpu_manager_policy,
        "memory": view.memory_manager_policy,
        **view.topology_options,
        **view.cpu_manager_options,
    }
    return {name: text for name, text in found.items() if text}


def _reserved(topology: NodeResourceTopology | None, machine: Machine) -> dict[str, str]:
    """Return as many CPUs of each zone as pods may not use: its first ones."""
    kept: list[int] = []
    nodes = {node.id: node for node in machine.nodes}
    for zone in topology.zones if topology else ():
        if zone.type == "Node":
            cpus = [cpu for core in nodes[_numa_id(zone)].cores for cpu in core.threads]
            amounts = {one.name: one for one in zone.resources}
            if (cpu := amounts.get(CPU)) is not None:
                kept += cpus[: max(0, value(cpu.capacity) - value(cpu.allocatable))]
    return {"reserved-cpus": str(CpuSet.of(kept)).replace(",", "+")} if kept else {}


def _exact_machine(report: ExactReport) -> Machine:
    """Return the machine of a report, with devices whose ids sort as those of the real ones."""
    devices = {
        name: tuple(
            Device(f"{name.rpartition('/')[2]}-{position:05d}", nodes, position not in unhealthy)
            for position, nodes in enumerate(table.numa_nodes)
        )
        for name, table in report.devices.items()
        for unhealthy in (set(table.unhealthy),)
    }
    return replace(report.machine, devices=devices)


def _zones(topology: NodeResourceTopology | None) -> dict[int, dict[str, int]]:
    zones = {}
    for zone in topology.zones if topology else ():
        if zone.type == "Node":
            zones[_numa_id(zone)] = {one.name: value(one.capacity) for one in zone.resources}
    return zones


def _costs(topology: NodeResourceTopology | None) -> dict[tuple[int, int], int]:
    costs = {}
    for zone in topology.zones if topology else ():
        for cost in zone.costs:
            try:
                costs[_numa_id(zone), numa_id_of(cost.name)] = cost.value
            except (InvalidValue, MalformedObject):
                continue
    return costs


def _numa_id(zone: Zone) -> int:
    try:
        return numa_id_of(zone.name)
    except InvalidValue as error:
        raise MalformedObject("NodeResourceTopology", str(error), path="zones") from None


def _counted_machine(node: Node, topology: NodeResourceTopology | None) -> Machine:
    zones, costs = _zones(topology) or {0: _capacity(node)}, _costs(topology)
    nodes: list[NumaNode] = []
    devices: dict[str, list[Device]] = {}
    first = 0
    for number, resources in sorted(zones.items()):
        count = resources.get(CPU, 0)
        nodes.append(
            NumaNode(
                id=number,
                memory_bytes=resources.get(MEMORY, 0),
                cores=tuple(Core(cpu, (cpu,), number) for cpu in range(first, first + count)),
                hugepages=_hugepages(resources),
                distances=tuple(
                    costs.get((number, other), _LOCAL if other == number else _REMOTE)
                    for other in sorted(zones)
                ),
            )
        )
        first += count
        for name, amount in resources.items():
            if is_extended(name):
                ids = (f"{name.rpartition('/')[2]}-{number}-{index}" for index in range(amount))
                devices.setdefault(name, []).extend(Device(one, (number,)) for one in ids)
    return Machine(
        nodes=tuple(nodes),
        cpu_count=first,
        socket_count=len(nodes),
        devices={name: tuple(members) for name, members in devices.items()},
    )


def _hugepages(resources: Mapping[str, int]) -> tuple[HugePages, ...]:
    return tuple(
        HugePages(hugepage_bytes(name), amount // hugepage_bytes(name))
        for name, amount in resources.items()
        if is_hugepages(name)
    )
