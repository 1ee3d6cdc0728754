"""Topology hints for CPUs (spec 5.6).

How small a placement could be is judged on the bare machine, reserved and busy CPUs included:
that is why a full node can still make its neighbours "not preferred".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.kubelet.hints import Hint
from numakube.values.numamask import masks_over, sums_over

if TYPE_CHECKING:
    from numakube.kubelet.cpus.manager import CpuManager


def cpu_hints(manager: CpuManager, available: int, reusable: int, wanted: int) -> list[Hint]:
    """Return the sets of NUMA nodes where *wanted* CPUs are free or reusable."""
    numa = manager.topology.numa
    totals = sums_over({node: cpus.bit_count() for node, cpus in numa.items()})
    free = sums_over({node: (cpus & available).bit_count() for node, cpus in numa.items()})
    # Reusable CPUs tie the pod to their nodes: a mask must cover them all.
    tied = 0
    for node, cpus in numa.items():
        if cpus & reusable:
            tied |= 1 << node
    spare = reusable.bit_count()
    smallest = len(numa)
    fitting = []
    for mask in masks_over(tuple(numa)):
        if totals[mask] >= wanted and mask.bit_count() < smallest:
            smallest = mask.bit_count()
        if tied & ~mask == 0 and free[mask] + spare >= wanted:
            fitting.append(mask)
    return [Hint(mask, _preferred(manager, mask, smallest)) for mask in fitting]


def _preferred(manager: CpuManager, mask: int, smallest: int) -> bool:
    if mask.bit_count() == smallest:
        return True
    return manager.options.align_by_socket and _socket_aligned(manager, mask, smallest)


def _socket_aligned(manager: CpuManager, mask: int, smallest: int) -> bool:
    """Tell whether *mask* spans no more sockets than a minimal placement has to."""
    topology = manager.topology
    nodes_per_socket = len(topology.numa) // topology.socket_count if topology.socket_count else 0
    if nodes_per_socket == 0:
        return False
    spanned = len(topology.sockets_of(topology.cpus_on(mask)))
    return spanned == -(-smallest // nodes_per_socket)
