"""Topology hints for CPUs, as ``pkg/kubelet/cm/cpumanager/policy_static.go`` makes them.

How small a placement could be is judged on the bare machine, reserved and busy CPUs included:
that is why a full node can still make its neighbours "not preferred".
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from numakube.kubelet.kubelet_effort import check_sets
from numakube.kubelet.topology_hints import Hint, hints_on, smallest_size
from numakube.kubelet.wide_hints import MOST_LISTED, Cover, WideHints
from numakube.values.numamask import masks_over, sums_over

if TYPE_CHECKING:
    from numakube.kubelet.cpus.cpu_manager import CpuManager
    from numakube.values.cpuset import CpuMask


def cpu_hints(
    manager: CpuManager, available: CpuMask, reusable: CpuMask, wanted: int, *, alone: bool = False
) -> list[Hint] | WideHints:
    """Return the sets of NUMA nodes where *wanted* CPUs are free or reusable.

    Those of several nodes may be left out if only nodes *alone* are asked for.
    """
    if len(manager.topology.numa) > MOST_LISTED:
        check_sets(len(manager.topology.numa))
        return wide_cpu_hints(manager, available, reusable, wanted)
    return listed_cpu_hints(manager, available, reusable, wanted, alone=alone)


def wide_cpu_hints(
    manager: CpuManager, available: CpuMask, reusable: CpuMask, wanted: int
) -> WideHints:
    """Return the same, described."""
    numa = manager.topology.numa
    smallest = smallest_size([cpus.bit_count() for cpus in numa.values()], wanted)
    free = {1 << node: (cpus & available).bit_count() for node, cpus in numa.items()}
    tied = {1 << node: 1 for node, cpus in numa.items() if cpus & reusable}
    by_socket = manager.options.align_by_socket
    return WideHints(
        tuple(numa),
        (Cover(free, wanted - reusable.bit_count()), Cover(tied, len(tied))),
        smallest,
        aligned=partial(_socket_aligned, manager, smallest=smallest) if by_socket else None,
    )


def listed_cpu_hints(
    manager: CpuManager, available: CpuMask, reusable: CpuMask, wanted: int, *, alone: bool = False
) -> list[Hint]:
    """Return the same, one by one."""
    numa = manager.topology.numa
    nodes = tuple(numa)
    by_node = {node: (cpus & available).bit_count() for node, cpus in numa.items()}
    free = sums_over(by_node, alone=alone)
    smallest = smallest_size([cpus.bit_count() for cpus in numa.values()], wanted)
    # Reusable CPUs tie the pod to their nodes: a mask must cover them all.
    tied = 0
    for node, cpus in numa.items():
        if cpus & reusable:
            tied |= 1 << node
    missing = wanted - reusable.bit_count()
    masks = masks_over(nodes, alone=alone)
    fitting = [mask for mask in masks if free[mask] >= missing and tied & ~mask == 0]
    if not manager.options.align_by_socket:
        return hints_on(nodes, fitting, smallest)
    return [Hint(mask, _preferred(manager, mask, smallest)) for mask in fitting]


def _preferred(manager: CpuManager, mask: int, smallest: int) -> bool:
    return mask.bit_count() == smallest or _socket_aligned(manager, mask, smallest)


def _socket_aligned(manager: CpuManager, mask: int, smallest: int) -> bool:
    """Tell whether *mask* spans no more sockets than a minimal placement has to."""
    topology = manager.topology
    nodes_per_socket = len(topology.numa) // topology.socket_count if topology.socket_count else 0
    if nodes_per_socket == 0:
        return False
    spanned = len(topology.sockets_of(topology.cpus_on(mask)))
    return spanned == -(-smallest // nodes_per_socket)
