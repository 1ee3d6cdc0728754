"""Shared pools: the CPUs that are left for pods without CPUs of their own, by NUMA node.

There are two, as koordlet has them. No pod in the *LS* pool meets one with CPUs of its own. Pods
of QoS class ``BE`` run in the *BE* pool, which also has the CPUs of ``LSR`` pods: those are bound,
but shared with pods that take what they leave; ``LSE`` pods do not share theirs. CPUs that the
kubelet reserves for system daemons stay in both pools: no pod can have them for itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from numakube.values.cpuset import NO_CPUS, CpuMask, union
from numakube.values.numamask import nodes_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.koordinator.node.node_facts import CpuLayout
    from numakube.values.numamask import NumaMask


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedPools:
    """The shared pools of a node; a NUMA node whose CPUs are all taken has an empty one.

    Attributes:
        shared: CPUs of the LS pool by NUMA node.
        best_effort: CPUs of the BE pool by NUMA node.
    """

    shared: Mapping[int, CpuMask]
    best_effort: Mapping[int, CpuMask]

    def within(self, mask: NumaMask, *, best_effort: bool = False) -> CpuMask:
        """Return the CPUs of a pool on the NUMA nodes of *mask*.

        A pool that has run dry there is no place to run: then, and with an empty mask, it is the
        pool of the whole node.
        """
        pool = self.best_effort if best_effort else self.shared
        return union(pool.get(node, NO_CPUS) for node in nodes_of(mask)) or union(pool.values())


def pools_of(
    layout: CpuLayout,
    *,
    taken: CpuMask,
    taken_for_good: CpuMask | None = None,
    apart: CpuMask = NO_CPUS,
) -> SharedPools:
    """Return the pools of a node.

    Args:
        layout: its CPUs.
        taken: CPUs that are bound to pods by a scheduler.
        taken_for_good: those of them that pods of class ``BE`` keep off too; all if not given.
        apart: CPUs that are in no pool: pinned by the kubelet, kept back by the owner of the
            node, or exclusive to the system.
    """
    for_good = taken if taken_for_good is None else taken_for_good
    return SharedPools(
        shared={numa: cpus & ~(taken | apart) for numa, cpus in layout.by_numa.items()},
        best_effort={numa: cpus & ~(for_good | apart) for numa, cpus in layout.by_numa.items()},
    )
