"""What a node's zones have left, straight from the books of the model.

Written from the definition of zones and of the managers' states, without the exporter's code: a
CPU, a byte or a device belongs to the zone that it is in, and is left unless somebody holds it.
"""

from __future__ import annotations

from typing import TypeAlias

from numakube.api.nrt import NodeResourceTopology
from numakube.kubelet.kubelet_model import KubeletNode
from numakube.values.cpuset import CpuSet
from numakube.values.quantity import value

Amounts: TypeAlias = dict[str, tuple[int, int]]
"""Allocatable and available amounts by resource."""


def true_zones(model: KubeletNode) -> dict[str, Amounts]:
    """Return the amounts of each zone of a node."""
    return {
        f"node-{node.id}": {
            **_cpus(model, CpuSet.of(cpu for core in node.cores for cpu in core.threads)),
            **_memory(model, node.id),
            **_devices(model, node.id),
        }
        for node in model.machine.nodes
    }


def told_zones(nrt: NodeResourceTopology) -> dict[str, Amounts]:
    """Return the amounts that an object tells; what has none of a resource need not say so."""
    return {
        zone.name: {
            resource.name: (value(resource.allocatable), value(resource.available))
            for resource in zone.resources
            if value(resource.allocatable)
        }
        for zone in nrt.zones
    }


def _cpus(model: KubeletNode, zone: CpuSet) -> Amounts:
    if model.cpus is None:
        return {}
    usable = zone.bits & model.cpus.allocatable
    held = 0
    for containers in model.cpus.assignments.values():
        for bits in containers.values():
            held |= bits
    for bits in model.cpus.bubbles.values():
        held |= bits
    amounts = usable.bit_count(), (usable & ~held).bit_count()
    return {"cpu": amounts} if usable else {}


def _memory(model: KubeletNode, zone: int) -> Amounts:
    if model.memory is None:
        return {}
    tables = model.memory.books[zone].tables
    return {
        kind: (table.allocatable, table.free) for kind, table in tables.items() if table.allocatable
    }


def _devices(model: KubeletNode, zone: int) -> Amounts:
    amounts = {}
    held = {
        (resource, device)
        for containers in model.devices.assignments.values()
        for resources in containers.values()
        for resource, devices in resources.items()
        for device in devices
    }
    for resource in model.devices.resources():
        here = [
            device
            for device in model.devices.healthy(resource)
            if zone in model.devices.numa_nodes_of(resource, device)
        ]
        if here:
            free = [device for device in here if (resource, device) not in held]
            amounts[resource] = (len(here), len(free))
    return amounts
