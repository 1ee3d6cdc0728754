"""What each NUMA node has for pods that our scheduler places.

A kubelet that aligns nothing gives out neither CPUs nor memory by NUMA node, so a report made from
its words has no amounts of them, or amounts without the CPUs that its CPU Manager reserves. Then
the machine tells: CPUs by the layout (what is reserved is taken off later, CPU by CPU), memory and
hugepages by our exact report, less what the node as a whole keeps from pods. koordlet's amounts are
of the machine anyway and stay as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.errors import InvalidValue
from numakube.topology.topology_view import Producer
from numakube.values.resources import CPU, MEMORY, MILLI_PER_CPU, amount_of, hugepage_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.api.nodes import Node
    from numakube.koordinator.node.node_facts import CpuLayout
    from numakube.kubelet.machine import Machine, NumaNode
    from numakube.topology.exact_report import ExactReport
    from numakube.topology.topology_view import NodeTopology
    from numakube.values.resources import Amounts


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
