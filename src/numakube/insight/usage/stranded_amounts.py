"""Which free amounts of a zone are stranded: no usual pod can use them.

A pod that is to be aligned needs CPUs *and* memory, and a device needs both beside it. How much
memory goes with a CPU differs from workload to workload, so a *usual* pod is taken to use between
a quarter and four times of what the zone has for each CPU (its *proportion*):

* a **lean** CPU needs a quarter of the proportion beside it, a **rich** one takes four times of it;
* free CPUs are stranded as far as not even lean memory is left for them, or because they are on
  cores of which a pod has a part and the kubelet gives out whole cores only;
* free memory is stranded as far as the free CPUs could not take it even if all were rich;
* free devices are stranded as far as the CPUs with lean memory could not take them, each one up to
  four times of what the zone has of them for each CPU, or one.

Only whole CPUs count: the rest of one cannot be given out exclusively. What a zone has none of at
all (CXL memory without CPUs, CPUs without memory) is not stranded but was never usable alone; a
kubelet that does not manage memory strands nothing for lack of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.values.resources import CPU, MEMORY, MILLI_PER_CPU, is_memory

if TYPE_CHECKING:
    from numakube.values.resources import Amounts

LEAN: Final = 4
"""A lean CPU has this part of the proportion: one in so many."""
RICH: Final = 4
"""A rich CPU has so many times the proportion."""


def proportion(allocatable: Amounts) -> int:
    """Return the bytes of memory for each allocatable CPU of a zone; 0 if it lacks one of them."""
    cpus = allocatable.get(CPU, 0) // MILLI_PER_CPU
    return allocatable.get(MEMORY, 0) // cpus if cpus else 0


def devices_for(cpus: int, allocatable: Amounts, resource: str) -> int:
    """Return how many devices so many CPUs could take."""
    usual = -(-RICH * cpus * allocatable.get(resource, 0) * MILLI_PER_CPU // allocatable[CPU])
    return max(cpus, usual) if cpus else 0


def stranded(allocatable: Amounts, free: Amounts, cpus: int, ratio: int) -> dict[str, int]:
    """Return how much of each resource is free but unusable, as the module says.

    Args:
        allocatable: what the zone can give out; a resource that it lacks strands nothing.
        free: what it has left.
        cpus: whole CPUs that can be given out.
        ratio: the zone's `proportion`.
    """
    found: dict[str, int] = {}
    if not allocatable.get(CPU):
        return found
    memory = free.get(MEMORY, 0)
    served = min(cpus, memory * LEAN // ratio) if ratio else cpus
    if (useless := free.get(CPU, 0) // MILLI_PER_CPU - served) > 0:
        found[CPU] = MILLI_PER_CPU * useless
    if ratio and (unreachable := memory - cpus * ratio * RICH) > 0:
        found[MEMORY] = unreachable
    for resource, count in free.items():
        if count > served and resource != CPU and not is_memory(resource):
            rest = count - devices_for(served, allocatable, resource)
            if rest > 0:
                found[resource] = rest
    return found
