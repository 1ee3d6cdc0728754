"""Metrics and their documentation are the same."""

from __future__ import annotations

import re
from pathlib import Path

from prometheus_client import CollectorRegistry
from tests.scheduling.conftest import pod_of
from tests.scheduling.queue.test_queue import Rules

from numakube.apps.scheduler.metrics import SchedulerMetrics
from numakube.scheduling.queue.queue import SchedulingQueue

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "scheduler.md"


def test_every_metric_is_documented_and_every_documented_one_exists() -> None:
    """A dashboard built from the page must find its figures."""
    registry = CollectorRegistry(auto_describe=True)
    SchedulerMetrics(registry)
    # Families of counters lack the suffix that their samples have.
    known = {
        f"{family.name}_total" if family.type == "counter" else family.name
        for family in registry.collect()
    }
    rows = re.findall(r"^\| `((?:scheduler|numakube|leader)_\w+)`", PAGE.read_text(), re.MULTILINE)
    assert set(rows) == known


def test_gauges_show_what_the_queue_holds() -> None:
    """Read when asked, not when changed."""
    registry = CollectorRegistry()
    metrics, queue = SchedulerMetrics(registry), SchedulingQueue(Rules())
    metrics.watch_queue(queue, ["Fit"])
    for number in range(3):
        queue.add(pod_of(f"p{number}"), 0)
    entry = queue.pop(0)
    assert entry is not None
    queue.refused(entry, frozenset({"Fit"}), 0)

    def value(queue_name: str) -> float | None:
        return registry.get_sample_value("scheduler_pending_pods", {"queue": queue_name})

    assert (value("active"), value("unschedulable"), value("gated")) == (2, 1, 0)
    assert registry.get_sample_value("scheduler_unschedulable_pods", {"plugin": "Fit"}) == 1
