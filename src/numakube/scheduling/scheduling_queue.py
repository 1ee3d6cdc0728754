"""Whose turn it is: waiting pods, and what profiles say about them.

As in kube-scheduler 1.37 a pod that fitted nowhere is left alone until an event that may help the
plugins which refused it; it is then tried at once, or when its backoff (1 s, doubling up to 10 s)
is over. When no pod is active, woken pods are tried before their backoff ends, but never those
whose attempt failed by an error. After five minutes without an event a pod is tried anyway: the
last resort against an unforeseen event.

Time is a parameter; the queue starts no timers. `next_wakeup` says when to come back.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from enum import Enum
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from numakube.scheduling.framework.cluster_events import ClusterEvent, EventKind
from numakube.scheduling.framework.cycle_state import CycleState
from numakube.scheduling.framework.plugins import Filter, QueueSort
from numakube.scheduling.framework.status import SUCCESS, Status

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

    from numakube.scheduling.framework.plugins import Nominations, Plugin
    from numakube.scheduling.framework.runtime import Runtime
    from numakube.scheduling.snapshot.cluster import Cluster
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo


# ------------------------------------------------------------------------------------------------
# A waiting pod with its history.


class Place(Enum):
    """Where a pod waits; the values are the names that kube-scheduler's metrics use."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    GATED = "gated"
    IN_FLIGHT = "in-flight"
    """Being tried, or being bound."""


@dataclass(slots=True)
class QueuedPod:
    """A pod in the queue.

    Attributes:
        added_at: when it was first seen; the start of its scheduling latency.
        queued_at: when it came to its present place.
        attempts: how often it was tried.
        refusals: how often in a row it fitted nowhere.
        errors: how often in a row the attempt failed for other reasons.
        refused_by: plugins whose events may let it fit.
        gate: why it is not tried at all, if it is gated.
        gates: what it is found by while it is gated.
        retry_at: end of its backoff.
        woken_by: what brought it back to the active queue last.
        group: the pods with which it waits for an event, if it does.
        turn: the number of its item among the active pods; earlier ones are left over.
    """

    pod: PodInfo
    added_at: float
    queued_at: float
    place: Place = Place.ACTIVE
    attempts: int = 0
    refusals: int = 0
    errors: int = 0
    refused_by: frozenset[str] = frozenset()
    gate: Status = SUCCESS
    gates: frozenset[Hashable] = frozenset()
    retry_at: float = 0.0
    message: str = ""
    woken_by: str = "created"
    group: tuple[frozenset[str], Hashable] = (frozenset(), None)
    turn: int = -1

    @property
    def uid(self) -> str:
        """The pod's uid."""
        return self.pod.uid


# ------------------------------------------------------------------------------------------------
# Whose turn it is: the active queue, backoff, and the pods that wait for something to happen.

_Item: TypeAlias = tuple[Any, int, QueuedPod]
"""What a heap is ordered by, the order of arrival, and who waits."""
MAX_UNSCHEDULABLE_SECONDS = 300.0
_SWEPT_FROM: Final = 1000
"""Items of a heap that may be left over from pods which have moved on."""
EVERY_GATE: Final = "every gate"
"""What all pods that must not be tried are found by."""
_MAY_BE_TRIED: Final = (Place.ACTIVE, Place.BACKOFF, Place.UNSCHEDULABLE)
_TIMEOUT = f"{MAX_UNSCHEDULABLE_SECONDS:.0f} s without an event"


@dataclass(frozen=True, slots=True)
class PodBackoff:
    """How long a pod waits after attempts in vain."""

    initial_seconds: float = 1.0
    max_seconds: float = 10.0

    def after(self, attempts: int) -> float:
        """Return the wait after so many attempts in a row."""
        if attempts == 0:
            return 0.0
        # Bounded before shifting: a pod may have been tried thousands of times.
        return min(self.initial_seconds * 2.0 ** min(attempts - 1, 32), self.max_seconds)

    def after_costly(self, attempts: int) -> float:
        """Return the wait after so many attempts, of which the last took all the time it may.

        It begins where others end, and goes on to double.
        """
        waits = self.max_seconds * 2.0 ** min(attempts - 1, 32)
        return min(waits, max(MAX_UNSCHEDULABLE_SECONDS, self.max_seconds))


class QueueingHints(Protocol):
    """What the queue asks the profiles."""

    def pre_enqueue(self, pod: PodInfo) -> Status:
        """Return a refusal if *pod* must not be tried yet."""
        ...

    def opened_by(self, pod: PodInfo, gate: Status) -> Iterable[Hashable]:
        """Return what may open a *gate* that keeps *pod* back."""
        ...

    def sort_key(self, pod: PodInfo, queued_at: float) -> tuple[Any, ...]:
        """Return what active pods are ordered by."""
        ...

    def wakes(self, pod: PodInfo, refused_by: frozenset[str], event: ClusterEvent) -> bool:
        """Tell whether *event* may let *pod*, refused by those plugins, fit."""
        ...

    def cares(self, refused_by: frozenset[str], kind: EventKind) -> bool:
        """Tell whether *kind* can matter to any pod refused by those plugins."""
        ...

    def likeness(self, pod: PodInfo, refused_by: frozenset[str]) -> Hashable:
        """Return what *pod* has in common with others that the same events wake."""
        ...

    def rules_out(self, pod: PodInfo, refused_by: frozenset[str], event: ClusterEvent) -> bool:
        """Tell whether *event* cannot let *pod*, or any like it, fit."""
        ...


class SchedulingQueue:
    """All waiting pods."""

    # A pod is in one place (`QueuedPod.place`), but may have items in several heaps: those are
    # never looked for when it moves on, which would cost a pass over the heap. An item counts only
    # if its pod is still in the place that the heap is for, and, of the waiting ones, still has
    # that time, of the active ones, that turn; others are dropped when they come up, or swept out
    # when most items are of that sort.
    #
    # Ten thousand pods that fit nowhere must not cost ten thousand questions for each event. So
    # parked pods form groups by who refused them and by what these plugins look at, and one of each
    # group is asked for all. Gates are found by what may open them for the same reason.
    #
    # `_eager` orders pods that were woken and still back off as the active queue would: with
    # nothing else to do they are tried before their time. Pods whose attempt failed are not among
    # them, or an API server that is down would be asked without pause.

    def __init__(self, hints: QueueingHints, *, backoff: PodBackoff | None = None) -> None:
        self._hints = hints
        self._backoff = backoff or PodBackoff()
        self._entries: dict[str, QueuedPod] = {}
        self._active: list[_Item] = []
        self._waiting: list[_Item] = []
        self._eager: list[_Item] = []
        self._parked: dict[str, QueuedPod] = {}
        self._gated: dict[Hashable, dict[str, QueuedPod]] = {}
        self._groups: dict[tuple[frozenset[str], Hashable], dict[str, QueuedPod]] = {}
        self._order = count()

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, uid: str) -> bool:
        return uid in self._entries

    def __iter__(self) -> Iterator[QueuedPod]:
        return iter(self._entries.values())

    def get(self, uid: str) -> QueuedPod | None:
        """Return the waiting pod with that uid."""
        return self._entries.get(uid)

    def counts(self) -> dict[Place, int]:
        """Return how many pods wait where."""
        totals = dict.fromkeys(Place, 0)
        for entry in self._entries.values():
            totals[entry.place] += 1
        return totals

    def add(self, pod: PodInfo, now: float) -> None:
        """Take in a new pod, or the new version of a waiting one."""
        entry = self._entries.get(pod.uid)
        if entry is not None:
            self._update(entry, pod, now)
            return
        entry = QueuedPod(pod, added_at=now, queued_at=now)
        self._entries[pod.uid] = entry
        self._enqueue(entry, now)

    def remove(self, uid: str) -> QueuedPod | None:
        """Forget a pod: it was deleted, bound, or is no longer ours."""
        entry = self._entries.pop(uid, None)
        if entry is not None:
            self._unpark(entry)
            self._leave_gate(entry)
            entry.place = Place.IN_FLIGHT
        return entry

    def pop(self, now: float) -> QueuedPod | None:
        """Return the pod to try now; it stays known, in flight, until it is put back or removed."""
        self.advance(now)
        entry = self._first(self._active) or self._impatient()
        if entry is None:
            return None
        entry.place = Place.IN_FLIGHT
        entry.attempts += 1
        return entry

    def take(self, uids: Iterable[str]) -> list[QueuedPod]:
        """Return those of *uids* that may be tried, in flight, to be tried with another pod."""
        entries = (self._entries.get(uid) for uid in uids)
        taken = [entry for entry in entries if entry and entry.place in _MAY_BE_TRIED]
        for entry in taken:
            self._unpark(entry)
            entry.place = Place.IN_FLIGHT
            entry.attempts += 1
        return sorted(taken, key=lambda entry: entry.added_at)

    def refused(
        self, entry: QueuedPod, refused_by: frozenset[str], now: float, *, message: str = ""
    ) -> None:
        """Put back a pod that fits nowhere; it waits for an event."""
        if self._entries.get(entry.uid) is not entry:
            return
        entry.refusals += 1
        entry.errors = 0
        entry.refused_by = refused_by
        entry.message = message
        entry.retry_at = now + self._backoff.after(entry.refusals)
        self._park(entry, now)

    def failed(
        self, entry: QueuedPod, now: float, *, message: str = "", costly: bool = False
    ) -> None:
        """Put back a pod whose attempt failed; it is tried again after a backoff.

        A *costly* attempt took so long that others had to wait: this pod waits longer for it.
        """
        if self._entries.get(entry.uid) is not entry:
            return
        entry.errors += 1
        entry.message = message
        entry.woken_by = "backoff after a failure"
        wait = self._backoff.after_costly if costly else self._backoff.after
        entry.retry_at = now + wait(entry.errors)
        self._back_off(entry, now)

    def handle(self, events: Sequence[ClusterEvent], now: float) -> int:
        """Wake the pods that *events* may help; return how many.

        Of the pods that wait for the same thing one is asked about: there may be thousands.
        """
        woken = 0
        cared_for: dict[frozenset[str], list[ClusterEvent]] = {}
        for (refused_by, _), parked in list(self._groups.items()):
            if refused_by not in cared_for:
                cares = self._hints.cares
                cared_for[refused_by] = [event for event in events if cares(refused_by, event.kind)]
            event = self._helped_by(next(iter(parked.values())), cared_for[refused_by])
            if event is not None:
                why = str(event)
                for entry in list(parked.values()):
                    self._wake(entry, now, why)
                    woken += 1
        return woken

    def activate(self, uids: Iterable[str], now: float, why: str = "asked for") -> None:
        """Let pods be tried at once, whatever they wait for; gated ones stay."""
        for uid in uids:
            entry = self._entries.get(uid)
            if entry is not None and entry.place in (Place.BACKOFF, Place.UNSCHEDULABLE):
                self._unpark(entry)
                entry.woken_by = why
                self._enqueue(entry, now)

    def recheck_gates(self, now: float, opener: Hashable = EVERY_GATE) -> None:
        """Ask again about pods that must not be tried: those that *opener* may help, or all."""
        for entry in list(self._gated.get(opener, {}).values()):
            entry.woken_by = "what held it back is over"
            self._enqueue(entry, now)

    def advance(self, now: float) -> None:
        """Move pods whose time has come."""
        while self._waiting and self._waiting[0][0] <= now:
            entry = heapq.heappop(self._waiting)[2]
            if entry.place is Place.BACKOFF and entry.retry_at <= now:
                self._enqueue(entry, now)
        # Parked in order of time: if the first has not waited for too long, none has.
        while self._parked:
            entry = next(iter(self._parked.values()))
            if entry.queued_at + MAX_UNSCHEDULABLE_SECONDS > now:
                break
            self._wake(entry, now, _TIMEOUT)

    def next_wakeup(self) -> float | None:
        """Return when `advance` next has something to do; ``None`` if only events can help."""
        times = [self._waiting[0][0]] if self._waiting else []
        if self._parked:
            first = next(iter(self._parked.values()))
            times.append(first.queued_at + MAX_UNSCHEDULABLE_SECONDS)
        return min(times, default=None)

    def _update(self, entry: QueuedPod, pod: PodInfo, now: float) -> None:
        before, entry.pod = entry.pod, pod
        if entry.uid in self._parked and not _is_alike(before, pod):
            self._leave_group(entry)
            self._join_group(entry)
        if entry.place is Place.GATED:
            entry.woken_by = "the pod changed"
            self._enqueue(entry, now)
        elif before.pod.spec == pod.pod.spec and before.labels == pod.labels:
            return
        elif entry.place is Place.ACTIVE:
            self._enqueue(entry, entry.queued_at)
        elif entry.place is Place.UNSCHEDULABLE:
            event = ClusterEvent(kind=EventKind.UNSCHEDULED_POD_UPDATED, pod=pod)
            if self._helped_by(entry, [event]) is not None:
                self._wake(entry, now, str(event))

    def _helped_by(self, entry: QueuedPod, events: Iterable[ClusterEvent]) -> ClusterEvent | None:
        """Return the first of *events* that may let the pod fit."""
        hints, pod, refused_by = self._hints, entry.pod, entry.refused_by
        for event in events:
            if not hints.rules_out(pod, refused_by, event) and hints.wakes(pod, refused_by, event):
                return event
        return None

    def _wake(self, entry: QueuedPod, now: float, why: str) -> None:
        self._unpark(entry)
        entry.woken_by = why
        if entry.retry_at > now:
            self._back_off(entry, now)
        else:
            self._enqueue(entry, now)

    def _enqueue(self, entry: QueuedPod, now: float) -> None:
        self._leave_gate(entry)
        entry.gate = self._hints.pre_enqueue(entry.pod)
        entry.queued_at = now
        if entry.gate is not SUCCESS and not entry.gate.ok:
            entry.place = Place.GATED
            entry.gates = frozenset({EVERY_GATE, *self._hints.opened_by(entry.pod, entry.gate)})
            for key in entry.gates:
                self._gated.setdefault(key, {})[entry.uid] = entry
            return
        entry.place = Place.ACTIVE
        self._push(self._active, self._key(entry), entry)

    def _leave_gate(self, entry: QueuedPod) -> None:
        for key in entry.gates:
            del self._gated[key][entry.uid]
            if not self._gated[key]:
                del self._gated[key]
        entry.gates = frozenset()

    def _back_off(self, entry: QueuedPod, now: float) -> None:
        entry.place = Place.BACKOFF
        entry.queued_at = now
        self._push(self._waiting, entry.retry_at, entry)
        if not entry.errors:
            self._push(self._eager, self._hints.sort_key(entry.pod, entry.added_at), entry)

    def _park(self, entry: QueuedPod, now: float) -> None:
        entry.place = Place.UNSCHEDULABLE
        entry.queued_at = now
        self._parked[entry.uid] = entry
        self._join_group(entry)

    def _unpark(self, entry: QueuedPod) -> None:
        if self._parked.pop(entry.uid, None) is not None:
            self._leave_group(entry)

    def _join_group(self, entry: QueuedPod) -> None:
        entry.group = entry.refused_by, self._hints.likeness(entry.pod, entry.refused_by)
        self._groups.setdefault(entry.group, {})[entry.uid] = entry

    def _leave_group(self, entry: QueuedPod) -> None:
        group = self._groups[entry.group]
        del group[entry.uid]
        if not group:
            del self._groups[entry.group]

    def _push(self, heap: list[_Item], key: object, entry: QueuedPod) -> None:
        """Let *entry* wait in *heap* too; items that no longer hold are swept out now and then."""
        number = next(self._order)
        if heap is self._active:
            entry.turn = number
        heapq.heappush(heap, (key, number, entry))
        if len(heap) > 2 * len(self._entries) + _SWEPT_FROM:
            # Of several for one pod the first counts: that is where it would be popped.
            holding = (one for one in sorted(heap, reverse=True) if self._holds(heap, one))
            heap[:] = sorted({one[2].uid: one for one in holding}.values())

    def _holds(self, heap: list[_Item], item: _Item) -> bool:
        key, number, entry = item
        if heap is self._active:
            return entry.place is Place.ACTIVE and entry.turn == number
        return entry.place is Place.BACKOFF and (heap is self._eager or key == entry.retry_at)

    def _key(self, entry: QueuedPod) -> tuple[Any, ...]:
        return self._hints.sort_key(entry.pod, entry.queued_at)

    def _first(self, heap: list[_Item]) -> QueuedPod | None:
        """Pop the first entry that still waits there; others have moved on since they came."""
        while heap:
            item = heapq.heappop(heap)
            if self._holds(heap, item):
                return item[2]
        return None

    def _impatient(self) -> QueuedPod | None:
        """Return who came first of those that are woken and back off, whatever time is left."""
        while (entry := self._first(self._eager)) is not None:
            if not entry.errors:
                return entry
        return None


def _is_alike(one: PodInfo, other: PodInfo) -> bool:
    """Tell whether two versions of a pod differ in nothing that a filter looks at."""
    before, now = one.pod, other.pod
    return (before.spec, before.metadata.labels, before.metadata.annotations) == (
        now.spec,
        now.metadata.labels,
        now.metadata.annotations,
    )


# ------------------------------------------------------------------------------------------------
# What profiles say about waiting pods, for the queue.


class ProfileHints:
    """Asks the profile that a pod belongs to.

    The queue is one for all profiles, so they must all sort it alike; the first one's plugin does.
    """

    def __init__(
        self, runtimes: Mapping[str, Runtime], cluster: Cluster, nominations: Nominations
    ) -> None:
        self._runtimes = runtimes
        self._cluster = cluster
        self._nominations = nominations
        self._plugins: dict[str, dict[str, Plugin]] = {
            name: runtime.profile.plugins() for name, runtime in runtimes.items()
        }
        self._sort = next(iter(runtimes.values())).profile.at(QueueSort)[0]

    def pre_enqueue(self, pod: PodInfo) -> Status:
        """Return a refusal if *pod* must not be tried yet."""
        runtime = self._runtimes.get(pod.scheduler_name)
        return SUCCESS if runtime is None else runtime.pre_enqueue(pod)

    def opened_by(self, pod: PodInfo, gate: Status) -> Iterable[Hashable]:
        """Return what may open a *gate* that keeps *pod* back."""
        runtime = self._runtimes.get(pod.scheduler_name)
        return () if runtime is None else runtime.opened_by(pod, gate)

    def sort_key(self, pod: PodInfo, queued_at: float) -> tuple[Any, ...]:
        """Return what active pods are ordered by."""
        return self._sort.sort_key(pod, queued_at)

    def cares(self, refused_by: frozenset[str], kind: EventKind) -> bool:
        """Tell whether *kind* can matter to any pod refused by those plugins.

        What no plugin refused had no node to be tried on: anything may help it.
        """
        return not refused_by or any(
            plugins[name].wakes_on & kind
            for plugins in self._plugins.values()
            for name in refused_by & plugins.keys()
        )

    def likeness(self, pod: PodInfo, refused_by: frozenset[str]) -> Hashable:
        """Return what *pod* has in common with others that the same events wake.

        Pods of Jobs differ in labels, those of Spark in environments: thousands of pods that no
        node has room for wait for the same thing, and only what the hints look at tells them apart.
        """
        plugins, spec = self._plugins.get(pod.scheduler_name, {}), pod.pod.spec
        looked_at = [_likeness(plugins.get(name), pod) for name in sorted(refused_by)]
        return pod.scheduler_name, pod.priority, spec.preemption_policy, *looked_at

    def rules_out(self, pod: PodInfo, refused_by: frozenset[str], event: ClusterEvent) -> bool:
        """Tell whether nothing but one node has changed, and that node still refuses *pod*.

        While room is kept for others, or the pod may evict others, more than that node matters.
        """
        plugins, node = self._plugins.get(pod.scheduler_name, {}), event.node_info
        if node is None or not refused_by <= plugins.keys() or self._may_gain_elsewhere(pod):
            return False
        refusing = [plugin for name, plugin in plugins.items() if name in refused_by]
        return not any(plugin.looks_beyond(pod, event) for plugin in refusing) and any(
            _refuses(plugin, pod, node) for plugin in refusing
        )

    def _may_gain_elsewhere(self, pod: PodInfo) -> bool:
        lowest = self._cluster.indexes.lowest_priority
        evicts = pod.pod.spec.preemption_policy != "Never"
        return bool(self._nominations) or (evicts and lowest is not None and lowest < pod.priority)

    def wakes(self, pod: PodInfo, refused_by: frozenset[str], event: ClusterEvent) -> bool:
        """Tell whether *event* may let *pod*, refused by those plugins, fit."""
        plugins = self._plugins.get(pod.scheduler_name, {})
        for name in refused_by:
            plugin = plugins.get(name)
            if plugin is None or (plugin.wakes_on & event.kind and _wakes(plugin, pod, event)):
                return True
        return not refused_by


def _likeness(plugin: Plugin | None, pod: PodInfo) -> Hashable:
    """Ask *plugin*; if it cannot tell, the pod is like no other."""
    try:
        return None if plugin is None else plugin.likeness(pod)
    except Exception:
        return pod.uid


def _refuses(plugin: Plugin, pod: PodInfo, node: NodeInfo) -> bool:
    """Ask *plugin* about one node; if it cannot tell, the pod is better tried in vain."""
    try:
        return isinstance(plugin, Filter) and not plugin.filter(CycleState(), pod, node).ok
    except Exception:
        return False


def _wakes(plugin: Plugin, pod: PodInfo, event: ClusterEvent) -> bool:
    """Ask *plugin*; if it cannot tell, the pod is better tried in vain than left to wait."""
    try:
        return plugin.wakes(pod, event)
    except Exception:
        return True
