"""From kubelet models to what counts tell of them."""

from __future__ import annotations

from numakube.kubelet.machine import Machine
from numakube.kubelet.node import KubeletNode
from numakube.kubelet.policies import TopologyPolicy, TopologyScope
from numakube.scheduling.numa.native.counts import NodeCounts, Rules
from numakube.values.resources import CPU

LARGEST = 2**56


def counts_of_model(node: KubeletNode) -> NodeCounts:
    """Return the numbers that a perfect exporter would report of *node*."""
    node = node.clone()
    node.collect_garbage()
    free: dict[int, dict[str, int]] = {one.id: {} for one in node.machine.nodes}
    totals: dict[int, dict[str, int]] = {one.id: {} for one in node.machine.nodes}
    _count_cpus(node, free, totals)
    _count_memory(node, free, totals)
    shared = _count_devices(node, free, totals)
    ids = tuple(sorted(free))
    rules = Rules(
        zones=len(ids),
        policy=TopologyPolicy(node.settings.topology_policy),
        scope=TopologyScope(node.settings.topology_scope),
        manages_cpu=node.cpus is not None,
        manages_memory=node.memory is not None,
        reported=frozenset(name for zone in free.values() for name in zone),
        closest="prefer-closest-numa-nodes" in node.settings.topology_options,
        by_socket="align-by-socket" in node.settings.cpu_options,
        shared_devices=shared,
        exact=True,
    )
    return NodeCounts(
        rules=rules,
        ids=ids,
        free=tuple(free[one] for one in ids),
        totals=tuple(totals[one] for one in ids),
        allocatable=tuple(totals[one] for one in ids),
        distances=_distances(node.machine),
    )


def _count_cpus(
    node: KubeletNode, free: dict[int, dict[str, int]], totals: dict[int, dict[str, int]]
) -> None:
    if node.cpus is None:
        return
    for one, cpus in node.cpus.topology.numa.items():
        totals[one][CPU] = 1000 * cpus.bit_count()
        free[one][CPU] = 1000 * (cpus & node.cpus.available).bit_count()


def _count_memory(
    node: KubeletNode, free: dict[int, dict[str, int]], totals: dict[int, dict[str, int]]
) -> None:
    for one, memory in node.memory.books.items() if node.memory else ():
        for kind, table in memory.tables.items():
            totals[one][kind] = min(table.allocatable, LARGEST)
            free[one][kind] = min(table.free, LARGEST)


def _count_devices(
    node: KubeletNode, free: dict[int, dict[str, int]], totals: dict[int, dict[str, int]]
) -> frozenset[str]:
    """Count devices on each of their nodes; return the resources where that counts some twice."""
    shared = set()
    for name in node.devices.resources():
        resource = node.devices._resources[name]
        for one, count in node.devices.free_by_node(name).items():
            free[one][name] = count
            totals[one][name] = sum(bool(mask >> one & 1) for mask in resource.masks.values())
        if any(mask.bit_count() > 1 for mask in resource.masks.values()):
            shared.add(name)
    return frozenset(shared)


def _distances(machine: Machine) -> tuple[tuple[int, ...], ...]:
    if any(not one.distances for one in machine.nodes):
        return ()
    return tuple(one.distances for one in sorted(machine.nodes, key=lambda one: one.id))
