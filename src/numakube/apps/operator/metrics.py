"""What the operator counts, under the names of controller-runtime where they mean the same."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram


class OperatorMetrics:
    """The metrics of an operator."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.passes = Counter(
            "controller_runtime_reconcile_total",
            "Passes, by how they ended.",
            ("controller", "result"),
            registry=registry,
        )
        self.seconds = Histogram(
            "controller_runtime_reconcile_time_seconds",
            "How long a pass takes.",
            ("controller",),
            registry=registry,
        )
        self._adds = Counter(
            "workqueue_adds_total",
            "Objects that were queued for a pass.",
            ("controller", "name"),
            registry=registry,
        )
        self.writes = Counter(
            "numakube_operator_objects_written_total",
            "Objects that were written because they differed from the plan.",
            ("kind",),
            registry=registry,
        )
        self.conditions = Gauge(
            "numakube_operator_condition",
            "1 if the condition of the object holds.",
            ("kind", "condition"),
            registry=registry,
        )

    def added(self, controller: str) -> None:
        """Count that there is something to do for *controller*, by its name in controller-runtime.

        Its metrics have that name twice.
        """
        self._adds.labels(controller, controller).inc()
