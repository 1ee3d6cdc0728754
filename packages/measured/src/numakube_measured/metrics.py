"""What is measured, as metrics: by zone, and by pod for those that were promised a place.

Pods that were promised nothing are told by their number of `node_measuring.MOST_OTHERS` at most,
those with the most memory, and series by pod and zone have a bound of their own, so that a machine
of many zones does not multiply them. Figures are read from the last reading when they are asked
for; what is not known has no series.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prometheus_client import Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from numakube_measured.measurement import MIB

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from prometheus_client import CollectorRegistry

    from numakube_measured.measurement import MeasuredPod, MeasuredZone, Measurement

MOST_SERIES: Final = 1024
"""Series of memory by pod and zone; pods with a place come first."""
_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)
_ZONE: Final = ("node", "zone")
# A scraper adds labels of its own called namespace and pod, which are those of the exporter.
_POD: Final = ("node", "pod_namespace", "pod_name")

_OF_ZONES: Final = {
    "memory_free_bytes": "Memory of a zone that is free.",
    "memory_available_bytes": "Memory of a zone that programs can have: free, or droppable.",
    "guest_memory_bytes": "Memory of a zone that pods use which were not given any there.",
    "memory_traffic_bytes_per_second": "To and from memory, where the processor counts it.",
    "remote_traffic_bytes_per_second": "Of that to the memory of other zones.",
    "missed_pages_per_second": "Pages that were wanted in a zone and taken elsewhere.",
}
_OF_PODS: Final = {
    "local_memory_ratio": "Share of a pod's memory that is in the zones it was promised.",
    "near_threads_ratio": "Share of a pod's threads that ran where its CPUs are, by sampling.",
    "throttled_ratio": "Share of its periods in which a pod with a place was stopped by its quota.",
    "stolen_cpu_ratio": "Share of the time of a pod's own CPUs that a hypervisor took.",
    "others_cpu_ratio": "Share of the time of a pod's own CPUs that others ran on them.",
    "memory_pressure_ratio": "Share of the last minute in which a pod waited for memory.",
    "far_interrupts": "Interrupts of a pod's devices that are taken in other zones than its own.",
}
_MEMORY: Final = "Memory that a pod's programs have mapped, by zone."


class MeasuredFigures(Collector):
    """Shows the last reading."""

    def __init__(self, node: str, registry: CollectorRegistry) -> None:
        self._node = node
        self._last: Measurement | None = None
        self._names: Mapping[str, str] = {}
        self.seconds = Histogram(
            "numakube_measured_reading_seconds",
            "How long it takes to measure the node.",
            registry=registry,
            buckets=_SECONDS,
        )
        self.read_at = Gauge(
            "numakube_measured_last_reading_timestamp_seconds",
            "When the node was last measured, in seconds since 1970.",
            registry=registry,
        )
        self.untold = Gauge(
            "numakube_measured_unknown",
            "1 for each thing that the node's kernel does not tell.",
            ("what",),
            registry=registry,
        )
        registry.register(self)

    def keep(self, measurement: Measurement, names: Mapping[str, str]) -> None:
        """Take over a new reading; *names* are ``namespace/name`` of pods by their short uids."""
        self._last, self._names = measurement, names
        for line in measurement.untold:
            self.untold.labels(line.partition(":")[0]).set(1)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Return the figures."""
        last = self._last
        zones = () if last is None else last.zones
        pods = [pod for pod in (() if last is None else last.pods) if pod.uid in self._names]
        yield from self._zones(zones)
        yield from self._pods([pod for pod in pods if pod.zones])
        yield self._memory(pods)

    def _zones(self, zones: Sequence[MeasuredZone]) -> Iterator[GaugeMetricFamily]:
        for name, meaning in _OF_ZONES.items():
            family = GaugeMetricFamily(f"numakube_measured_zone_{name}", meaning, labels=_ZONE)
            for zone in zones:
                value = _of_zone(zone)[name]
                if value is not None:
                    family.add_metric((self._node, f"node-{zone.id}"), float(value))
            yield family

    def _pods(self, pods: Sequence[MeasuredPod]) -> Iterator[GaugeMetricFamily]:
        for name, meaning in _OF_PODS.items():
            family = GaugeMetricFamily(f"numakube_measured_pod_{name}", meaning, labels=_POD)
            for pod in pods:
                value = _of_pod(pod)[name]
                if value is not None:
                    family.add_metric(self._labels(pod), float(value))
            yield family

    def _memory(self, pods: Iterable[MeasuredPod]) -> GaugeMetricFamily:
        family = GaugeMetricFamily(
            "numakube_measured_pod_memory_bytes", _MEMORY, labels=(*_POD, "zone", "promised")
        )
        left = MOST_SERIES
        for pod in pods:
            for zone, size in pod.memory_mi.items():
                left -= 1
                if left < 0:
                    return family
                promised = "unknown" if not pod.zones else "yes" if zone in pod.zones else "no"
                family.add_metric((*self._labels(pod), f"node-{zone}", promised), float(size * MIB))
        return family

    def _labels(self, pod: MeasuredPod) -> tuple[str, ...]:
        namespace, _, name = self._names[pod.uid].partition("/")
        return self._node, namespace, name


def _of_zone(zone: MeasuredZone) -> dict[str, float | None]:
    return {
        "memory_free_bytes": _bytes(zone.free_mi),
        "memory_available_bytes": _bytes(zone.available_mi),
        "guest_memory_bytes": _bytes(zone.guests_mi),
        "memory_traffic_bytes_per_second": _bytes(zone.traffic_mi_per_second),
        "remote_traffic_bytes_per_second": _bytes(zone.remote_mi_per_second),
        "missed_pages_per_second": zone.missed_per_second,
    }


def _of_pod(pod: MeasuredPod) -> dict[str, float | None]:
    return {
        "local_memory_ratio": pod.local,
        "near_threads_ratio": pod.near_threads,
        "throttled_ratio": pod.throttled,
        "stolen_cpu_ratio": pod.stolen,
        "others_cpu_ratio": pod.others,
        "memory_pressure_ratio": pod.memory_pressure,
        "far_interrupts": sum(one.count for one in pod.far_interrupts),
    }


def _bytes(mebibytes: int | None) -> float | None:
    return None if mebibytes is None else float(mebibytes * MIB)
