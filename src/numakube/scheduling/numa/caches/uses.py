"""What one pod holds on which NUMA nodes: as the model says, and as a report says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.values.cpuset import union
from numakube.values.resources import CPU

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numakube.kubelet.machine import Machine
    from numakube.kubelet.node import KubeletNode
    from numakube.kubelet.outcome import MemoryBlock
    from numakube.scheduling.numa.caches.mispredictions import ZoneUse
    from numakube.topology.exact import ExactReport, Holding

_MILLI = 1000


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
            self.add((node,), CPU, (cpus & members).bit_count() * _MILLI)

    def add_memory(self, blocks: Iterable[MemoryBlock]) -> None:
        for block in blocks:
            self.add(block.numa_nodes, block.type, block.size_bytes)
