"""On which sets of NUMA nodes the devices of a need can be had, tried out only where it matters."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from numakube.allotment.devices import BEST_SCORE, allot_devices
from numakube.allotment.hints import Hint
from numakube.allotment.refusals import Refusal
from numakube.api.koordinator.devices import GPU

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numakube.allotment.holdings import HeldDevice
    from numakube.allotment.needs import Need
    from numakube.allotment.room import Room
    from numakube.values.numamask import NumaMask

    Given = tuple[HeldDevice, ...] | Refusal


@dataclass(frozen=True)
class DeviceOffer:
    """What devices a need can be given."""

    room: Room
    need: Need

    @cached_property
    def types(self) -> tuple[str, ...]:
        """Wanted device types whose place matters: some of their devices are close to a node."""
        if self.need.devices is None:
            return ()
        wish, name = self.need.devices, self.need.container
        wanted = wish.by_container.get(name, {}) if name else wish.requests
        near = {place.type for place in self.room.ledger.facts.devices if place.numa is not None}
        return tuple(sorted(near & wanted.keys()))

    @cached_property
    def zones(self) -> tuple[int, ...]:
        """NUMA nodes that have devices of these types."""
        ledger = self.room.ledger
        near = {place.numa for place in ledger.facts.devices if place.type in self.types}
        return tuple(zone for zone in ledger.ground.zone_ids if zone in near)

    @cached_property
    def best(self) -> Given:
        """What is given if any NUMA node will do."""
        return self._try(None)

    def on(self, mask: NumaMask | None) -> Given:
        """Return what is given on the NUMA nodes *mask*."""
        if mask is None:
            return self.best
        if mask not in self._tried:
            self._tried[mask] = self._try(mask)
        return self._tried[mask]

    def hints(self, masks: Iterable[NumaMask], *, preferred: bool) -> list[Hint]:
        """Return those of *masks* on which the devices can be had.

        Where they are the GPUs that the pod would get anyway, the set is by far the better one.
        """
        hints = []
        for mask in masks:
            given = self.on(mask)
            if not isinstance(given, Refusal):
                score = BEST_SCORE if _gpus(given) == _gpus(self.best) else 0
                hints.append(Hint(mask, preferred, score))
        return hints

    @cached_property
    def _tried(self) -> dict[NumaMask, Given]:
        return {}

    def _try(self, mask: NumaMask | None) -> Given:
        if self.need.devices is None:
            return ()
        return allot_devices(
            self.room.ledger,
            self.need.devices,
            mask=mask,
            container=self.need.container,
            taken=self.room.devices,
        )


def _gpus(given: Given) -> frozenset[int]:
    if isinstance(given, Refusal):
        return frozenset()
    return frozenset(device.minor for device in given if device.type == GPU)
