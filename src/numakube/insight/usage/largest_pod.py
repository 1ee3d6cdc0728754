"""The most that one zone still has, and which of its free amounts are unusable.

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

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from numakube.api.containers import Container, ResourceRequirements
from numakube.api.meta import ObjectMeta
from numakube.api.pod import Pod, PodSpec
from numakube.errors import InvalidValue
from numakube.values.resources import (
    CPU,
    MEMORY,
    MILLI_PER_CPU,
    amount_of,
    is_memory,
    quantity_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.values.resources import Amounts

LEAN: Final = 4
"""A lean CPU has this part of the proportion: one in so many."""
RICH: Final = 4
"""A rich CPU has so many times the proportion."""
_NEXT_TO_NOTHING: Final = {CPU: 1, MEMORY: 1 << 20}


@dataclass(frozen=True, slots=True)
class Shape:
    """A request that fits into one zone: whole CPUs, bytes, devices."""

    cpus: int = 0
    memory_bytes: int = 0
    devices: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def empty(self) -> bool:
        """Whether nothing fits."""
        return not self.cpus and not self.devices


NOTHING: Final = Shape()


def proportion(allocatable: Amounts) -> int:
    """Return the bytes of memory for each allocatable CPU of a zone; 0 if it lacks one of them."""
    cpus = allocatable.get(CPU, 0) // MILLI_PER_CPU
    return allocatable.get(MEMORY, 0) // cpus if cpus else 0


def largest_shape(free: Amounts, cpus: int, ratio: int) -> Shape:
    """Return the most CPUs that have their proportion of memory beside them, and that memory.

    Args:
        free: what the zone has left.
        cpus: whole CPUs that can be given out.
        ratio: the zone's `proportion`.
    """
    count = min(cpus, free.get(MEMORY, 0) // ratio) if ratio else cpus
    return Shape(count, count * ratio) if count > 0 else NOTHING


def largest_with_devices(allocatable: Amounts, free: Amounts, base: Shape, resource: str) -> Shape:
    """Return *base*, a zone's largest shape, with as many devices as its CPUs could take."""
    devices = min(free.get(resource, 0), _devices_for(base.cpus, allocatable, resource))
    if devices <= 0:
        return NOTHING
    return Shape(base.cpus, base.memory_bytes, {resource: devices})


def _devices_for(cpus: int, allocatable: Amounts, resource: str) -> int:
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
            rest = count - _devices_for(served, allocatable, resource)
            if rest > 0:
                found[resource] = rest
    return found


def parse_shape(text: str) -> Amounts:
    """Return the amounts of ``cpu=8,memory=32Gi``.

    Raises:
        InvalidValue: the text is not like that, or asks for nothing.
    """
    amounts: dict[str, int] = {}
    for part in filter(None, map(str.strip, text.split(","))):
        name, equals, quantity = part.partition("=")
        try:
            amounts[name] = amount_of(name, quantity) if equals else -1
        except InvalidValue:
            raise InvalidValue(f"{part!r}: {quantity!r} is not an amount like 8 or 32Gi") from None
        if not name or amounts[name] < 0:
            raise InvalidValue(f"{part!r} is not like cpu=8")
    if not any(amounts.values()):
        raise InvalidValue("nothing is asked for; a shape is like cpu=8,memory=32Gi")
    return amounts


def pod_of(shape: Amounts) -> Pod:
    """Return a pod that asks for *shape*, and is aligned wherever a kubelet aligns anything.

    That takes requests for CPU and memory that equal the limits: what *shape* leaves out of them is
    next to nothing.
    """
    amounts = {**_NEXT_TO_NOTHING, **shape}
    wanted = {name: str(quantity_of(name, amount)) for name, amount in amounts.items() if amount}
    resources = ResourceRequirements(requests=wanted, limits=wanted)
    return Pod(
        metadata=ObjectMeta(name="shape", namespace="default", uid="shape"),
        spec=PodSpec(containers=(Container(name="shape", resources=resources),)),
    )
