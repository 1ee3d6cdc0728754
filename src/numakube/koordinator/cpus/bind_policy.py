"""Policies that must be met: which free CPUs can meet one, and whether a pick does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.koordinator.annotation_values import BindPolicy
from numakube.koordinator.cpus.free_cpus import first_of_cores
from numakube.koordinator.cpus.whole_cores import cpus_of_free_cores

if TYPE_CHECKING:
    from numakube.koordinator.node.node_facts import CpuLayout
    from numakube.values.cpuset import CpuMask


def usable(layout: CpuLayout, free: CpuMask, required: BindPolicy) -> CpuMask:
    """Return those of the *free* CPUs that can be given under a policy that must be met."""
    if required is BindPolicy.FULL_PCPUS:
        return cpus_of_free_cores(layout, free)
    if required is BindPolicy.SPREAD_BY_PCPUS:
        return first_of_cores(layout, free)
    return free & layout.all


def meets(layout: CpuLayout, cpus: CpuMask, required: BindPolicy) -> bool:
    """Tell whether *cpus* are whole cores, or one a core, as *required* says."""
    if required is BindPolicy.FULL_PCPUS:
        return cpus_of_free_cores(layout, cpus) == cpus
    if required is BindPolicy.SPREAD_BY_PCPUS:
        return first_of_cores(layout, cpus) == cpus
    return True
