"""What comes of an attempt that fails: the flight recorder has it, whoever else is told."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from prometheus_client import CollectorRegistry
from tests.apps.scheduler.parts import Parts

from numakube.apps.scheduler.binding_cycle import Results
from numakube.apps.scheduler.metrics import SchedulerMetrics
from numakube.scheduling.cycle import Failed, Refused
from numakube.scheduling.framework.status import TOO_COSTLY, Diagnosis, failure, unschedulable
from numakube.scheduling.scheduling_queue import Place, QueuedPod
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.scheduling.snapshot.zone_belief import BeliefChanges, Fact, FactKind
from numakube.testing import ManualClock, World, pod


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


def refused_by(plugin: str, detail: object = None) -> Diagnosis:
    """Return why a pod does not fit one node."""
    status = unschedulable("no room", detail=detail).by(plugin)
    return Diagnosis(names=("n0",), total=1, excluded=[(np.array([0]), status)])


@pytest.mark.parametrize(
    ("decision", "place", "seconds"),
    [
        (Refused(refused_by("DynamicResources")), Place.UNSCHEDULABLE, 1.0),
        (Refused(refused_by("DynamicResources"), unfinished=True), Place.BACKOFF, 1.0),
        (Refused(refused_by("DynamicResources", TOO_COSTLY)), Place.BACKOFF, 10.0),
        (
            Refused(refused_by("DynamicResources", TOO_COSTLY), unfinished=True),
            Place.BACKOFF,
            10.0,
        ),
    ],
)
def test_a_pod_that_fits_nowhere_waits_for_what_may_help_it(
    decision: Refused, place: Place, seconds: float
) -> None:
    """For an event, if all was tried; for a while, or for longer if trying took all the time."""
    parts = Parts(World())
    entry = parts.taken(pod("a"))
    parts.results.put_back(entry, decision, "no room", -0.5, frozenset({"Gang"}))
    assert (entry.place, entry.message, entry.retry_at) == (place, "no room", seconds)
    if place is Place.UNSCHEDULABLE:
        assert entry.refused_by == {"DynamicResources", "Gang"}

    def value(name: str, **labels: str) -> float | None:
        return parts.registry.get_sample_value(name, labels)

    outcome = {"result": "unschedulable", "profile": entry.pod.scheduler_name}
    assert value("scheduler_schedule_attempts_total", **outcome) == 1.0
    assert value("scheduler_scheduling_attempt_duration_seconds_sum", **outcome) == 0.5
    reason = "too_costly" if decision.diagnosis.is_costly else "other"
    assert value("numakube_claim_refusals_total", reason=reason) == 1.0


@pytest.mark.parametrize("how", ["tell_refused", "failed"])
def test_users_are_told_when_there_is_something_new_to_say(how: str) -> None:
    """The first time at once, later when there is time, and not at all if it is gone."""
    parts = Parts(World())
    entry = parts.taken(pod("a"))
    for message in ("no room", "no room", "less room"):
        if how == "failed":
            parts.results.failed(entry, message, 0.0)
        else:
            decision = Refused(refused_by("Fit"))
            parts.results.tell_refused(entry, decision, message, 0.0)
            parts.results.put_back(entry, decision, message, 0.0)
    told = [(part[1], part[-1]) for part in parts.told.of("refused")]
    assert told == [("no room", False), ("less room", True)]
    if how == "failed":
        parts.queue.remove("a")
        parts.results.failed(entry, "nobody there", 0.0)
        assert len(parts.told.of("refused")) == 2
        labels = {"result": "error", "profile": entry.pod.scheduler_name}
        attempts = parts.registry.get_sample_value("scheduler_schedule_attempts_total", labels)
        assert attempts == 4.0


def test_what_the_cache_finds_is_counted() -> None:
    """By what it is."""
    parts = Parts(World())
    facts = (Fact(FactKind.OLD_REPORT, "n0", "text"), Fact(FactKind.OLD_REPORT, "n1", "text"))
    parts.results.cache_changed(BeliefChanges(facts=facts))
    labels = {"kind": FactKind.OLD_REPORT.value}
    assert parts.registry.get_sample_value("numakube_cache_facts_total", labels) == 2.0


def test_how_long_deciding_took_is_measured_whatever_came_of_it() -> None:
    """A refusal is recorded later, with its message; a failure at once."""
    parts = Parts(World())
    entry = parts.taken(pod("a"))
    parts.results.decided(entry, Refused(refused_by("Fit")), -0.25)
    assert parts.recording.recorder.get("a") is None
    parts.results.decided(entry, Failed(failure("no answer")), -0.5)
    name = "scheduler_scheduling_algorithm_duration_seconds_sum"
    assert parts.registry.get_sample_value(name) == 0.75
    assert parts.recording.recorder.get("a") is not None
