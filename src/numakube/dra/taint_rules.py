"""DeviceTaintRules: taints that an administrator puts on devices of others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numakube.api.resource_slices import (
        Device,
        DeviceTaintRule,
        DeviceTaintSelector,
        ResourceSlice,
    )


def with_taints(
    slices: Iterable[ResourceSlice], rules: Sequence[DeviceTaintRule]
) -> list[ResourceSlice]:
    """Return *slices* with the taints of *rules* appended to the devices that they select."""
    return [_tainted(one, rules) for one in slices] if rules else list(slices)


def _tainted(one: ResourceSlice, rules: Sequence[DeviceTaintRule]) -> ResourceSlice:
    relevant = [rule for rule in rules if _selects_slice(rule.spec.device_selector, one)]
    if not relevant:
        return one
    devices = tuple(_device(device, relevant) for device in one.spec.devices)
    return replace(one, spec=replace(one.spec, devices=devices))


def _device(device: Device, rules: Sequence[DeviceTaintRule]) -> Device:
    taints = tuple(
        rule.spec.taint for rule in rules if _selects_device(rule.spec.device_selector, device)
    )
    return replace(device, taints=(*device.taints, *taints)) if taints else device


def _selects_slice(selector: DeviceTaintSelector | None, one: ResourceSlice) -> bool:
    # A rule without selector should select nothing; kube-scheduler 1.37 takes it for everything.
    if selector is None:
        return True
    return selector.driver in (None, one.spec.driver) and selector.pool in (
        None,
        one.spec.pool.name,
    )


def _selects_device(selector: DeviceTaintSelector | None, device: Device) -> bool:
    return selector is None or selector.device in (None, device.name)
