"""The zones of which a pod holds something, by an exact report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.values.cpuset import union

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.kubelet.machine import Machine
    from numakube.topology.exact_report import ExactReport, Holding


def zones_of_holding(
    report: ExactReport, holding: Holding, cpus: Mapping[int, int]
) -> tuple[int, ...]:
    """Return every zone of which a pod holds something for itself, in ascending order.

    Memory of a group of zones counts for the whole group; a device near several zones counts for
    none of them alone unless nothing else the pod holds is near it.

    Args:
        report: the state of the node.
        holding: what the pod holds.
        cpus: the CPUs of each zone as bits, see `zone_cpus`.
    """
    bits = holding.cpus.bits
    zones = {zone for zone, own in cpus.items() if bits & own}
    for block in holding.memory:
        if block.size_bytes:
            zones.update(block.numa_nodes)
    for resource, positions in holding.devices.items():
        for position in positions:
            near = report.devices[resource].numa_nodes[position]
            if near and not zones & set(near):
                zones.add(near[0])
    return tuple(sorted(zones))


def zone_cpus(machine: Machine) -> dict[int, int]:
    """Return the CPUs of each zone as bits."""
    return {
        node.id: union(1 << cpu for core in node.cores for cpu in core.threads)
        for node in machine.nodes
    }
