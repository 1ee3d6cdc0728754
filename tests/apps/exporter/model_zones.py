"""The zones' definition, computed from a model's state and nothing that the exporter reads.

Written independently of the exporter: no PodResources, no state files, no tallies. A CPU is free if
it is in the shared pool and not reserved; memory is what the Memory Manager would still give; a
device is free if it is healthy and no pod holds it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.values.cpuset import CpuSet

if TYPE_CHECKING:
    from tests.apps.exporter.build import Figures

    from numakube.kubelet.kubelet_model import KubeletNode
    from numakube.kubelet.machine import NumaNode

LARGEST = (1 << 63) - 1


def model_zones(node: KubeletNode) -> Figures:
    """Return capacity, allocatable and available by zone and resource."""
    settled = node.clone()
    settled.collect_garbage()
    return {f"node-{numa_node.id}": _zone(settled, numa_node) for numa_node in node.machine.nodes}


def _zone(node: KubeletNode, numa: NumaNode) -> dict[str, tuple[int, int, int]]:
    found = {**_cpus(node, numa), **_memory(node, numa), **_devices(node, numa)}
    if not found:
        threads = sum(len(core.threads) for core in numa.cores)
        found = {"cpu": (threads, 0, 0)}
    return found


def _cpus(node: KubeletNode, numa: NumaNode) -> dict[str, tuple[int, int, int]]:
    if node.cpus is None:
        return {}
    mine = {cpu for core in numa.cores for cpu in core.threads}
    usable = mine & set(CpuSet(node.cpus.allocatable))
    free = usable & set(CpuSet(node.cpus.shared))
    return {"cpu": (len(mine), len(usable), len(free))} if usable else {}


def _memory(node: KubeletNode, numa: NumaNode) -> dict[str, tuple[int, int, int]]:
    if node.memory is None:
        return {}
    found = {}
    for kind, table in node.memory.books[numa.id].tables.items():
        if table.allocatable:
            sizes = max(table.total, table.allocatable), table.allocatable, table.free
            found[kind] = tuple(min(size, LARGEST) for size in sizes)
    return found  # type: ignore[return-value]


def _devices(node: KubeletNode, numa: NumaNode) -> dict[str, tuple[int, int, int]]:
    found = {}
    for resource in node.devices.resources():
        held = {
            device
            for containers in node.devices.assignments.values()
            for devices in containers.values()
            for device in devices.get(resource, ())
        }
        near = {
            device
            for device in node.devices.healthy(resource)
            if numa.id in node.devices.numa_nodes_of(resource, device)
        }
        if near:
            found[resource] = (len(near), len(near), len(near - held))
    return found
