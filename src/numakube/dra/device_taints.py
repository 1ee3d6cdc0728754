"""Taints of devices: which of them keep a request away, and the DeviceTaintRules that add some."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from numakube.api.affinity_and_taints import tolerates

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numakube.api.resource_claims import DeviceToleration
    from numakube.api.resource_slices import (
        Device,
        DeviceTaint,
        DeviceTaintRule,
        DeviceTaintSelector,
        ResourceSlice,
    )


_EFFECTS: Final = ("NoSchedule", "NoExecute")
"""Of taints, those that keep requests away."""


def repelling_taint(
    device: Device, tolerations: Iterable[DeviceToleration] = ()
) -> DeviceTaint | None:
    """Return the first taint of *device* that keeps away a request with *tolerations*."""
    for taint in device.taints:
        if taint.effect in _EFFECTS and not any(tolerates(one, taint) for one in tolerations):
            return taint
    return None


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
