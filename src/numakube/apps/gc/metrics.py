"""What the garbage collector counts, under the names of nfd-gc where it has them."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge


class GcMetrics:
    """The metrics of a garbage collector."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.deleted = Counter(
            "nfd_gc_objects_deleted_total", "Objects removed.", ("kind",), registry=registry
        )
        self.failures = Counter(
            "nfd_gc_object_delete_failures_total",
            "Objects that could not be removed.",
            ("kind",),
            registry=registry,
        )
        self.orphans = Gauge(
            "numakube_gc_orphans", "Objects whose node is missing now.", registry=registry
        )
