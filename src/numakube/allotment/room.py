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

from numakube.allotment.device_sums import added, largest
from numakube.allotment.ground import amplified
from numakube.allotment.usage import add_zones, bound_of, unbound_of
from numakube.values.resources import CPU, MILLI_PER_CPU, largest_amounts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.allotment.holdings import HeldDevice, Share
    from numakube.allotment.ledger import Ledger
    from numakube.values.resources import Amounts


@dataclass(frozen=True, kw_only=True)
class Room:
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
    own: int = 0
    lent: int = 0
    kept: Mapping[int, Amounts] = field(default_factory=lambda: MappingProxyType({}))
    devices: tuple[HeldDevice, ...] = ()
    peak: Mapping[int, Amounts] = field(default_factory=lambda: MappingProxyType({}))
    device_peak: tuple[HeldDevice, ...] = ()

    @cached_property
    def cpus(self) -> int:
        """CPUs that may be bound: free ones, and those lent."""
        return self.ledger.free_cpus & ~self.own | self.lent

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
        ratio = self.ledger.ground.ratio(CPU)
        bound = {
            zone: {CPU: amplified(count * MILLI_PER_CPU, ratio)}
            for zone, count in bound_of(self.ledger.ground, self.own).items()
        }
        return add_zones(self.kept, bound)

    def after(self, share: Share, *, stays: bool) -> Room:
        """Return what is left once a container got *share*, which it keeps if it *stays*."""
        ground = self.ledger.ground
        unbound = unbound_of(ground, share, bound_of(ground, share.cpus))
        then = replace(
            self,
            own=self.own | share.cpus,
            lent=self.lent & ~share.cpus,
            kept=add_zones(self.kept, unbound),
            devices=added(self.devices, share.devices),
        )
        peak = _largest(self.peak, then.taken)
        then = replace(then, peak=peak, device_peak=largest(self.device_peak, then.devices))
        if stays:
            return then
        lent = self.lent | share.cpus
        return replace(then, lent=lent, kept=self.kept, devices=self.devices)


def _less(free: Amounts, taken: Amounts) -> Amounts:
    return {name: max(0, amount - taken.get(name, 0)) for name, amount in free.items()}


def _largest(one: Mapping[int, Amounts], other: Mapping[int, Amounts]) -> Mapping[int, Amounts]:
    return {
        zone: largest_amounts(one.get(zone, {}), other.get(zone, {}))
        for zone in sorted(one.keys() | other.keys())
    }
