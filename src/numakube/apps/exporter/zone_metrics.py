"""What the zones of the last report have, as figures for graphs and alerts.

They are read from the report when somebody asks, so that a scan costs nothing more. Amounts are in
cores, bytes or devices. What is stranded is what ``kubectl numa top`` calls so, with all free CPUs
taken to be of use: counts do not tell which of them are whole cores.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from numakube.insight.usage.shapes import proportion, stranded
from numakube.values.resources import CPU, MILLI_PER_CPU, amount_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.api.nrt import Zone
    from numakube.apps.exporter.report import Report
    from numakube.values.resources import Amounts

ZONE_LABELS: Final = ("node", "zone", "resource")
NODE_LABELS: Final = ("node", "resource")
_MEANINGS: Final = {
    "allocatable": "What the kubelet may give out in a zone: cores, bytes or devices.",
    "available": "What is free in a zone: cores, bytes or devices.",
    "stranded": "What is free in a zone but of use for nobody, for lack of what goes with it.",
}
_OUTSIDE: Final = "What is free on a node outside its best zone: more than one aligned pod can get."


class ZoneFigures(Collector):
    """Shows the zones of the report that was computed last."""

    def __init__(self, node: str) -> None:
        self._node = node
        self._zones: tuple[Zone, ...] = ()

    def keep(self, report: Report) -> None:
        """Take over a new report."""
        self._zones = report.zones

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Return the figures."""
        families = {
            name: GaugeMetricFamily(f"numakube_zone_{name}", meaning, labels=ZONE_LABELS)
            for name, meaning in _MEANINGS.items()
        }
        free: dict[str, list[int]] = {}
        for zone in self._zones:
            allocatable, available = _amounts(zone)
            useless = stranded(
                allocatable,
                available,
                available.get(CPU, 0) // MILLI_PER_CPU,
                proportion(allocatable),
            )
            for resource, left in available.items():
                labels = (self._node, zone.name, resource)
                told = (allocatable[resource], left, useless.get(resource, 0))
                for family, amount in zip(families.values(), told, strict=True):
                    family.add_metric(labels, _base_units(resource, amount))
                free.setdefault(resource, []).append(left)
        return iter((*families.values(), self._outside(free)))

    def _outside(self, free: dict[str, list[int]]) -> GaugeMetricFamily:
        family = GaugeMetricFamily("numakube_outside_best_zone", _OUTSIDE, labels=NODE_LABELS)
        for resource, amounts in free.items():
            outside = _base_units(resource, sum(amounts) - max(amounts))
            family.add_metric((self._node, resource), outside)
        return family


def _amounts(zone: Zone) -> tuple[Amounts, Amounts]:
    """Return what a zone may give out and what it has left."""
    return (
        {one.name: amount_of(one.name, one.allocatable) for one in zone.resources},
        {one.name: amount_of(one.name, one.available) for one in zone.resources},
    )


def _base_units(resource: str, amount: int) -> float:
    return amount / MILLI_PER_CPU if resource == CPU else float(amount)
