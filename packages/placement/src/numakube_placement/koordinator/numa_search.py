"""The search for NUMA nodes: small sets first, and no further than the policy has to look.

There are 255 sets of eight NUMA nodes. A single node is all that ``SingleNUMANode`` looks at; the
other policies stop at the first size that has an answer, because a wider set is never better.
Devices of resource claims, which others give out, are one more resource: a set that has no such
devices is none for the pod.

A hint is a set of NUMA nodes on which a resource is available; hints are merged into one set for
all resources. The merge follows Koordinator's topology manager: a set is aligned if every resource
is available on exactly that set, and preferred if every resource prefers it. Sets that some
resource would only share a part of never win, so the merge looks at what all lists have in common
instead of walking through all combinations of hints. Of equally good sets the one with fewer nodes
wins, then the one with the higher score, then the one with the lower ids.

``BestEffort`` takes the best set there is, ``Restricted`` only a set that every resource prefers,
``SingleNUMANode`` only a single node. Here a resource under ``Restricted`` prefers every set that
it is available on: the smallest set is measured by what is free now, where a kubelet measures it by
what an idle machine could give.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from numakube.api.koordinator.devices import GPU
from numakube.values.display import amount_text
from numakube.values.numamask import NumaMask, mask_of, masks_of_size
from numakube.values.resources import CPU
from numakube.values.topology_policy import TopologyPolicy
from numakube_placement.koordinator.annotation_values import Exclusive
from numakube_placement.koordinator.device_choice import allot_devices
from numakube_placement.koordinator.numa_supply import NOBODY, Neighbours
from numakube_placement.koordinator.placement_rule import PlacementRefusal, Why

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numakube_placement.koordinator.numa_supply import Supply


_GROUP: Final = 2
"""Masks print in pairs of digits: ``01``, ``0100``."""
_SHOWN: Final = 8
"""Masks that a message shows; eight NUMA nodes have 255 of them."""


@dataclass(frozen=True, slots=True)
class NumaHint:
    """A set of NUMA nodes on which a resource is available.

    Attributes:
        mask: ``None`` if every set will do.
        preferred: whether the resource wants no other.
        score: how good a place it is; only compared among masks of one size.
    """

    mask: NumaMask | None
    preferred: bool
    score: int = 0


def summary(hints: Mapping[str, Sequence[NumaHint]], *, separator: str) -> str:
    """Tell what each resource prefers, in Koordinator's words, sorted by resource."""
    return separator.join(
        f"{resource} prefer [{_texts(hints[resource], preferred=True)}]"
        f" among [{_texts(hints[resource], preferred=False)}]"
        for resource in sorted(hints)
    )


def mask_text(mask: NumaMask | None) -> str:
    """Return *mask* in binary, lowest NUMA node last."""
    if mask is None:
        return "<nil>"
    width = -(-max(mask.bit_length(), 1) // _GROUP) * _GROUP
    return f"{mask:0{width}b}"


def _texts(hints: Sequence[NumaHint], *, preferred: bool) -> str:
    masks = [mask_text(hint.mask) for hint in hints if hint.preferred or not preferred]
    more = len(masks) - _SHOWN
    return " ".join(masks[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """The best set.

    Attributes:
        mask: all NUMA nodes if no set is aligned.
        preferred: whether all resources prefer it and neighbours allow it.
        aligned: whether every resource is available on exactly this set.
        clean: whether neighbours allow it.
        score: the sum over resources.
    """

    mask: NumaMask
    preferred: bool = False
    aligned: bool = False
    clean: bool = False
    score: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeContext:
    """What a merge needs to know besides hints."""

    zones: NumaMask
    neighbours: Neighbours = NOBODY
    exclusive: Exclusive = Exclusive.NO


def merge(hints: Iterable[Sequence[NumaHint]], around: MergeContext) -> Merged:
    """Return the best set of NUMA nodes for resources with the given *hints*."""
    indexes = [_by_mask(hint) for hint in hints]
    found = (_merged(indexes, mask, around) for mask in _candidates(indexes, around))
    return max(filter(None, found), key=_rank, default=Merged(mask=around.zones))


def _by_mask(hints: Sequence[NumaHint]) -> dict[NumaMask | None, NumaHint]:
    index: dict[NumaMask | None, NumaHint] = {}
    for hint in hints:
        if hint.mask not in index or hint.preferred > index[hint.mask].preferred:
            index[hint.mask] = hint
    return index


def _candidates(
    indexes: Sequence[Mapping[NumaMask | None, NumaHint]], around: MergeContext
) -> set[NumaMask]:
    """Return what all resources may have in common."""
    strict = [index for index in indexes if None not in index]
    fewest = min(strict, key=len) if strict else {}
    masks = fewest if strict else {mask for index in indexes for mask in index}
    named = {mask for mask in masks if mask is not None}
    return named if strict or named else {around.zones}


def _merged(
    indexes: Sequence[Mapping[NumaMask | None, NumaHint]], mask: NumaMask, around: MergeContext
) -> Merged | None:
    preferred, score = True, 0
    for index in indexes:
        hint = index.get(mask) or index.get(None)
        if hint is None:
            return None
        preferred &= hint.preferred
        score += hint.score if hint.mask is not None else 0
    clean = around.neighbours.allow(mask, around.exclusive)
    if around.neighbours.spoil(mask, around.exclusive):
        score = 0
    return Merged(mask=mask, preferred=preferred and clean, aligned=True, clean=clean, score=score)


def _rank(merged: Merged) -> tuple[bool, bool, int, int, int]:
    bits = merged.mask.bit_count()
    return merged.preferred, merged.clean, -bits, merged.score, -merged.mask


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyDecision:
    """What a policy says.

    Attributes:
        mask: where; means nothing if it is not admitted.
        settled: whether hints for wider sets could not change the answer any more.
    """

    mask: NumaMask
    admitted: bool
    settled: bool


def decide(
    policy: TopologyPolicy, hints: Mapping[str, Sequence[NumaHint]], around: MergeContext
) -> PolicyDecision:
    """Return what *policy* makes of *hints* by resource."""
    if policy is TopologyPolicy.SINGLE_NUMA_NODE:
        hints = {name: [hint for hint in one if _is_single(hint)] for name, one in hints.items()}
    merged = merge(hints.values(), around)
    if policy is TopologyPolicy.BEST_EFFORT:
        settled = merged.aligned and merged.clean
        return PolicyDecision(mask=merged.mask, admitted=True, settled=settled)
    return PolicyDecision(mask=merged.mask, admitted=merged.preferred, settled=merged.preferred)


def reason(
    policy: TopologyPolicy, hints: Mapping[str, Sequence[NumaHint]], around: MergeContext
) -> str:
    """Say why *policy* admits none of *hints*: what resources prefer, and who is in the way."""
    separator = "," if policy is TopologyPolicy.SINGLE_NUMA_NODE else " & "
    text = summary(hints, separator=separator)
    if not decide(policy, hints, MergeContext(zones=around.zones)).admitted:
        return text
    single, shared = mask_text(around.neighbours.single), mask_text(around.neighbours.shared)
    return (
        f"{text}; exclusive placement is required, but there are pods on one NUMA node"
        f" [{single}] and across several [{shared}]"
    )


def _is_single(hint: NumaHint) -> bool:
    return hint.preferred and (hint.mask is None or hint.mask.bit_count() == 1)


if TYPE_CHECKING:
    from collections.abc import Iterable

    from numakube.topology.allotments import HeldDevice
    from numakube.values.numamask import NumaMask
    from numakube_placement.koordinator.node_ledger import NodeLedger
    from numakube_placement.koordinator.numa_supply import HolderDemand

    Given = tuple[HeldDevice, ...] | PlacementRefusal

BEST_SCORE: Final = 500
"""Of a mask on which the pod gets the GPUs that it would get without any mask."""


@dataclass(frozen=True)
class DeviceOffer:
    """What devices a holder can be given.

    Attributes:
        taken: what containers before it have been given in the same trial.
    """

    ledger: NodeLedger
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

    def hints(self, masks: Iterable[NumaMask], *, preferred: bool) -> list[NumaHint]:
        """Return those of *masks* on which the devices are available.

        Where they are the GPUs that the pod would get anyway, the set is by far the better one.
        """
        hints = []
        for mask in masks:
            given = self.on(mask)
            if not isinstance(given, PlacementRefusal):
                score = BEST_SCORE if _gpus(given) == _gpus(self.best) else 0
                hints.append(NumaHint(mask, preferred, score))
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
    if isinstance(given, PlacementRefusal):
        return frozenset()
    return frozenset(device.minor for device in given if device.type == GPU)


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

    def run(self) -> NumaMask | PlacementRefusal:
        """Return the NUMA nodes, or why there are none."""
        if refusal := self._hopeless():
            return refusal
        policy = self.supply.demand.policy
        around = self._around
        hints: dict[str, list[NumaHint]] = {name: [] for name in self._names()}
        decision = PolicyDecision(
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

    def _look(self, hints: dict[str, list[NumaHint]], size: int) -> None:
        """Add to *hints* the sets of *size* nodes; only those in all lists need a score."""
        supply, restricted = self.supply, self.supply.demand.policy is TopologyPolicy.RESTRICTED
        candidates = self._candidates(size)
        masks = {name: supply.masks(name, candidates) for name in supply.demand.amounts}
        common = set(candidates).intersection(*masks.values())
        scores = {mask: supply.score(mask) for mask in common}
        for name, found in masks.items():
            preferred = restricted or not hints[name]
            hints[name] += [NumaHint(mask, preferred, scores.get(mask, 0)) for mask in found]
        if self.devices.types:
            self._look_for_devices(hints, size, common)
        if self.agrees is not None:
            agreed = filter(self.agrees, sorted(common))
            hints[CLAIMS] += [NumaHint(mask, preferred=True) for mask in agreed]

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
        self, hints: dict[str, list[NumaHint]], size: int, common: set[NumaMask]
    ) -> None:
        """Add sets for devices; once the smallest are known, only where all else is available."""
        first = not any(hints[name] for name in self.devices.types)
        masks = common
        if first:
            masks = common.union(masks_of_size(self.devices.zones, size))
        found = self.devices.hints(sorted(masks), preferred=first)
        for name in self.devices.types:
            hints[name] += found

    def _is_futile(self, hints: dict[str, list[NumaHint]]) -> bool:
        """Tell whether wider sets cannot be preferred: devices want the smallest there are."""
        restricted = self.supply.demand.policy is TopologyPolicy.RESTRICTED
        return restricted and any(hints[name] for name in self.devices.types)

    @cached_property
    def _around(self) -> MergeContext:
        return MergeContext(
            zones=self.supply.capacity.all_zones,
            neighbours=self.neighbours,
            exclusive=self.supply.demand.exclusive,
        )

    def _hopeless(self) -> PlacementRefusal | None:
        """Return why no set of NUMA nodes will do, if even all of them together have too little."""
        if isinstance(self.devices.best, PlacementRefusal):
            return self.devices.best
        name = self.supply.short_of
        return None if name is None else too_little(self.supply, name)

    def _unaligned(
        self, hints: dict[str, list[NumaHint]], around: MergeContext
    ) -> PlacementRefusal:
        """Return why not; for people, with the smallest sets that have enough of a resource."""
        demand, supply = self.supply.demand, self.supply
        for name in demand.amounts:
            if not hints[name]:
                hints[name] += [NumaHint(mask, preferred=True) for mask in supply.examples(name)]
        detail = reason(demand.policy, hints, around)
        return PlacementRefusal(why=Why.UNALIGNED, container=demand.container, detail=detail)


def too_little(supply: Supply, resource: str) -> PlacementRefusal:
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
    return PlacementRefusal(why=why, container=demand.container, resource=resource, detail=detail)
