"""What comes of an attempt that fails: the flight recorder has it, whoever else is told."""

from __future__ import annotations

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
