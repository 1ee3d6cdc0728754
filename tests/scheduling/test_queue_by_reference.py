"""The queue, with its heaps and groups, does what a plain list of waiting pods would do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.scheduling.conftest import pod_of

from numakube.api.pod import PodSchedulingGate
from numakube.scheduling.framework.cluster_events import ClusterEvent, EventKind
from numakube.scheduling.framework.status import SUCCESS, Status, unresolvable
from numakube.scheduling.scheduling_queue import (
    EVERY_GATE,
    MAX_UNSCHEDULABLE_SECONDS,
    Place,
    PodBackoff,
    QueuedPod,
    SchedulingQueue,
)
from numakube.scheduling.snapshot.pods import PodInfo

NAMES = ("a-1", "a-2", "b-1", "b-2", "huge-1", "huge-2")
WAKES = {"fit": EventKind.POD_DELETED | EventKind.NODE_UPDATED, "numa": EventKind.TOPOLOGY_CHANGED}
KINDS = (EventKind.POD_DELETED, EventKind.NODE_UPDATED, EventKind.TOPOLOGY_CHANGED, EventKind.OTHER)


@dataclass
class Rules:
    """What profiles would say; a pod is kept back while one of its gates is closed."""

    closed: set[str] = field(default_factory=set)

    def pre_enqueue(self, pod: PodInfo) -> Status:
        """Look at the gates."""
        gates = {gate.name for gate in pod.pod.spec.scheduling_gates}
        return unresolvable("gated") if gates & self.closed else SUCCESS

    def opened_by(self, pod: PodInfo, gate: Status) -> list[str]:
        """Name the gates."""
        return [gate.name for gate in pod.pod.spec.scheduling_gates]

    def sort_key(self, pod: PodInfo, queued_at: float) -> tuple[Any, ...]:
        """Order by priority, then by time."""
        return (-pod.priority, queued_at)

    def cares(self, refused_by: frozenset[str], kind: EventKind) -> bool:
        """Look at the table."""
        return any(WAKES[name] & kind for name in refused_by)

    def wakes(self, pod: PodInfo, refused_by: frozenset[str], event: ClusterEvent) -> bool:
        """One node never helps."""
        return event.node != "irrelevant"

    def likeness(self, pod: PodInfo, refused_by: frozenset[str]) -> str:
        """Pods of one name up to a dash are alike."""
        return pod.name.partition("-")[0]

    def rules_out(self, pod: PodInfo, refused_by: frozenset[str], event: ClusterEvent) -> bool:
        """Huge pods fit on one node alone."""
        return pod.name.startswith("huge") and event.node not in ("huge", "")


class Plain:
    """All pods in one list, which is gone through every time."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.pods: list[QueuedPod] = []

    def at(self, *places: Place) -> list[QueuedPod]:
        """Return the pods that wait there."""
        return [one for one in self.pods if one.place in places]

    def get(self, uid: str) -> QueuedPod | None:
        """Return one."""
        return next((one for one in self.pods if one.uid == uid), None)

    def add(self, pod: PodInfo, now: float) -> None:
        """Take in a pod or its new version."""
        one = self.get(pod.uid)
        if one is None:
            self.pods.append(QueuedPod(pod, added_at=now, queued_at=now))
            self.enqueue(self.pods[-1], now)
            return
        changed = (one.pod.pod.spec, one.pod.labels) != (pod.pod.spec, pod.labels)
        one.pod = pod
        event = ClusterEvent(kind=EventKind.UNSCHEDULED_POD_UPDATED, pod=pod)
        if one.place is Place.GATED:
            one.woken_by = "the pod changed"
            self.enqueue(one, now)
        elif changed and one.place is Place.ACTIVE:
            self.enqueue(one, one.queued_at)
        elif changed and one.place is Place.UNSCHEDULABLE and self.helps(one, event):
            self.wake(one, now, str(event))

    def remove(self, uid: str) -> None:
        """Forget one."""
        self.pods = [one for one in self.pods if one.uid != uid]

    def enqueue(self, one: QueuedPod, now: float) -> None:
        """Let it be tried, if its gates are open."""
        gated = self.rules.pre_enqueue(one.pod) is not SUCCESS
        one.place, one.queued_at = (Place.GATED if gated else Place.ACTIVE), now

    def helps(self, one: QueuedPod, event: ClusterEvent) -> bool:
        """Tell whether an event may help it."""
        asked = one.pod, one.refused_by, event
        return self.rules.wakes(*asked) and not self.rules.rules_out(*asked)

    def wake(self, one: QueuedPod, now: float, why: str) -> None:
        """Try it again when its backoff is over."""
        one.woken_by = why
        self.enqueue(one, now)
        if one.retry_at > now:
            one.place = Place.BACKOFF

    def handle(self, events: list[ClusterEvent], now: float) -> int:
        """Wake all that the events may help."""
        woken = 0
        for one in self.at(Place.UNSCHEDULABLE):
            for event in events:
                if self.rules.cares(one.refused_by, event.kind) and self.helps(one, event):
                    self.wake(one, now, str(event))
                    woken += 1
                    break
        return woken

    def advance(self, now: float) -> None:
        """Move those whose time has come."""
        for one in self.at(Place.BACKOFF):
            if one.retry_at <= now:
                self.enqueue(one, now)
        for one in self.at(Place.UNSCHEDULABLE):
            if one.queued_at + MAX_UNSCHEDULABLE_SECONDS <= now:
                self.wake(one, now, "300 s without an event")

    def next(self, now: float) -> list[QueuedPod]:
        """Return who may be tried: several if they came at the same time."""
        self.advance(now)
        keys = {one.uid: self.rules.sort_key(one.pod, one.queued_at) for one in self.pods}
        here = self.at(Place.ACTIVE)
        if not here:
            here = [one for one in self.at(Place.BACKOFF) if not one.errors]
            keys = {one.uid: self.rules.sort_key(one.pod, one.added_at) for one in here}
        return [one for one in here if keys[one.uid] == min(keys[other.uid] for other in here)]

    def next_wakeup(self) -> float | None:
        """Return the earliest end of a wait."""
        ends = [one.retry_at for one in self.at(Place.BACKOFF)]
        waits = [one.queued_at for one in self.at(Place.UNSCHEDULABLE)]
        return min([*ends, *(since + MAX_UNSCHEDULABLE_SECONDS for since in waits)], default=None)


def facts(one: QueuedPod) -> tuple[Any, ...]:
    """Return all that tools show of a waiting pod."""
    told = (one.refusals, one.errors, one.refused_by, one.retry_at, one.woken_by, one.message)
    return one.uid, one.pod, one.place, one.added_at, one.queued_at, one.attempts, *told


class Both:
    """The queue and the plain list, to which the same happens."""

    def __init__(self) -> None:
        self.rules, self.now = Rules(), 0.0
        self.queue = SchedulingQueue(self.rules)
        self.plain = Plain(self.rules)
        self.flying: list[tuple[QueuedPod, QueuedPod]] = []
        self.versions = 0

    def add(self, name: str, number: int) -> None:
        """Add or change a pod: its labels, its gates, or nothing."""
        gates = tuple(PodSchedulingGate(name=gate) for gate in ("x", "y")[: number % 3])
        pod = pod_of(name, priority=NAMES.index(name) % 3, scheduling_gates=gates)
        pod.pod.metadata.labels["version"] = str(number % 2)
        self.queue.add(pod, self.now)
        self.plain.add(pod, self.now)

    def remove(self, name: str, number: int) -> None:
        """Delete a pod."""
        self.queue.remove(name)
        self.plain.remove(name)

    def pop(self, name: str, number: int) -> None:
        """Try the next."""
        allowed = self.plain.next(self.now)
        entry = self.queue.pop(self.now)
        assert (entry is None) == (not allowed)
        if entry is not None:
            (mine,) = [one for one in allowed if one.uid == entry.uid]
            self.fly(entry, mine)

    def fly(self, entry: QueuedPod, mine: QueuedPod) -> None:
        """A pod is being tried."""
        mine.place, mine.attempts = Place.IN_FLIGHT, mine.attempts + 1
        self.flying.append((entry, mine))

    def take(self, name: str, number: int) -> None:
        """Try some with another."""
        named = {name, NAMES[number % len(NAMES)]}
        taken = self.queue.take([*named, "nobody"])
        places = (Place.ACTIVE, Place.BACKOFF, Place.UNSCHEDULABLE)
        mine = {one.uid: one for one in self.plain.at(*places) if one.uid in named}
        assert sorted(one.uid for one in taken) == sorted(mine)
        assert [one.added_at for one in taken] == sorted(one.added_at for one in taken)
        for entry in taken:
            self.fly(entry, mine[entry.uid])

    def refuse(self, name: str, number: int) -> None:
        """A pod fits nowhere."""
        if self.flying:
            by = frozenset(list(WAKES)[: 1 + number % 2])
            entry, mine = self.flying.pop(0)
            self.queue.refused(entry, by, self.now, message=f"no {number}")
            if self.plain.get(mine.uid) is mine:
                mine.refusals, mine.errors = mine.refusals + 1, 0
                mine.refused_by, mine.message = by, f"no {number}"
                mine.retry_at = self.now + min(2.0 ** (mine.refusals - 1), 10)
                mine.place, mine.queued_at = Place.UNSCHEDULABLE, self.now

    def fail(self, name: str, number: int) -> None:
        """An attempt fails."""
        if self.flying:
            entry, mine = self.flying.pop()
            costly = bool(number % 2)
            self.queue.failed(entry, self.now, message=f"failed {number}", costly=costly)
            if self.plain.get(mine.uid) is mine:
                mine.errors, mine.message = mine.errors + 1, f"failed {number}"
                first, limit = (10, 300) if costly else (1, 10)
                mine.retry_at = self.now + min(first * 2.0 ** (mine.errors - 1), limit)
                mine.woken_by = "backoff after a failure"
                mine.place, mine.queued_at = Place.BACKOFF, self.now

    def handle(self, name: str, number: int) -> None:
        """Something happens, and something else."""
        nodes = ("", "huge", "irrelevant", "n1")
        events = [
            ClusterEvent(kind=KINDS[one % 4], node=nodes[one // 4 % 4])
            for one in (number, number // 16)
        ]
        woken = self.queue.handle(events, self.now)
        assert woken == self.plain.handle(events, self.now)

    def activate(self, name: str, number: int) -> None:
        """Somebody asks for a pod."""
        self.queue.activate([name, "nobody"], self.now)
        for one in self.plain.at(Place.BACKOFF, Place.UNSCHEDULABLE):
            if one.uid == name:
                one.woken_by = "asked for"
                self.plain.enqueue(one, self.now)

    def gate(self, name: str, number: int) -> None:
        """A gate is closed or opened, and pods are asked about."""
        gate = ("x", "y")[number % 2]
        self.rules.closed ^= {gate}
        opener = (gate, EVERY_GATE, "nothing")[number % 3]
        self.queue.recheck_gates(self.now, opener)
        for one in self.plain.at(Place.GATED):
            gates = {gate.name for gate in one.pod.pod.spec.scheduling_gates}
            if opener in gates | {EVERY_GATE}:
                one.woken_by = "what held it back is over"
                self.plain.enqueue(one, self.now)

    def wait(self, name: str, number: int) -> None:
        """Time goes by."""
        self.now += (0.5, 1.0, 2.0, 9.0, 10.0, 299.5, 300.0)[number % 7]
        self.queue.advance(self.now)
        self.plain.advance(self.now)

    def agree(self) -> None:
        """Assert that both say the same of every pod."""
        pods = self.plain.pods
        assert sorted(map(facts, self.queue)) == sorted(map(facts, pods))
        assert len(self.queue) == len(pods)
        assert {uid for uid in NAMES if uid in self.queue} == {one.uid for one in pods}
        assert self.queue.counts() == {place: len(self.plain.at(place)) for place in Place}
        mine, theirs = self.plain.next_wakeup(), self.queue.next_wakeup()
        assert mine is None or (theirs is not None and theirs <= mine)


ACTS = (
    *(Both.add, Both.remove, Both.take, Both.refuse, Both.fail),
    *(Both.handle, Both.activate, Both.gate, Both.wait, Both.pop, Both.pop, Both.refuse),
)
steps = st.lists(
    st.tuples(st.sampled_from(ACTS), st.sampled_from(NAMES), st.integers(0, 255)), max_size=60
)


@settings(max_examples=150)
@given(steps)
def test_whatever_happens_every_pod_is_where_a_plain_list_has_it(steps: list[Any]) -> None:
    """At every step, with its history; and the one that is tried is one whose turn it is."""
    both = Both()
    for name in NAMES[:4]:
        both.add(name, 0)
    for act, name, number in steps:
        act(both, name, number)
        both.agree()


def test_a_pod_that_is_refused_ten_times_waits_ten_seconds_at_most() -> None:
    """As in kube-scheduler; the first wait is a second."""
    assert [PodBackoff().after(attempts) for attempts in range(7)] == [0, 1, 2, 4, 8, 10, 10]
