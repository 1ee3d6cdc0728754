"""The search for NUMA nodes: small sets first, and no further than the policy has to look.

There are 255 sets of eight NUMA nodes. A single node is all that ``SingleNUMANode`` looks at; the
other policies stop at the first size that has an answer, because a wider set is never better.
Devices of resource claims, which others give out, are one more resource: a set that has no such
devices is none for the pod.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from numakube.koordinator.annotation_values import Exclusive
from numakube.koordinator.placement_refusals import Refusal, Why
from numakube.koordinator.search.numa_hints import Decision, Hint, Surroundings, decide, reason
from numakube.values.display import amount_text
from numakube.values.numamask import NumaMask, mask_of, masks_of_size
from numakube.values.resources import CPU
from numakube.values.topology_policy import TopologyPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numakube.koordinator.search.device_offer import DeviceOffer
    from numakube.koordinator.search.neighbours import Neighbours
    from numakube.koordinator.search.numa_supply import Supply

_MANY: Final = 16
"""NUMA nodes of which all sets are looked at, at most: 65,535 of them."""


CLAIMS: Final = "resourceclaims"
"""What stands for the devices of claims among the resources."""


@dataclass(frozen=True)
class Search:
    """A search for the NUMA nodes of one holder.

    Attributes:
        neighbours: who is on which NUMA nodes already.
        agrees: tells whether a set has the devices of the pod's claims.
    """

    supply: Supply
    devices: DeviceOffer
    neighbours: Neighbours
    agrees: Callable[[NumaMask], bool] | None = None

    def run(self) -> NumaMask | Refusal:
        """Return the NUMA nodes, or why there are none."""
        if refusal := self._hopeless():
            return refusal
        policy = self.supply.demand.policy
        around = self._around
        hints: dict[str, list[Hint]] = {name: [] for name in self._names()}
        decision = Decision(
            mask=around.zones, admitted=policy is TopologyPolicy.BEST_EFFORT, settled=False
        )
        for size in self._sizes():
            self._look(hints, size)
            decision = decide(policy, hints, around)
            if decision.settled or self._is_futile(hints):
                break
        return decision.mask if decision.admitted else self._unaligned(hints, around)

    def _names(self) -> tuple[str, ...]:
        claims = () if self.agrees is None else (CLAIMS,)
        return (*self.supply.demand.amounts, *self.devices.types, *claims)

    def _sizes(self) -> range:
        """Return the sizes of sets to look at: no smaller than amounts demand, as devices allow."""
        most = len(self.supply.capacity.zone_ids)
        if self.supply.demand.policy is TopologyPolicy.SINGLE_NUMA_NODE:
            most = 1
        smallest = max(self.supply.fewest.values(), default=1)
        return range(1 if self.devices.types else smallest, most + 1)

    def _look(self, hints: dict[str, list[Hint]], size: int) -> None:
        """Add to *hints* the sets of *size* nodes; only those in all lists need a score."""
        supply, restricted = self.supply, self.supply.demand.policy is TopologyPolicy.RESTRICTED
        candidates = self._candidates(size)
        masks = {name: supply.masks(name, candidates) for name in supply.demand.amounts}
        common = set(candidates).intersection(*masks.values())
        scores = {mask: supply.score(mask) for mask in common}
        for name, found in masks.items():
            preferred = restricted or not hints[name]
            hints[name] += [Hint(mask, preferred, scores.get(mask, 0)) for mask in found]
        if self.devices.types:
            self._look_for_devices(hints, size, common)
        if self.agrees is not None:
            agreed = filter(self.agrees, sorted(common))
            hints[CLAIMS] += [Hint(mask, preferred=True) for mask in agreed]

    def _candidates(self, size: int) -> Sequence[NumaMask]:
        """Return the sets of *size* nodes that are worth a look.

        Of very many NUMA nodes only the richest are combined. What fits any set fits all nodes
        together, so that none is refused for it; it may only be placed on more than it needs.
        """
        zones = self.supply.having_all
        if len(zones) <= _MANY or size == 1:
            return masks_of_size(zones, size)
        zones = self._undisturbed(zones)
        if size == len(zones):
            return (mask_of(zones),)
        return masks_of_size(self.supply.richest(_MANY, zones), size) if size <= _MANY else ()

    def _undisturbed(self, zones: tuple[int, ...]) -> tuple[int, ...]:
        """Return *zones* without those on which a set of several is not allowed."""
        around = self._around
        if around.exclusive is not Exclusive.REQUIRED:
            return zones
        return tuple(zone for zone in zones if not around.neighbours.single >> zone & 1)

    def _look_for_devices(
        self, hints: dict[str, list[Hint]], size: int, common: set[NumaMask]
    ) -> None:
        """Add sets for devices; once the smallest are known, only where all else is available."""
        first = not any(hints[name] for name in self.devices.types)
        masks = common
        if first:
            masks = common.union(masks_of_size(self.devices.zones, size))
        found = self.devices.hints(sorted(masks), preferred=first)
        for name in self.devices.types:
            hints[name] += found

    def _is_futile(self, hints: dict[str, list[Hint]]) -> bool:
        """Tell whether wider sets cannot be preferred: devices want the smallest there are."""
        restricted = self.supply.demand.policy is TopologyPolicy.RESTRICTED
        return restricted and any(hints[name] for name in self.devices.types)

    @cached_property
    def _around(self) -> Surroundings:
        return Surroundings(
            zones=self.supply.capacity.all_zones,
            neighbours=self.neighbours,
            exclusive=self.supply.demand.exclusive,
        )

    def _hopeless(self) -> Refusal | None:
        """Return why no set of NUMA nodes will do, if even all of them together have too little."""
        if isinstance(self.devices.best, Refusal):
            return self.devices.best
        name = self.supply.short_of
        return None if name is None else too_little(self.supply, name)

    def _unaligned(self, hints: dict[str, list[Hint]], around: Surroundings) -> Refusal:
        """Return why not; for people, with the smallest sets that have enough of a resource."""
        demand, supply = self.supply.demand, self.supply
        for name in demand.amounts:
            if not hints[name]:
                hints[name] += [Hint(mask, preferred=True) for mask in supply.examples(name)]
        detail = reason(demand.policy, hints, around)
        return Refusal(why=Why.UNALIGNED, container=demand.container, detail=detail)


def too_little(supply: Supply, resource: str) -> Refusal:
    """Return a refusal because all NUMA nodes together have too little of *resource*."""
    demand = supply.demand
    wanted = demand.amounts[resource]
    left = sum(supply.available[resource].values())
    few = resource == CPU and demand.cpus > supply.cpus.bit_count()
    strict = demand.policy is not TopologyPolicy.BEST_EFFORT
    why = Why.TOO_FEW_CPUS if few else Why.UNSATISFIED if strict else Why.ZONES_TOO_SMALL
    detail = (
        f"{amount_text(resource, wanted)} wanted,"
        f" {amount_text(resource, left)} left on all NUMA nodes"
    )
    return Refusal(why=why, container=demand.container, resource=resource, detail=detail)
