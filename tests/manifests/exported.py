"""What the processes really export, read from the metrics that they make."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.annexes.contributions import rows

from numakube.apps.exporter.metrics import ExporterMetrics
from numakube.apps.extender.metrics import ExtenderMetrics
from numakube.apps.gc.process import GcMetrics
from numakube.apps.host.process_life import new_registry
from numakube.apps.operator.metrics import OperatorMetrics
from numakube.apps.scheduler.metrics import SchedulerMetrics
from numakube_placement.enforcer.metrics import EnforcerMetrics
from numakube_placement.webhook.process import WebhookMetrics
from numakube_planning.admission_check.process import AdmissionCheckMetrics
from numakube_planning.rebalancer.process import RebalancerMetrics

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client import CollectorRegistry


@dataclass(frozen=True, slots=True)
class Exported:
    """One metric of one component."""

    component: str
    name: str
    type: str
    labels: tuple[str, ...]
    meaning: str

    @property
    def samples(self) -> dict[str, frozenset[str]]:
        """The names that an expression may use, with their labels."""
        labels = frozenset(self.labels)
        if self.type != "histogram":
            return {self.name: labels}
        parts = {f"{self.name}_{part}": labels for part in ("sum", "count")}
        return {f"{self.name}_bucket": labels | {"le"}, **parts}


def exported() -> list[Exported]:
    """Return everything that is exported, by component; what all have is under ``process``."""
    everyone = _metrics("process", new_registry("any"))
    common = {metric.name for metric in everyone}
    found = list(everyone)
    for component, make in {
        "exporter": lambda registry: ExporterMetrics("node", registry),
        "gc": GcMetrics,
        "scheduler": SchedulerMetrics,
        "extender": ExtenderMetrics,
        "operator": OperatorMetrics,
        "enforcer": EnforcerMetrics,
        "webhook": WebhookMetrics,
        "admission-check": AdmissionCheckMetrics,
        "rebalancer": RebalancerMetrics,
        **rows("METRICS"),
    }.items():
        registry = new_registry(component)
        make(registry)
        found += [metric for metric in _metrics(component, registry) if metric.name not in common]
    return found


def _metrics(component: str, registry: CollectorRegistry) -> list[Exported]:
    return [
        Exported(component, name, family.type, tuple(labels), family.documentation)
        for family, labels in _families(registry)
        for name in [f"{family.name}_total" if family.type == "counter" else family.name]
    ]


def _families(registry: CollectorRegistry) -> Iterator[tuple[Any, tuple[str, ...]]]:
    # prometheus_client tells label names nowhere in public before there are samples.
    collectors: Any = registry._collector_to_names
    for collector in collectors:
        for family in collector.collect():
            yield family, getattr(collector, "_labelnames", getattr(family, "_labelnames", ()))
