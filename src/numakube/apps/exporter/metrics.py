"""What the exporter counts: RTE's metrics under their names, and ours in base units.

RTE's durations are gauges in milliseconds of the last operation; dashboards exist for them, so they
are kept. Ours are histograms in seconds beside them.

Figures of the zones are read from the last report when they are asked for, so that a scan costs
nothing more. Amounts are in cores, bytes or devices. What is stranded is what ``kubectl numa top``
calls so, with all free CPUs taken to be of use: counts do not tell which of them are whole cores.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from numakube.insight.usage.stranded_amounts import proportion, stranded
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
    "stranded": "What is free in a zone but unusable, for lack of what goes with it.",
}
_OUTSIDE: Final = "What is free on a node outside its best zone: more than one aligned pod can get."

SCAN: Final = "podresources_scan"
UPDATE: Final = "node_resource_object_update"
_MILLISECONDS: Final = 1000.0
_SECONDS_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_RATIO_BUCKETS: Final = tuple(step / 10 for step in range(1, 11))


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
        {
            resource.name: amount_of(resource.name, resource.allocatable)
            for resource in zone.resources
        },
        {
            resource.name: amount_of(resource.name, resource.available)
            for resource in zone.resources
        },
    )


def _base_units(resource: str, amount: int) -> float:
    return amount / MILLI_PER_CPU if resource == CPU else float(amount)


class ExporterMetrics:
    """The metrics of one exporter.

    Attributes:
        node: the node's name, a label of RTE's metrics.
        zones: told of every report.
    """

    def __init__(self, node: str, registry: CollectorRegistry) -> None:
        self.node = node
        self.call_failures = Counter(
            "rte_podresource_api_call_failures_total",
            "Failed calls of the kubelet's PodResources API.",
            ("node", "function_name"),
            registry=registry,
        )
        self._writes = Counter(
            "rte_noderesourcetopology_writes_total",
            "Writes of the object, by kind and by what caused them.",
            ("node", "operation", "trigger"),
            registry=registry,
        )
        self._operation_delay = Gauge(
            "rte_operation_delay_milliseconds",
            "How long the last operation took.",
            ("node", "operation_name", "trigger"),
            registry=registry,
        )
        self._wakeup_delay = Gauge(
            "rte_wakeup_delay_milliseconds",
            "Time between the last two wake-ups.",
            ("node", "trigger"),
            registry=registry,
        )
        self._write_failures = Counter(
            "rte_noderesourcetopology_patch_failures_total",
            "Writes that failed.",
            ("node", "trigger"),
            registry=registry,
        )
        self._size_ratio = Histogram(
            "rte_noderesourcetopology_patch_size_ratio",
            "Bytes of a patch as a share of the whole object.",
            registry=registry,
            buckets=_RATIO_BUCKETS,
        )
        self._seconds = Histogram(
            "numakube_exporter_operation_seconds",
            "How long operations take.",
            ("operation",),
            registry=registry,
            buckets=_SECONDS_BUCKETS,
        )
        self._wakeups = Counter(
            "numakube_exporter_wakeups_total",
            "Scans by what led to them; one scan may have several triggers.",
            ("trigger",),
            registry=registry,
        )
        self.problems = Gauge(
            "numakube_exporter_problems",
            "Facts that the last scan found missing or contradictory, by kind.",
            ("kind",),
            registry=registry,
        )
        self.stale = Gauge(
            "numakube_exporter_stale",
            "1 while the kubelet has been away for too long and the object is marked stale.",
            registry=registry,
        )
        self.last_scan = Gauge(
            "numakube_exporter_last_scan_timestamp_seconds",
            "When the kubelet was last read, in seconds since 1970.",
            registry=registry,
        )
        self.report_bytes = Gauge(
            "numakube_exporter_report_bytes", "Size of the last report.", registry=registry
        )
        self.foreseen = Counter(
            "numakube_exporter_foreseen_total",
            "Reports that were not written because the scheduler had foreseen what they say.",
            registry=registry,
        )
        self.zones = ZoneFigures(node)
        registry.register(self.zones)

    def took(self, operation: str, cause: str, seconds: float) -> None:
        """Record how long an operation took."""
        milliseconds = seconds * _MILLISECONDS
        self._operation_delay.labels(self.node, operation, cause).set(milliseconds)
        self._seconds.labels(operation).observe(seconds)

    def woke(self, triggers: frozenset[str], cause: str, since_last: float | None) -> None:
        """Record a wake-up."""
        for trigger in triggers:
            self._wakeups.labels(str(trigger)).inc()
        if since_last is not None:
            self._wakeup_delay.labels(self.node, cause).set(since_last * _MILLISECONDS)

    def wrote(self, operation: str, cause: str, *, share: float) -> None:
        """Record a write; *share* is how much of the object was sent."""
        self._writes.labels(self.node, operation, cause).inc()
        if operation == "update":
            self._size_ratio.observe(share)

    def write_failed(self) -> None:
        """Record a write that failed."""
        self._write_failures.labels(self.node, "send_patch").inc()
