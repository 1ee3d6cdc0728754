"""What pods hold of a node by a scheduler's decision."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from numakube.koordinator.annotation_values import CpuExclusive
from numakube.values.cpuset import NO_CPUS, CpuMask
from numakube.values.resources import Amounts, add_amounts, largest_amounts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from numakube.values.numamask import NumaMask

    Combine = Callable[[Amounts, Amounts], Amounts]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldDevice:
    """A device, or a part of one, that a pod holds."""

    type: str
    minor: int
    resources: Amounts
    vfs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What a pod, or one of its containers, holds.

    Attributes:
        cpus: bound CPUs; none if it runs in a shared pool.
        zones: what it takes of each NUMA node, in base units, not amplified.
        mask: the NUMA nodes that it was placed on; 0 if it was placed on none in particular.
    """

    cpus: CpuMask = NO_CPUS
    zones: Mapping[int, Amounts] = field(default_factory=lambda: MappingProxyType({}))
    mask: NumaMask = 0
    devices: tuple[HeldDevice, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Allotment:
    """What a pod holds: the union, and with scope container what each container does.

    Plain init containers give back what they used, so the union is what the pod holds for as long
    as it lasts: its app containers and sidecars, and CPUs that only init containers needed.
    """

    total: Share = Share()
    containers: Mapping[str, Share] = field(default_factory=lambda: MappingProxyType({}))
    cpu_exclusive: CpuExclusive = CpuExclusive.NONE


def added_devices(one: Iterable[HeldDevice], other: Iterable[HeldDevice]) -> tuple[HeldDevice, ...]:
    """Return what is held by both, a device each, by type and minor."""
    return _combined((*one, *other), add_amounts)


def largest_devices(
    one: Iterable[HeldDevice], other: Iterable[HeldDevice]
) -> tuple[HeldDevice, ...]:
    """Return the most that is held of each device by either."""
    return _combined((*one, *other), largest_amounts)


def _combined(held: Iterable[HeldDevice], combine: Combine) -> tuple[HeldDevice, ...]:
    devices: dict[tuple[str, int], HeldDevice] = {}
    for device in held:
        key = device.type, device.minor
        before = devices.get(key)
        devices[key] = device if before is None else _both(before, device, combine)
    return tuple(devices[key] for key in sorted(devices))


def _both(one: HeldDevice, other: HeldDevice, combine: Combine) -> HeldDevice:
    return HeldDevice(
        type=one.type,
        minor=one.minor,
        resources=combine(one.resources, other.resources),
        vfs=tuple(sorted({*one.vfs, *other.vfs})),
    )
