"""Lab nodes from a dump of a real cluster: ``kubectl get nodes,noderesourcetopologies -o yaml``.

A node's NUMA zones come from its NodeResourceTopology; without one it is a machine of one zone with
the node's capacity. What such objects do not tell (threads, caches, sockets) is taken to be plain:
one thread a core, a socket a zone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numakube.api.codec import convert
from numakube.api.core import Node
from numakube.api.nrt import NodeResourceTopology, attribute_value, convert_nrt, numa_id_of
from numakube.errors import InvalidValue, MalformedObject
from numakube.kubelet.machine import Core, Device, HugePages, Machine, NumaNode
from numakube.lab.kubelet_options import lab_configuration
from numakube.lab.nodes.plan import NodePlan
from numakube.values.quantity import value
from numakube.values.resources import CPU, MEMORY, hugepage_bytes, is_extended, is_hugepages

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numakube.api.nrt import Zone

_POLICY = "topologyManagerPolicy"
_SCOPE = "topologyManagerScope"
_LOCAL, _REMOTE = 10, 20


def plans_from_dump(documents: Iterable[Mapping[str, Any]], subject: str) -> list[NodePlan]:
    """Return a plan for each Node among *documents*."""
    nodes: list[Node] = []
    topologies: dict[str, NodeResourceTopology] = {}
    for document in documents:
        if document.get("kind") == "Node":
            nodes.append(convert(Node, document))
        elif document.get("kind") == "NodeResourceTopology":
            topology = convert_nrt(document)
            topologies[topology.metadata.name] = topology
    if not nodes:
        raise MalformedObject(subject, "has no objects of kind Node")
    return [_plan(node, topologies.get(node.metadata.name)) for node in nodes]


def _plan(node: Node, topology: NodeResourceTopology | None) -> NodePlan:
    capacity = {name: value(text) for name, text in node.status.capacity.items()}
    zones = _zones(topology) if topology else {}
    machine = _machine(zones or {0: capacity}, _costs(topology))
    return NodePlan(
        name=node.metadata.name,
        machine=machine,
        config=lab_configuration(machine, _words(topology)),
        labels=node.metadata.labels,
        taints=node.spec.taints,
    )


def _words(topology: NodeResourceTopology | None) -> dict[str, str]:
    """Return the kubelet options that the topology's attributes tell."""
    if topology is None:
        return {}
    found = {
        "policy": attribute_value(topology.attributes, _POLICY),
        "scope": attribute_value(topology.attributes, _SCOPE),
    }
    return {name: text for name, text in found.items() if text}


def _zones(topology: NodeResourceTopology) -> dict[int, dict[str, int]]:
    zones = {}
    for zone in topology.zones:
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


def _machine(
    zones: Mapping[int, Mapping[str, int]], costs: Mapping[tuple[int, int], int]
) -> Machine:
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
