"""What one pod takes off which zones of a node.

`claim_on` says what a pod takes for itself, as far as the report of a node tells what can be taken:
whole CPUs and memory are exclusive for Guaranteed pods, devices for all pods. A resource that the
report does not list, or whose manager is known to be off, is not taken from any zone.

`everywhere` and `may_be_in` take a pod off zones when it is not known which of them will have it.
Upstream takes the pod's whole request off every zone. `may_be_in` spares the zones that could not
have it even if they were empty: what happens to be free in a report says less, because pods may
have ended since.

`use_in_model` and `use_in_report` return what an admitted pod holds on which NUMA nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from numakube.api.pod_resources import GUARANTEED, is_sidecar
from numakube.kubelet.pod_demand import DemandRules, Role, demand_of
from numakube.values.cpuset import union
from numakube.values.resources import (
    CPU,
    MILLI_PER_CPU,
    add_amounts,
    amounts_of,
    is_memory,
    is_native,
    largest_amounts,
    shortfalls,
)
from numakube.values.topology_policy import TopologyPolicy

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numakube.api.pod import Pod
    from numakube.kubelet.admission_outcome import MemoryBlock
    from numakube.kubelet.kubelet_model import KubeletNode
    from numakube.kubelet.machine import Machine
    from numakube.kubelet.pod_demand import PodDemand
    from numakube.scheduling.numa.caches.mispredictions import ZoneUse
    from numakube.scheduling.snapshot.pods import PodInfo
    from numakube.topology.exact_report import ExactReport, Holding
    from numakube.topology.topology_view import NodeTopology
    from numakube.values.resources import Amounts


@dataclass(frozen=True, slots=True)
class Claim:
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


def claim_on(pod: PodInfo, topology: NodeTopology) -> Claim:
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
    for one in demand.containers:
        part = amounts(one.exclusive_cpus, one.memory or {}, one.limits)
        parts[one.role is Role.INIT].append(part)
    whole = amounts(demand.exclusive_cpus, demand.memory or {}, demand.limits)
    return Claim(whole, tuple(parts[False]), tuple(parts[True]))


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


def may_be_in(claim: Claim, topology: NodeTopology) -> tuple[Amounts, ...]:
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


def _containers_in(claim: Claim, size: Amounts) -> Amounts:
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
