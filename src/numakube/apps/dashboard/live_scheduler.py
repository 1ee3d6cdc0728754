"""The inside of a scheduler or extender, for the dashboard that it serves."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from numakube.apps.dashboard.scheduler_view import Missed, Moment, Waiting
from numakube.apps.dashboard.timeline_steps import moments_of
from numakube.insight.pod_timeline import use_text
from numakube.scheduling.recorder.flight_documents import flight_document, use_document
from numakube.scheduling.snapshot.cluster_objects import ClusterObjects

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from numakube.api.scheduler_config import KubeSchedulerConfiguration
    from numakube.apps.cluster_mirror import Mirror
    from numakube.apps.flight_recording import Recording
    from numakube.kube.clock import Clock
    from numakube.scheduling.queue.queued_pod import QueuedPod
    from numakube.scheduling.snapshot.pods import PodInfo
    from numakube.scheduling.snapshot.zone_belief import NumaBelief


class Decider:
    """Lets the dashboard see what a process believes and has decided.

    Attributes:
        role: what the process is.
        config: the configuration that it decides by, if it is a scheduler.
    """

    def __init__(
        self,
        mirror: Mirror,
        clock: Clock,
        *,
        role: str,
        recording: Recording | None = None,
        queue: Iterable[QueuedPod] = (),
        gang_of: Callable[[PodInfo], Mapping[str, Any] | None] = lambda _: None,
        config: KubeSchedulerConfiguration | None = None,
    ) -> None:
        self.role = role
        self.config = config
        self._mirror = mirror
        self._clock = clock
        self._recording = recording
        self._queue = queue
        self._gang_of = gang_of

    def waiting(self) -> list[Waiting]:
        """Return the queue."""
        now = self._clock.monotonic()
        return [
            Waiting(
                pod=entry.pod.key,
                place=entry.place.value,
                attempts=entry.attempts,
                retry_in_seconds=max(entry.retry_at - now, 0.0),
                gate=entry.gate.message,
                gang=self._gang_of(entry.pod),
            )
            for entry in self._queue
        ]

    def moments(self, namespace: str, name: str) -> list[Moment]:
        """Return what was done about the pods that had that name, oldest first."""
        if self._recording is None:
            return []
        wall, flights = self._recording.wall(), self._recording.recorder.called(namespace, name)
        return [
            moment
            for flight in reversed(flights)
            for moment in moments_of(flight_document(flight, wall))
        ]

    def mispredictions(self) -> list[Missed]:
        """Return the latest mispredictions, newest first."""
        if self._recording is None:
            return []
        wall = self._recording.wall()
        return [
            Missed(
                at=wall.text(at),
                node=one.node,
                pod=one.pod,
                severity=one.severity.value,
                predicted=use_text(use_document(one.predicted)),
                reported=use_text(use_document(one.reported)),
            )
            for at, one in reversed(self._recording.mispredictions)
        ]

    def belief(self, node: str) -> NumaBelief | None:
        """Return what is believed of a node."""
        info = self._mirror.cluster.node(node)
        return None if info is None else info.numa

    def objects(self) -> ClusterObjects:
        """Return a copy of what decisions depend on besides nodes and pods."""
        copy = ClusterObjects()
        for field in fields(ClusterObjects):
            mirrored = getattr(self._mirror.cluster.objects, field.name)
            getattr(copy, field.name).update(mirrored)
        return copy
