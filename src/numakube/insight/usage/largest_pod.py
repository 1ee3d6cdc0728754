"""The largest pod that one zone still has room for, and pods of a given shape."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from numakube.api.meta import ObjectMeta
from numakube.api.pod import Container, Pod, PodSpec, ResourceRequirements
from numakube.errors import InvalidValue
from numakube.insight.near_names import amount_hint
from numakube.insight.usage.stranded_amounts import devices_for
from numakube.values.display import brief_text, bytes_text
from numakube.values.resources import (
    CPU,
    MEMORY,
    amount_of,
    quantity_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.values.resources import Amounts

_NEXT_TO_NOTHING: Final = {CPU: 1, MEMORY: 1 << 20}


@dataclass(frozen=True, slots=True)
class PodShape:
    """A request that fits into one zone: whole CPUs, bytes, devices."""

    cpus: int = 0
    memory_bytes: int = 0
    devices: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def empty(self) -> bool:
        """Whether nothing fits."""
        return not self.cpus and not self.devices

    @property
    def text(self) -> str:
        """The shape in short: ``14 CPU + 56Gi``."""
        if self.empty:
            return "nothing"
        parts = [brief_text(*device) for device in self.devices.items()]
        parts.append(f"{self.cpus} CPU")
        if self.memory_bytes:
            parts.append(bytes_text(self.memory_bytes))
        return " + ".join(parts)


NOTHING: Final = PodShape()


def largest_shape(free: Amounts, cpus: int, ratio: int) -> PodShape:
    """Return the most CPUs that have their proportion of memory beside them, and that memory.

    Args:
        free: what the zone has left.
        cpus: whole CPUs that can be given out.
        ratio: the zone's `proportion`.
    """
    count = min(cpus, free.get(MEMORY, 0) // ratio) if ratio else cpus
    return PodShape(count, count * ratio) if count > 0 else NOTHING


def largest_with_devices(
    allocatable: Amounts, free: Amounts, base: PodShape, resource: str
) -> PodShape:
    """Return *base*, a zone's largest shape, with as many devices as its CPUs could take."""
    devices = min(free.get(resource, 0), devices_for(base.cpus, allocatable, resource))
    if devices <= 0:
        return NOTHING
    return PodShape(base.cpus, base.memory_bytes, {resource: devices})


def parse_shape(text: str) -> Amounts:
    """Return the amounts of ``cpu=8,memory=32Gi``.

    Raises:
        InvalidValue: the text is not like that, or asks for nothing.
    """
    amounts: dict[str, int] = {}
    for part in filter(None, map(str.strip, text.split(","))):
        name, equals, quantity = part.partition("=")
        if name in amounts:
            raise InvalidValue(f"{part!r}: {name} is there twice")
        try:
            amounts[name] = amount_of(name, quantity) if equals else -1
        except InvalidValue:
            what = f"{part!r}: {quantity!r} is not an amount like 8 or 32Gi"
            raise InvalidValue(f"{what}{amount_hint(quantity)}") from None
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
