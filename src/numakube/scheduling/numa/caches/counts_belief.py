"""A belief made of counts: what a report says is free, less what is booked on top of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from numakube.scheduling.numa.caches.zone_use import claim_on, may_be_in
from numakube.values.resources import quantity_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numakube.api.nrt import NodeResourceTopology, Zone, ZoneResource
    from numakube.kubelet.kubelet_model import KubeletNode
    from numakube.scheduling.numa.caches.latest_reports import Report
    from numakube.scheduling.snapshot.pods import PodInfo
    from numakube.topology.topology_view import NodeTopology, ZoneView
    from numakube.values.resources import Amounts

    PerZone = Sequence[Amounts]
    """Amounts for each zone of a node, in the order of its zones."""


class CountsBelief:
    """What is free by counts alone.

    Args:
        report: the report that it rests on.
        charges: what each pod that the report does not account for takes off which zone.
        blocked: why the node must not be used.
        holdings: returns what each pod that the report does account for is known to hold in each
            zone, which its end would give back; pods whose place is unknown are missing.
        available: what is free in each zone, if the caller has worked it out.
    """

    __slots__ = ("_charges", "_holdings", "_nrt", "_report", "available", "blocked")

    def __init__(
        self,
        report: Report,
        *,
        charges: Mapping[str, PerZone] | None = None,
        blocked: str = "",
        holdings: Callable[[], Mapping[str, PerZone]] | None = None,
        available: tuple[Amounts, ...] | None = None,
    ) -> None:
        self._report = report
        self._charges = charges or {}
        self._holdings = holdings
        self._nrt: NodeResourceTopology | None = None
        self.blocked = blocked
        if available is None:
            reported = tuple(zone.available for zone in report.topology.zones)
            available = _less(reported, self._charges.values())
        self.available: tuple[Amounts, ...] = available

    @property
    def topology(self) -> NodeTopology:
        """The report as it came."""
        return self._report.topology

    @property
    def report(self) -> Report:
        """The report that it rests on."""
        return self._report

    @property
    def charged(self) -> Mapping[str, PerZone]:
        """What each pod that the report does not account for takes off which zone, by uid."""
        return self._charges

    @property
    def nrt(self) -> NodeResourceTopology:
        """The report as an object, bookings taken off."""
        if self._nrt is None:
            self._nrt = reduced(self._report, self.available)
        return self._nrt

    def model(self) -> KubeletNode | None:
        """Return nothing: counts do not tell enough."""
        return None

    def followed_by(self, pod: PodInfo) -> CountsBelief:
        """Return what is free when *pod* takes its part of every zone where it may be."""
        charge = may_be_in(claim_on(pod, self.topology), self.topology)
        return CountsBelief(
            self._report,
            charges={**self._charges, pod.uid: charge},
            blocked=self.blocked,
            holdings=self._holdings,
            available=_less(self.available, (charge,)),
        )

    def places_of(self, uid: str) -> frozenset[int]:
        """Return the NUMA nodes on which a pod is known to hold something, or may."""
        held = self._charges.get(uid) or self._known_holdings().get(uid, ())
        pairs = zip(self.topology.zones, held, strict=False)
        return frozenset(zone.id for zone, part in pairs if part)

    def without(self, uids: Iterable[str]) -> CountsBelief:
        """Return what is free without those pods."""
        gone = set(uids)
        kept = {uid: charge for uid, charge in self._charges.items() if uid not in gone}
        belief = CountsBelief(
            self._report, charges=kept, blocked=self.blocked, holdings=self._holdings
        )
        known = self._known_holdings()
        returned = [known[uid] for uid in gone - self._charges.keys() if uid in known]
        if returned:
            belief.available = _more(self.topology, belief.available, returned)
        return belief

    def _known_holdings(self) -> Mapping[str, PerZone]:
        return self._holdings() if self._holdings is not None else {}


def _less(free: Iterable[Amounts], charges: Iterable[PerZone]) -> tuple[Amounts, ...]:
    """Return what is *free* in the zones less *charges*, never below zero."""
    available = list(free)
    for charge in charges:
        for position, taken in enumerate(charge):
            if taken:
                available[position] = {
                    name: max(0, amount - taken.get(name, 0))
                    for name, amount in available[position].items()
                }
    return tuple(available)


def _more(
    topology: NodeTopology, available: Iterable[Amounts], returned: Iterable[PerZone]
) -> tuple[Amounts, ...]:
    """Return *available* and what is *returned*; a pod that would return too much returns nothing.

    More than a zone may give to pods cannot be right: the place of that pod is not known after all.
    """
    now = [dict(free) for free in available]
    for pod in returned:
        then = [
            {name: amount + back.get(name, 0) for name, amount in free.items()}
            for free, back in zip(now, pod, strict=True)
        ]
        if all(map(_is_possible, then, topology.zones)):
            now = then
    return tuple(now)


def _is_possible(free: Amounts, zone: ZoneView) -> bool:
    return all(amount <= zone.allocatable[name] for name, amount in free.items())


def reduced(report: Report, available: Sequence[Amounts]) -> NodeResourceTopology:
    """Return the NRT of *report* with *available* in place of its own."""
    free = {zone.name: left for zone, left in zip(report.topology.zones, available, strict=True)}
    zones = tuple(_zone(zone, free.get(zone.name)) for zone in report.nrt.zones)
    return msgspec.structs.replace(report.nrt, zones=zones)


def _zone(zone: Zone, free: Amounts | None) -> Zone:
    if free is None:
        return zone
    resources = tuple(_resource(one, free) for one in zone.resources)
    return msgspec.structs.replace(zone, resources=resources)


def _resource(resource: ZoneResource, free: Amounts) -> ZoneResource:
    amount = free.get(resource.name)
    if amount is None:
        return resource
    text = str(quantity_of(resource.name, amount))
    return msgspec.structs.replace(resource, available=text)
