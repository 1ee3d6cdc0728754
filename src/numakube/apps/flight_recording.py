"""Feeds the flight recorder with what happens to pods, from the scheduler and from the extender.

It runs always, so it must cost next to nothing: in a cycle only references are put aside, and what
is kept of them is made later, many at a time, at the latest when it is read. What a node gave a
pod is learnt from the first report that contains the pod; until then the pod is awaited there.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import click
import structlog

from numakube.api.pod import is_rejected
from numakube.apps.host.settings_sources import setting
from numakube.errors import ConfigError, InvalidValue
from numakube.scheduling.numa.caches.counts_belief import CountsBelief, use_in_report
from numakube.scheduling.numa.caches.known_pods import PodStage, stage_of
from numakube.scheduling.numa.caches.model_belief import ExactBelief
from numakube.scheduling.recorder import flight_recorder as notes
from numakube.scheduling.recorder.decision_notes import grouped, tried
from numakube.scheduling.recorder.flight_documents import WallTime
from numakube.scheduling.recorder.flight_recorder import (
    ATTEMPTS,
    FlightRecorder,
    FlightSubject,
    Queued,
)
from numakube.scheduling.snapshot.zone_belief import ChangeCause
from numakube.values.quantity import value

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numakube.kube.clock import Clock
    from numakube.scheduling.cycle import Chosen, Failed, Refused
    from numakube.scheduling.recorder.decision_notes import Refusal
    from numakube.scheduling.scheduling_queue import QueuedPod
    from numakube.scheduling.snapshot.cluster import Cluster
    from numakube.scheduling.snapshot.pods import PodInfo
    from numakube.scheduling.snapshot.zone_belief import BeliefChanges, Misprediction

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()
_MOST_MISPREDICTIONS: Final = 200
_MOST_PENDING: Final = 256
_MOST_PENDING_NODES: Final = 80_000
"""Nodes whose verdicts and scores are put aside: about eight megabytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecorderSettings:
    """How much is remembered of the last attempts."""

    recorder_memory: str = setting(
        "--recorder-memory",
        default="32Mi",
        metavar="QUANTITY",
        help="Memory for the last attempts of all pods; 0 records nothing.",
    )
    recorder_attempts: int = setting(
        "--recorder-attempts",
        type=click.IntRange(1, 1000),
        default=ATTEMPTS,
        help="Attempts to keep for each pod.",
    )


def recorder_of(settings: RecorderSettings) -> FlightRecorder:
    """Return a recorder as the settings say.

    Raises:
        ConfigError: they make no sense.
    """
    try:
        limit = value(settings.recorder_memory)
    except InvalidValue as error:
        raise ConfigError(f"--recorder-memory: {error}") from None
    return FlightRecorder(limit_bytes=max(0, limit), attempts=settings.recorder_attempts)


class Recording:
    """Writes down what happens to pods.

    Attributes:
        since: when it began, by the monotonic clock.
        mispredictions: the latest, with the time of each, newest last.
    """

    def __init__(self, recorder: FlightRecorder, cluster: Cluster, clock: Clock) -> None:
        self.since = clock.monotonic()
        self.mispredictions: deque[tuple[float, Misprediction]] = deque(maxlen=_MOST_MISPREDICTIONS)
        self._recorder = recorder
        self._cluster = cluster
        self._clock = clock
        self._pending: list[Callable[[], None] | tuple[str, notes.Note]] = []
        self._pending_nodes = 0
        self._begun: set[str] = set()
        self._awaited: dict[str, set[str]] = {}
        self._awaited_on: dict[str, str] = {}

    @property
    def recorder(self) -> FlightRecorder:
        """Where everything is written down."""
        self.flush()
        return self._recorder

    def wall(self) -> WallTime:
        """Return what turns noted times into times of day."""
        return WallTime(self._clock.now(), self._clock.monotonic())

    def flush(self) -> None:
        """Write down what is pending."""
        pending, self._pending = self._pending, []
        self._pending_nodes = 0
        self._begun.clear()
        for one in pending:
            try:
                if isinstance(one, tuple):
                    self._recorder.note(*one)
                else:
                    one()
            except Exception as error:
                # Who watches must not stumble for those who work.
                _log.error("not_recorded", error=repr(error), exc_info=error)

    def _later(self, one: Callable[[], None] | tuple[str, notes.Note], nodes: int = 0) -> None:
        """Write something down when there is time, and before it gets too much."""
        self._pending.append(one)
        self._pending_nodes += nodes
        if len(self._pending) >= _MOST_PENDING or self._pending_nodes >= _MOST_PENDING_NODES:
            self.flush()

    def _follows(self, uid: str) -> bool:
        return uid in self._recorder or uid in self._begun

    # What is decided.

    def tried(
        self,
        entry: QueuedPod,
        decision: Chosen | Refused | Failed,
        *,
        started: float,
        message: str = "",
    ) -> None:
        """Note an attempt and what was decided."""
        now, cluster = self._clock.monotonic(), self._cluster
        begin, uid = self._beginning(entry), entry.uid

        def write() -> None:
            begin()
            note = tried(decision, at=now, seconds=now - started, cluster=cluster, message=message)
            self._recorder.note(uid, note)

        self._later(write, len(cluster.by_row))

    def begin(self, entry: QueuedPod) -> None:
        """Note that an attempt was made, and why."""
        self._later(self._beginning(entry))

    def _beginning(self, entry: QueuedPod) -> Callable[[], None]:
        pod, number, queued_at, why = entry.pod, entry.attempts, entry.queued_at, entry.woken_by
        self._begun.add(pod.uid)
        return lambda: self._recorder.begin(subject_of(pod), Queued(queued_at, why), number=number)

    def reserved(self, uid: str, node: str) -> None:
        """Note where a pod was booked, and what it is expected to get there."""
        now, info = self._clock.monotonic(), self._cluster.node(node)
        belief = None if info is None else info.numa

        def write() -> None:
            note = notes.ReservedNote(now, node)
            if isinstance(belief, ExactBelief):
                note = notes.ReservedNote(now, node, belief.foreseen.get(uid))
            elif isinstance(belief, CountsBelief):
                note = notes.ReservedNote(now, node, anywhere=tuple(sorted(belief.places_of(uid))))
            if self._recorder.note(uid, note) and (note.predicted or note.anywhere):
                self._awaited.setdefault(node, set()).add(uid)
                self._awaited_on[uid] = node

        self._later(write)

    def bound(self, uid: str, node: str) -> None:
        """Note that a pod was bound."""
        self._later((uid, notes.BoundNote(self._clock.monotonic(), node)))

    def not_bound(self, uid: str, reason: str) -> None:
        """Note that an attempt came to nothing."""
        now = self._clock.monotonic()

        def write() -> None:
            self._await_no_longer(uid)
            self._recorder.note(uid, notes.NotBoundNote(now, reason))

        self._later(write)

    # What another scheduler asks.

    def asked(
        self, pod: PodInfo, refusals: Sequence[Refusal], *, nodes: int, kept: int, started: float
    ) -> None:
        """Note a call that asks which of some nodes can take a pod: the start of an attempt."""
        now, cluster = self._clock.monotonic(), self._cluster
        begin = self._opening(pod, now, "kube-scheduler tries it")

        def write() -> None:
            begin()
            digest = grouped(refusals, cluster.by_row)
            note = notes.TriedNote(
                at=now,
                seconds=now - started,
                evaluated=nodes,
                feasible=kept,
                groups=digest.groups,
                others=digest.others,
                by="filter",
            )
            self._recorder.note(pod.uid, note)

        self._later(write, len(cluster.by_row))

    def binding(self, pod: PodInfo) -> None:
        """Note a call to bind a pod, which may have been tried elsewhere before."""
        if not self._follows(pod.uid):
            self._later(self._opening(pod, self._clock.monotonic(), "kube-scheduler binds it"))

    def told(self, uid: str, what: str, **values: str | int) -> None:
        """Note what was answered to another call."""
        self._later((uid, notes.ToldNote(self._clock.monotonic(), what, values)))

    def _opening(self, pod: PodInfo, now: float, why: str) -> Callable[[], None]:
        self._begun.add(pod.uid)
        return lambda: self._recorder.begin(subject_of(pod), Queued(now, why))

    # What happens.

    def placed(self, pod: PodInfo) -> None:
        """Note that a kubelet has taken a pod, once."""
        uid = pod.uid
        if self._follows(uid) and stage_of(pod.pod) is PodStage.TAKEN:
            note = notes.AdmittedNote(self._clock.monotonic(), pod.node_name)
            self._later(lambda: self._taken(uid, note))

    def _taken(self, uid: str, note: notes.AdmittedNote) -> None:
        flight = self._recorder.get(uid)
        last = None if flight is None else flight.last
        if last is not None and not any(
            isinstance(other, notes.AdmittedNote) for other in last.notes
        ):
            self._recorder.note(uid, note)

    def ended(self, pod: PodInfo) -> None:
        """Note a kubelet's refusal, or how a pod ended."""
        if not self._follows(pod.uid):
            return
        self.flush()
        now, status = self._clock.monotonic(), pod.pod.status
        self._await_no_longer(pod.uid)
        if status is not None and is_rejected(pod.pod):
            self._note(
                pod.uid, notes.RejectedNote(now, pod.node_name, status.reason, status.message)
            )
        else:
            self._note(pod.uid, notes.EndedNote(now, status.phase if status else "ended"))

    def deleted(self, pod: PodInfo) -> None:
        """Note that a pod is no more."""
        if self._follows(pod.uid):
            self.flush()
            self._await_no_longer(pod.uid)
            self._note(pod.uid, notes.EndedNote(self._clock.monotonic(), "deleted"))

    def cache_changed(self, changes: BeliefChanges) -> None:
        """Note what reports say of pods, and what had been foreseen otherwise."""
        for change in changes.changes:
            if change.cause is ChangeCause.REPORT and (
                self._pending or change.node in self._awaited
            ):
                self.flush()
                self._look_at_report(change.node)
        for misprediction in changes.mispredictions:
            self.flush()
            self._mispredicted(misprediction)

    def _note(self, uid: str, note: notes.Note) -> None:
        self._recorder.note(uid, note)

    def _mispredicted(self, one: Misprediction) -> None:
        now = self._clock.monotonic()
        self.mispredictions.append((now, one))
        note = notes.MispredictedNote(now, one.node, one.severity, one.predicted, one.reported)
        self._note(one.uid, note)

    def _look_at_report(self, name: str) -> None:
        node = self._cluster.node(name)
        topology = None if node is None or node.numa is None else node.numa.topology
        report = None if topology is None else topology.report
        if report is None:
            return
        for uid in tuple(self._awaited.get(name, ())):
            holding = report.holding(uid)
            if holding is None and uid in self._recorder:
                continue
            self._await_no_longer(uid)
            if holding is not None:
                zones = use_in_report(report, holding)
                self._note(uid, notes.ObservedNote(self._clock.monotonic(), name, zones))

    def _await_no_longer(self, uid: str) -> None:
        name = self._awaited_on.pop(uid, None)
        if name is not None:
            self._awaited[name].discard(uid)
            if not self._awaited[name]:
                del self._awaited[name]


def subject_of(pod: PodInfo) -> FlightSubject:
    """Return who *pod* is, without the pod."""
    return FlightSubject(pod.uid, pod.namespace, pod.name, pod.scheduler_name)
