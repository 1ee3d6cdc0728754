"""What the zones of a node's NRT should say, told by the kubelet model itself.

This is the definition, not what an exporter does: an exporter sees PodResources answers and sysfs
and has to arrive at the same numbers.

* ``cpu``: only with the static CPU policy, since no other has CPUs to give out; allocatable without
  reserved ones, available without those of any pod, finished init containers included;
* memory and hugepages: only with the Static memory policy, and only types of which pods may have
  any; available is what the Memory Manager's books have free;
* devices: healthy ones with a NUMA node; one on several nodes counts in the zone of each.

A zone of which nothing can be given out has its CPUs as capacity.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from numakube.values.resources import CPU, MEMORY, hugepage_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.kubelet.machine import NumaNode
    from numakube.kubelet.node import KubeletNode
    from numakube.values.resources import Amounts

_MILLI = 1000


@dataclass(frozen=True, slots=True)
class ZoneAmounts:
    """Amounts of one NUMA node in base units."""

    id: int
    capacity: Amounts
    allocatable: Amounts
    available: Amounts


@dataclass(frozen=True, slots=True)
class _Row:
    name: str
    capacity: int
    allocatable: int
    available: int


def zones_of(node: KubeletNode) -> tuple[ZoneAmounts, ...]:
    """Return the zones of *node* by NUMA id, as the next admission finds them."""
    settled = node.clone()
    settled.collect_garbage()
    return tuple(_zone(settled, one) for one in sorted(node.machine.nodes, key=lambda one: one.id))


def _zone(node: KubeletNode, numa: NumaNode) -> ZoneAmounts:
    rows = [*_cpus(node, numa), *_memory(node, numa), *_devices(node, numa)]
    if not rows:
        rows = [_Row(CPU, _MILLI * sum(len(core.threads) for core in numa.cores), 0, 0)]
    return ZoneAmounts(
        id=numa.id,
        capacity={row.name: row.capacity for row in rows},
        allocatable={row.name: row.allocatable for row in rows},
        available={row.name: row.available for row in rows},
    )


def _cpus(node: KubeletNode, numa: NumaNode) -> Iterator[_Row]:
    if node.cpus is None:
        return
    cpus = {cpu for core in numa.cores for cpu in core.threads}
    allocatable = {cpu for cpu in cpus if node.cpus.allocatable >> cpu & 1}
    free = {cpu for cpu in allocatable if node.cpus.available >> cpu & 1}
    if allocatable:
        yield _Row(CPU, *(_MILLI * len(part) for part in (cpus, allocatable, free)))


def _memory(node: KubeletNode, numa: NumaNode) -> Iterator[_Row]:
    if node.memory is None:
        return
    totals = {MEMORY: numa.memory_bytes}
    totals |= {hugepage_name(pool.page_bytes): pool.total_bytes for pool in numa.hugepages}
    for kind, table in node.memory.books[numa.id].tables.items():
        if table.allocatable:
            yield _Row(kind, max(totals[kind], table.allocatable), table.allocatable, table.free)


def _devices(node: KubeletNode, numa: NumaNode) -> Iterator[_Row]:
    for name in node.devices.resources():
        healthy = node.devices.healthy(name)
        near = sum(
            numa.id in one.numa_nodes for one in node.devices.devices_of(name) if one.id in healthy
        )
        free = node.devices.free_by_node(name).get(numa.id, 0)
        if near:
            yield _Row(name, near, near, free)
