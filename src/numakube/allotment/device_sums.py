"""Arithmetic on held devices: parts of one device add up, virtual functions are told apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.allotment.holdings import HeldDevice
from numakube.values.resources import Amounts, add_amounts, largest_amounts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Combine = Callable[[Amounts, Amounts], Amounts]


def added(one: Iterable[HeldDevice], other: Iterable[HeldDevice]) -> tuple[HeldDevice, ...]:
    """Return what is held by both, a device each, by type and minor."""
    return _combined((*one, *other), add_amounts)


def largest(one: Iterable[HeldDevice], other: Iterable[HeldDevice]) -> tuple[HeldDevice, ...]:
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
