"""What came of an attempt: where the pod waits next, and who learns of it.

Users see events and conditions (`decision_events`), the flight recorder keeps the details,
metrics count, and the log has the details that its level asks for.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import structlog

from numakube.apps.host.common_settings import SWITCH
from numakube.scheduling.cycle import Chosen, Failed, Refused
from numakube.values.safe_text import reason_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.apps.flight_recording import Recording
    from numakube.apps.scheduler.decision_events import Outcomes
    from numakube.apps.scheduler.metrics import SchedulerMetrics
    from numakube.apps.scheduler.pod_queue import PodQueue
    from numakube.kube.clock import Clock
    from numakube.scheduling.numa.caches.cache_contract import Changes
    from numakube.scheduling.queue.queued_pod import QueuedPod

_ATTEMPT_LABELS: Final = 15
"""Attempts beyond this share a label, as in kube-scheduler."""

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


@contextmanager
def surviving(doing: str) -> Iterator[None]:
    """Log a bug instead of ending for it: a plugin's mistake must not stop all scheduling."""
    try:
        yield
    except Exception as error:
        _log.error("bug", doing=doing, error=reason_of(error), exc_info=error)


class Results:
    """Puts pods back into the queue or takes them off it, and tells everyone."""

    def __init__(
        self,
        queue: PodQueue,
        clock: Clock,
        *,
        outcomes: Outcomes,
        recording: Recording,
        metrics: SchedulerMetrics,
    ) -> None:
        self.outcomes = outcomes
        self.recording = recording
        self.metrics = metrics
        self._queue = queue
        self._clock = clock

    def decided(
        self, entry: QueuedPod, decision: Chosen | Refused | Failed, started: float
    ) -> None:
        """Note what a cycle came to; a refusal is recorded with its message, by `tell_refused`."""
        self.metrics.algorithm_seconds.observe(self._clock.monotonic() - started)
        if not isinstance(decision, Refused):
            self.recording.tried(entry, decision, started=started)
        if SWITCH.details:
            _log_details(entry, decision)

    def bound(self, entry: QueuedPod, node: str, started: float) -> None:
        """The pod has its node."""
        if SWITCH.details:
            _log.debug("bound", pod=entry.pod.key, node=node, attempts=entry.attempts)
        self.outcomes.scheduled(entry.pod, node)
        self.recording.bound(entry.uid, node)
        self._observe("scheduled", entry, started)
        attempts = min(entry.attempts, _ATTEMPT_LABELS)
        label = f"{attempts}+" if entry.attempts > _ATTEMPT_LABELS else str(attempts)
        waited = self._clock.monotonic() - entry.added_at
        self.metrics.sli_seconds.labels(label).observe(waited)
        self.metrics.pod_attempts.observe(entry.attempts)

    def tell_refused(
        self, entry: QueuedPod, decision: Refused, message: str, started: float
    ) -> None:
        """Say that the pod fits nowhere."""
        self.recording.tried(entry, decision, started=started, message=message)
        if message != entry.message:
            self.outcomes.refused(entry.pod, message, again=bool(entry.message))

    def put_back(
        self,
        entry: QueuedPod,
        decision: Refused,
        message: str,
        started: float,
        also_by: frozenset[str] = frozenset(),
    ) -> None:
        """Let a pod that fits nowhere wait for what may help it, or those that it needs."""
        if decision.diagnosis.is_costly:
            self._queue.failed(entry, message, costly=True)
        elif decision.unfinished:
            self._queue.failed(entry, message)
        else:
            self._queue.refused(entry, decision.diagnosis.plugins() | also_by, message)
        self.metrics.claims.refused(decision.diagnosis)
        self._observe("unschedulable", entry, started)

    def failed(self, entry: QueuedPod, message: str, started: float) -> None:
        """The attempt came to nothing; the pod is tried again after a backoff."""
        if message != entry.message and entry.uid in self._queue:
            again = bool(entry.message)
            self.outcomes.refused(entry.pod, message, reason="SchedulerError", again=again)
        self._queue.failed(entry, message)
        self.recording.not_bound(entry.uid, message)
        self._observe("error", entry, started)

    def left_to_next_leader(self, entry: QueuedPod, reason: str) -> None:
        """The next leader tries again: nothing has gone wrong that users should know."""
        self._queue.failed(entry)
        self.recording.not_bound(entry.uid, reason)

    def taken_away(self, entry: QueuedPod, node: str, reason: str) -> None:
        """The pod is gone, or was bound elsewhere."""
        self._queue.remove(entry.uid)
        self.recording.not_bound(entry.uid, reason)
        _log.info("not_bound", pod=entry.pod.key, node=node, reason=reason)

    def cache_changed(self, changes: Changes) -> None:
        """Count and log what the NUMA cache found."""
        self.recording.cache_changed(changes)
        for fact in changes.facts:
            self.metrics.facts.labels(fact.kind.value).inc()
            _log.info(
                "numa_cache", kind=fact.kind.value, node=fact.node, pod=fact.pod, text=fact.text
            )
        for one in changes.mispredictions:
            self.metrics.mispredictions.labels(str(one.severity)).inc()
            _log.warning("misprediction", node=one.node, pod=one.pod, severity=str(one.severity))

    def _observe(self, result: str, entry: QueuedPod, started: float) -> None:
        profile = entry.pod.scheduler_name
        seconds = self._clock.monotonic() - started
        self.metrics.attempts.labels(result, profile).inc()
        self.metrics.attempt_seconds.labels(result, profile).observe(seconds)


def _log_details(entry: QueuedPod, decision: Chosen | Refused | Failed) -> None:
    """Log what a cycle came to, for those who asked for it."""
    about = {"pod": entry.pod.key, "attempt": entry.attempts, "woken_by": entry.woken_by}
    match decision:
        case Chosen():
            _log.debug("chosen", **about, node=decision.node, feasible=decision.feasible)
        case Refused():
            for rows, status in decision.diagnosis.groups():
                _log.debug(
                    "refused", **about, nodes=len(rows), by=status.plugin, why=status.message
                )
        case Failed():
            _log.debug("failed", **about, by=decision.status.plugin, why=decision.status.message)
