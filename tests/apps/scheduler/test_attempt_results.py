"""What comes of an attempt that fails: the flight recorder has it, whoever else is told."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry

from numakube.apps.scheduler.attempt_results import Results
from numakube.apps.scheduler.metrics import SchedulerMetrics
from numakube.scheduling.queue.queued_pod import QueuedPod
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing import ManualClock, pod


class Notes:
    """A queue, a recorder and outcomes that write down what they are told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []

    def __contains__(self, uid: str) -> bool:
        return True

    def not_bound(self, uid: str, reason: str) -> None:
        """Note that a pod was not bound."""
        self.told.append((uid, reason))

    def failed(self, *_: object) -> None:
        """Put back."""

    def remove(self, *_: object) -> None:
        """Forget."""

    def refused(self, *_: object, **__: object) -> None:
        """Tell users."""


@pytest.mark.parametrize("how", ["failed", "left_to_next_leader", "taken_away"])
def test_a_pod_that_was_not_bound_is_noted_with_the_reason(how: str) -> None:
    """Whether it is tried again, left to another scheduler, or gone."""
    notes = cast("Any", Notes())
    metrics = SchedulerMetrics(CollectorRegistry())
    results = Results(notes, ManualClock(), outcomes=notes, recording=notes, metrics=metrics)
    entry = QueuedPod(PodInfo(pod("a")), added_at=0.0, queued_at=0.0)
    arguments: dict[str, tuple[Any, ...]] = {
        "failed": (entry, "no answer", 0.0),
        "left_to_next_leader": (entry, "no answer"),
        "taken_away": (entry, "n1", "no answer"),
    }
    getattr(results, how)(*arguments[how])
    assert notes.told == [("a", "no answer")]


@pytest.mark.parametrize(
    ("attempts", "label"), [(1, "1"), (14, "14"), (15, "15"), (16, "15+"), (99, "15+")]
)
def test_a_bound_pod_is_announced_recorded_and_counted(attempts: int, label: str) -> None:
    """With how long it waited, by how often it was tried; beyond fifteen times share a label."""
    told: list[tuple[object, ...]] = []
    users: Any = SimpleNamespace(scheduled=lambda one, node: told.append(("users", one.uid, node)))
    recording: Any = SimpleNamespace(bound=lambda uid, node: told.append(("recorder", uid, node)))
    registry, clock = CollectorRegistry(), ManualClock()
    results = Results(
        cast("Any", Notes()),
        clock,
        outcomes=users,
        recording=recording,
        metrics=SchedulerMetrics(registry),
    )
    entry = QueuedPod(PodInfo(pod("a")), added_at=-3.0, queued_at=0.0, attempts=attempts)
    results.bound(entry, "n1", -0.5)
    assert told == [("users", "a", "n1"), ("recorder", "a", "n1")]

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"scheduler_{name}", labels)

    assert value("pod_scheduling_sli_duration_seconds_sum", attempts=label) == 3.0
    assert value("pod_scheduling_attempts_sum") == attempts
    outcome = {"result": "scheduled", "profile": entry.pod.scheduler_name}
    assert value("schedule_attempts_total", **outcome) == 1.0
    assert value("scheduling_attempt_duration_seconds_sum", **outcome) == 0.5
