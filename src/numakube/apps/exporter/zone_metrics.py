"""What the zones of the last report have, as figures for graphs and alerts.

They are read from the report when somebody asks, so that a scan costs nothing more. Amounts are in
cores, bytes or devices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from numakube.values.resources import CPU, amount_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.api.nrt import Zone
    from numakube.apps.exporter.report import Report

ZONE_LABELS: Final = ("node", "zone", "resource")
STRANDED_LABELS: Final = ("node", "resource")
_MILLI: Final = 1000


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
        allocatable, available = _allocatable(), _available()
        free: dict[str, list[float]] = {}
        for zone in self._zones:
            for part in zone.resources:
                labels = (self._node, zone.name, part.name)
                left = _base_units(part.name, part.available)
                allocatable.add_metric(labels, _base_units(part.name, part.allocatable))
                available.add_metric(labels, left)
                free.setdefault(part.name, []).append(left)
        stranded = _stranded()
        for resource, amounts in free.items():
            stranded.add_metric((self._node, resource), sum(amounts) - max(amounts))
        return iter((allocatable, available, stranded))


def _base_units(resource: str, quantity: str | int | float) -> float:
    amount = amount_of(resource, quantity)
    return amount / _MILLI if resource == CPU else float(amount)


def _allocatable() -> GaugeMetricFamily:
    return GaugeMetricFamily(
        "numakube_zone_allocatable",
        "What the kubelet may give out in a zone: cores, bytes or devices.",
        labels=ZONE_LABELS,
    )


def _available() -> GaugeMetricFamily:
    return GaugeMetricFamily(
        "numakube_zone_available",
        "What is free in a zone: cores, bytes or devices.",
        labels=ZONE_LABELS,
    )


def _stranded() -> GaugeMetricFamily:
    return GaugeMetricFamily(
        "numakube_stranded",
        "What is free on the node outside its best zone: out of reach for a single aligned pod.",
        labels=STRANDED_LABELS,
    )
