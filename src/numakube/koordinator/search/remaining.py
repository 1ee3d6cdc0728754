"""What is left for a pod's containers while they are placed one after the other.

A plain init container ends before the next container starts, so what it used is there again. As
under the kubelet its CPUs stay with the pod: later containers get those first, and what none of
them uses the pod keeps. Sidecars and app containers keep what they get. What the pod holds in the
end is the most that it held at any time.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING

from numakube.koordinator.ledger.held_sums import add_zones, bound_of, unbound_of
from numakube.koordinator.ledger.holdings import Share, added_devices, largest_devices
from numakube.koordinator.node.node_capacity import amplified
from numakube.values.cpuset import NO_CPUS, CpuMask
from numakube.values.numamask import mask_of
from numakube.values.resources import CPU, MILLI_PER_CPU, largest_amounts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numakube.koordinator.annotation_values import CpuExclusive
    from numakube.koordinator.ledger.holdings import HeldDevice
    from numakube.koordinator.ledger.node_ledger import Ledger
    from numakube.values.resources import Amounts


@dataclass(frozen=True, kw_only=True)
class Remaining:
    """What is left at a container's turn.

    Attributes:
        own: CPUs that containers of the pod have had so far.
        lent: those of them that are there to be used again.
        kept: what sidecars and app containers took of each NUMA node besides CPUs of their own.
        devices: what they took of devices.
        peak: the most that the pod took of each NUMA node at any time, amplified.
        device_peak: the most that it held of devices at any time.
    """

    ledger: Ledger
    own: CpuMask = NO_CPUS
    lent: CpuMask = NO_CPUS
    kept: Mapping[int, Amounts] = field(default_factory=lambda: MappingProxyType({}))
    devices: tuple[HeldDevice, ...] = ()
    peak: Mapping[int, Amounts] = field(default_factory=lambda: MappingProxyType({}))
    device_peak: tuple[HeldDevice, ...] = ()

    @cached_property
    def cpus(self) -> CpuMask:
        """CPUs that may be bound: free ones, and those lent."""
        return self.ledger.free_cpus & ~self.own | self.lent

    @property
    def exclusive_cpus(self) -> Mapping[CpuExclusive, CpuMask]:
        """CPUs that other pods hold under each exclusive policy."""
        return self.ledger.exclusive_cpus

    @cached_property
    def zones(self) -> Mapping[int, Amounts]:
        """What is left of each NUMA node, amplified; CPUs that are lent are not in it."""
        taken = self.taken
        return {
            zone: _less(free, taken[zone]) if zone in taken else free
            for zone, free in self.ledger.free_zones.items()
        }

    @cached_property
    def taken(self) -> Mapping[int, Amounts]:
        """What the pod has taken of each NUMA node so far, amplified."""
        capacity = self.ledger.capacity
        bound = {
            zone: {CPU: amplified(count * MILLI_PER_CPU, capacity.ratio(CPU))}
            for zone, count in bound_of(capacity, self.own).items()
        }
        return add_zones(self.kept, bound)

    def after(self, share: Share, *, stays: bool) -> Remaining:
        """Return what is left once a container got *share*, which it keeps if it *stays*."""
        capacity = self.ledger.capacity
        unbound = unbound_of(capacity, share, bound_of(capacity, share.cpus))
        then = replace(
            self,
            own=self.own | share.cpus,
            lent=self.lent & ~share.cpus,
            kept=add_zones(self.kept, unbound),
            devices=added_devices(self.devices, share.devices),
        )
        peak = _largest(self.peak, then.taken)
        then = replace(then, peak=peak, device_peak=largest_devices(self.device_peak, then.devices))
        if stays:
            return then
        lent = self.lent | share.cpus
        return replace(then, lent=lent, kept=self.kept, devices=self.devices)


def total_of(remaining: Remaining, shares: Iterable[Share]) -> Share:
    """Return what a pod holds whose containers got *shares*: the most at any time."""
    mask = 0
    for share in shares:
        mask |= share.mask
    zones = _zones(remaining) if mask else {}
    mask |= mask_of(zones)
    return Share(cpus=remaining.own, zones=zones, mask=mask, devices=remaining.device_peak)


def _zones(remaining: Remaining) -> dict[int, Amounts]:
    capacity = remaining.ledger.capacity
    bound = bound_of(capacity, remaining.own)
    zones: dict[int, Amounts] = {}
    for zone, peak in remaining.peak.items():
        amounts = dict(peak)
        if count := bound.get(zone, 0):
            price = amplified(count * MILLI_PER_CPU, capacity.ratio(CPU))
            amounts[CPU] = count * MILLI_PER_CPU + max(0, amounts.get(CPU, 0) - price)
        zones[zone] = {name: amount for name, amount in amounts.items() if amount}
    return {zone: amounts for zone, amounts in zones.items() if amounts}


def _less(free: Amounts, taken: Amounts) -> Amounts:
    return {name: max(0, amount - taken.get(name, 0)) for name, amount in free.items()}


def _largest(one: Mapping[int, Amounts], other: Mapping[int, Amounts]) -> Mapping[int, Amounts]:
    return {
        zone: largest_amounts(one.get(zone, {}), other.get(zone, {}))
        for zone in sorted(one.keys() | other.keys())
    }
