"""On which sets of NUMA nodes the wanted devices are available, tried out only where it matters."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from numakube.api.koordinator.devices import GPU
from numakube.koordinator.devices.device_choice import allot_devices
from numakube.koordinator.placement_refusals import Refusal
from numakube.koordinator.search.numa_hints import Hint

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numakube.koordinator.ledger.holdings import HeldDevice
    from numakube.koordinator.ledger.node_ledger import Ledger
    from numakube.koordinator.search.holder_demand import HolderDemand
    from numakube.values.numamask import NumaMask

    Given = tuple[HeldDevice, ...] | Refusal

BEST_SCORE: Final = 500
"""Of a mask on which the pod gets the GPUs that it would get without any mask."""


@dataclass(frozen=True)
class DeviceOffer:
    """What devices a holder can be given.

    Attributes:
        taken: what containers before it have been given in the same trial.
    """

    ledger: Ledger
    demand: HolderDemand
    taken: tuple[HeldDevice, ...] = ()

    @cached_property
    def types(self) -> tuple[str, ...]:
        """Wanted device types whose place matters: some of their devices are close to a node."""
        if self.demand.devices is None:
            return ()
        wish, name = self.demand.devices, self.demand.container
        wanted = wish.by_container.get(name, {}) if name else wish.requests
        near = {place.type for place in self.ledger.facts.devices if place.numa is not None}
        return tuple(sorted(near & wanted.keys()))

    @cached_property
    def zones(self) -> tuple[int, ...]:
        """NUMA nodes that have devices of these types."""
        places = self.ledger.facts.devices
        near = {place.numa for place in places if place.type in self.types}
        return tuple(zone for zone in self.ledger.capacity.zone_ids if zone in near)

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
        """Return those of *masks* on which the devices are available.

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
        if self.demand.devices is None:
            return ()
        return allot_devices(
            self.ledger,
            self.demand.devices,
            mask=mask,
            container=self.demand.container,
            taken=self.taken,
        )


def _gpus(given: Given) -> frozenset[int]:
    if isinstance(given, Refusal):
        return frozenset()
    return frozenset(device.minor for device in given if device.type == GPU)
