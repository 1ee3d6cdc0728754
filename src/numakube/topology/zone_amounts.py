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
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from numakube.values.resources import CPU, MILLI_PER_CPU

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numakube.kubelet.kubelet_model import KubeletNode
    from numakube.kubelet.machine import NumaNode
    from numakube.topology.numa_zones import ZoneView
    from numakube.values.resources import Amounts


@dataclass(frozen=True, slots=True)
class ZoneAmounts:
    """Amounts of one NUMA node in base units."""

    id: int
    capacity: Amounts
    allocatable: Amounts
    available: Amounts


class _Row(NamedTuple):
    name: str
    capacity: int
    allocatable: int
    available: int


_Devices: TypeAlias = "Mapping[str, tuple[Mapping[int, int], Mapping[int, int]]]"
"""By resource name, how many devices are healthy and how many are free near each NUMA node."""


def settled(node: KubeletNode) -> KubeletNode:
    """Return *node*, or a copy of it if pods that are gone still hold something."""
    managers = (node.devices, node.cpus, node.memory)
    holders = {uid for manager in managers if manager is not None for uid in manager.pods()}
    if holders <= set(node.pods):
        return node
    copy = node.clone()
    copy.collect_garbage()
    return copy


def zones_of(node: KubeletNode) -> tuple[ZoneAmounts, ...]:
    """Return the zones of *node* by NUMA id, as the next admission finds them."""
    node = settled(node)
    devices = {
        name: (node.devices.healthy_by_node(name), node.devices.free_by_node(name))
        for name in node.devices.resources()
    }
    return tuple(
        _zone(node, numa, devices) for numa in sorted(node.machine.nodes, key=lambda one: one.id)
    )


def _zone(node: KubeletNode, numa: NumaNode, devices: _Devices) -> ZoneAmounts:
    rows = [*_cpus(node, numa), *_memory(node, numa), *_near(devices, numa)]
    if not rows:
        rows = [_Row(CPU, MILLI_PER_CPU * sum(len(core.threads) for core in numa.cores), 0, 0)]
    return ZoneAmounts(
        id=numa.id,
        capacity={row.name: row.capacity for row in rows},
        allocatable={row.name: row.allocatable for row in rows},
        available={row.name: row.available for row in rows},
    )


def _cpus(node: KubeletNode, numa: NumaNode) -> Iterator[_Row]:
    manager = node.cpus
    if manager is None:
        return
    cpus = manager.topology.numa.get(numa.id, 0)
    parts = (cpus, cpus & manager.allocatable, cpus & manager.available)
    capacity, allocatable, available = (MILLI_PER_CPU * part.bit_count() for part in parts)
    if allocatable:
        yield _Row(CPU, capacity, allocatable, available)


def _memory(node: KubeletNode, numa: NumaNode) -> Iterator[_Row]:
    if node.memory is None:
        return
    for kind, table in node.memory.books[numa.id].tables.items():
        if table.allocatable:
            capacity = max(table.total, table.allocatable)
            yield _Row(kind, capacity, table.allocatable, table.free)


def _near(devices: _Devices, numa: NumaNode) -> Iterator[_Row]:
    for name, (healthy, free) in devices.items():
        if count := healthy.get(numa.id, 0):
            yield _Row(name, count, count, free.get(numa.id, 0))


def moved(zone: ZoneView, before: Amounts, after: Amounts) -> Amounts:
    """Return what *zone* has free if it changes as the model did, from *before* to *after*.

    Only the difference is taken from the model, because producers count differently; what they
    leave out is not made up.
    """
    if before == after:
        return zone.available
    return {
        name: min(zone.allocatable[name], max(0, amount + after.get(name, 0) - before.get(name, 0)))
        for name, amount in zone.available.items()
    }
