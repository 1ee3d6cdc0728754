"""Whose turn it is, and what wakes those who wait."""

from __future__ import annotations

import gc
from typing import Any

import msgspec
import pytest
from tests.scheduling.conftest import MakePod

from numakube.api.pod import PodResourceClaim, PodSchedulingGate
from numakube.dra.pod_claims import claim_keys
from numakube.scheduling.framework.cluster_events import ClusterEvent, EventKind
from numakube.scheduling.framework.status import SUCCESS, Status, unresolvable
from numakube.scheduling.queue.queued_pod import Place
from numakube.scheduling.queue.scheduling_queue import (
    MAX_UNSCHEDULABLE_SECONDS,
    Backoff,
    SchedulingQueue,
)
from numakube.scheduling.snapshot.pods import PodInfo


class Rules:
    """Priority first, gates hold, and ``fit`` is helped by pods that go away."""

    def pre_enqueue(self, pod: PodInfo) -> Status:
        """Hold gated pods."""
        return unresolvable("gated") if pod.pod.spec.scheduling_gates else SUCCESS

    def opened_by(self, pod: PodInfo, gate: Status) -> frozenset[str]:
        """Claims open gates."""
        return claim_keys(pod.pod)

    def sort_key(self, pod: PodInfo, queued_at: float) -> tuple[Any, ...]:
        """Order."""
        return (-pod.priority, queued_at)

    def cares(self, refused_by: frozenset[str], kind: EventKind) -> bool:
        """Only pods that go matter."""
        return "fit" in refused_by and bool(kind & EventKind.POD_DELETED)

    def wakes(self, pod: PodInfo, refused_by: frozenset[str], event: ClusterEvent) -> bool:
        """One node never helps."""
        return event.node != "irrelevant"

    def likeness(self, pod: PodInfo, refused_by: frozenset[str]) -> str:
        """Pods of one name up to a dash are alike."""
        return pod.name.partition("-")[0]

    def rules_out(self, pod: PodInfo, refused_by: frozenset[str], event: ClusterEvent) -> bool:
        """Huge pods fit on one node alone."""
        return pod.name.startswith("huge") and event.node != "huge"


GONE = ClusterEvent(kind=EventKind.POD_DELETED, node="n1")
FIT = frozenset({"fit"})


@pytest.fixture
def queue() -> SchedulingQueue:
    """An empty queue."""
    return SchedulingQueue(Rules())


def names(queue: SchedulingQueue, now: float) -> list[str]:
    """Pop everybody."""
    popped = []
    while (entry := queue.pop(now)) is not None:
        popped.append(entry.pod.name)
    return popped


def refuse(queue: SchedulingQueue, now: float, by: frozenset[str] = FIT) -> str:
    """Pop the next and refuse it."""
    entry = queue.pop(now)
    assert entry is not None
    queue.refused(entry, by, now)
    return entry.uid


def test_higher_priority_goes_first_and_then_the_earlier(
    queue: SchedulingQueue, make_pod: MakePod
) -> None:
    """Order of kube-scheduler's PrioritySort."""
    queue.add(make_pod("early"), 1)
    queue.add(make_pod("late"), 2)
    queue.add(make_pod("urgent", priority=10), 3)
    assert names(queue, 4) == ["urgent", "early", "late"]


def test_a_refused_pod_waits_for_an_event_that_may_help(
    queue: SchedulingQueue, make_pod: MakePod
) -> None:
    """Other events do not cost a cycle."""
    queue.add(make_pod("a"), 0)
    refuse(queue, 0)
    assert queue.pop(200) is None
    assert queue.handle([ClusterEvent(kind=EventKind.NODE_UPDATED)], 200) == 0
    assert queue.handle([ClusterEvent(kind=EventKind.POD_DELETED, node="irrelevant")], 200) == 0
    assert queue.handle([GONE], 200) == 1
    assert names(queue, 200) == ["a"]


def test_a_refused_pod_that_gets_other_labels_is_tried_again(
    queue: SchedulingQueue, make_pod: MakePod
) -> None:
    """Running pods may keep away from it no more; a change of its status alone is nothing."""
    waiting = make_pod("a")
    queue.add(waiting, 0)
    refuse(queue, 0)
    queue.add(PodInfo(waiting.pod), 100)
    assert queue.pop(100) is None
    meta = msgspec.structs.replace(waiting.pod.metadata, labels={"app": "other"})
    queue.add(PodInfo(msgspec.structs.replace(waiting.pod, metadata=meta)), 101)
    assert names(queue, 101) == ["a"]


def test_a_woken_pod_sits_out_its_backoff_while_others_wait(
    queue: SchedulingQueue, make_pod: MakePod
) -> None:
    """A pod that is woken all the time must not starve the rest."""
    queue.add(make_pod("a"), 0)
    refuse(queue, 0)
    queue.add(make_pod("b"), 0.1)
    queue.handle([GONE], 0.2)
    entry = queue.pop(0.3)
    assert entry is not None
    assert entry.pod.name == "b"
    assert queue.counts()[Place.BACKOFF] == 1


def test_without_others_a_woken_pod_is_tried_before_its_backoff_ends(
    queue: SchedulingQueue, make_pod: MakePod
) -> None:
    """An idle scheduler may as well try."""
    queue.add(make_pod("a"), 0)
    refuse(queue, 0)
    queue.handle([GONE], 0.2)
    assert names(queue, 0.3) == ["a"]


def test_errors_are_backed_off_even_when_nobody_else_waits(
    queue: SchedulingQueue, make_pod: MakePod
) -> None:
    """A server in trouble is not hammered."""
    queue.add(make_pod("a"), 0)
    entry = queue.pop(0)
    assert entry is not None
    queue.failed(entry, 0)
    assert queue.pop(0.9) is None
    assert queue.next_wakeup() == 1.0
    assert names(queue, 1.0) == ["a"]


@pytest.mark.parametrize(
    ("attempts", "seconds"), [(0, 0), (1, 1), (2, 2), (4, 8), (5, 10), (99, 10)]
)
def test_backoff_doubles_up_to_its_limit(attempts: int, seconds: float) -> None:
    """As kube-scheduler's defaults."""
    assert Backoff().after(attempts) == seconds


def test_a_pod_that_took_too_long_waits_longer_each_time(
    queue: SchedulingQueue, make_pod: MakePod
) -> None:
    """From where other waits end to the last resort, whoever else waits or not."""
    queue.add(make_pod("costly"), 0.0)
    now, waits = 0.0, []
    for _ in range(7):
        entry = queue.pop(now)
        assert entry is not None
        queue.failed(entry, now, message="too long", costly=True)
        waits.append(entry.retry_at - now)
        assert queue.pop(entry.retry_at - 0.1) is None
        now = entry.retry_at
    assert waits == [10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 300.0]
    assert Backoff(1.0, 600.0).after_costly(1) == 600.0


def test_the_last_resort_is_to_try_after_five_minutes(
    queue: SchedulingQueue, make_pod: MakePod
) -> None:
    """In case an event was missed."""
    queue.add(make_pod("a"), 0)
    refuse(queue, 7)
    assert queue.next_wakeup() == 7 + MAX_UNSCHEDULABLE_SECONDS
    assert queue.pop(6 + MAX_UNSCHEDULABLE_SECONDS) is None
    assert names(queue, 7 + MAX_UNSCHEDULABLE_SECONDS) == ["a"]


def test_a_gated_pod_is_tried_once_its_gate_is_removed(
    queue: SchedulingQueue, make_pod: MakePod
) -> None:
    """Gates keep a pod out of the queue altogether."""
    queue.add(make_pod("a", scheduling_gates=(PodSchedulingGate(name="quota"),)), 0)
    assert queue.pop(1) is None
    assert queue.counts()[Place.GATED] == 1
    queue.add(make_pod("a"), 2)
    assert names(queue, 2) == ["a"]


def test_a_claim_that_changes_matters_to_pods_that_name_it(make_pod: MakePod) -> None:
    """Others that are held back are not asked about; those that are gone are forgotten."""
    asked: list[str] = []

    class Claimed(Rules):
        def pre_enqueue(self, pod: PodInfo) -> Status:
            asked.append(pod.name)
            return unresolvable("no claim") if asked.count(pod.name) == 1 else SUCCESS

    queue = SchedulingQueue(Claimed())
    for name in ("a", "b", "c"):
        entry = PodResourceClaim(name="gpu", resource_claim_name=f"gpu-{name}")
        queue.add(make_pod(name, resource_claims=(entry,)), 0)
    queue.remove("c")
    namespace = make_pod("a").namespace
    for claim in ("gpu-b", "gpu-c", "another"):
        queue.recheck_gates(1, f"{namespace}/{claim}")
    assert asked == ["a", "b", "c", "b"]
    assert names(queue, 1) == ["b"]
    queue.recheck_gates(2)
    assert names(queue, 2) == ["a"]


def test_a_pod_deleted_while_it_was_tried_does_not_come_back(
    queue: SchedulingQueue, make_pod: MakePod
) -> None:
    """Nor if its binding fails later."""
    queue.add(make_pod("a"), 0)
    entry = queue.pop(0)
    assert entry is not None
    queue.remove("a")
    queue.failed(entry, 1)
    queue.refused(entry, FIT, 1)
    assert len(queue) == 0
    assert names(queue, 100) == []


def test_activation_skips_the_backoff(queue: SchedulingQueue, make_pod: MakePod) -> None:
    """For pods whose victims are gone, and for operators."""
    queue.add(make_pod("a"), 0)
    refuse(queue, 0)
    queue.activate(["a", "unknown"], 0.1)
    assert queue.counts()[Place.ACTIVE] == 1


def test_no_pod_starves_behind_one_that_is_refused_again_and_again(
    queue: SchedulingQueue, make_pod: MakePod
) -> None:
    """A hundred pods that never fit do not keep the last one waiting."""
    for number in range(100):
        queue.add(make_pod(f"never-{number}", priority=100), 0)
    queue.add(make_pod("modest"), 0)
    tried = []
    for step in range(300):
        queue.handle([GONE], step / 100)
        tried.append(refuse(queue, step / 100))
    assert "modest" in tried


def test_of_those_who_back_off_the_first_to_come_is_tried_first(
    queue: SchedulingQueue, make_pod: MakePod
) -> None:
    """However often each was refused, and whenever its backoff would end."""
    queue.add(make_pod("old"), 0)
    refuse(queue, 0)
    queue.activate(["old"], 0)
    refuse(queue, 0)
    queue.add(make_pod("young"), 1)
    refuse(queue, 1)
    queue.handle([GONE], 1.5)
    assert queue.counts()[Place.BACKOFF] == 2
    assert names(queue, 1.6) == ["old", "young"]


def test_an_event_that_cannot_help_a_pod_costs_no_cycle_of_those_like_it(
    queue: SchedulingQueue, make_pod: MakePod
) -> None:
    """One of them is asked about for all."""
    for name in ("huge-1", "huge-2", "small-1"):
        queue.add(make_pod(name), 0)
        refuse(queue, 0)
    assert queue.handle([GONE], 20) == 1
    assert names(queue, 20) == ["small-1"]
    assert queue.handle([ClusterEvent(kind=EventKind.POD_DELETED, node="huge")], 20) == 2
    assert names(queue, 20) == ["huge-1", "huge-2"]


def test_a_pod_that_becomes_like_others_shares_their_fate(
    queue: SchedulingQueue, make_pod: MakePod
) -> None:
    """What it was refused for may be another matter now."""
    queue.add(make_pod("huge"), 0)
    uid = refuse(queue, 0)
    queue.add(renamed(make_pod("small"), uid), 1)
    assert queue.handle([GONE], 20) == 1


def renamed(pod: PodInfo, uid: str) -> PodInfo:
    """Return *pod* as a new version of the one with that *uid*."""
    metadata = msgspec.structs.replace(pod.pod.metadata, uid=uid, annotations={"new": "1"})
    return PodInfo(msgspec.structs.replace(pod.pod, metadata=metadata))


def test_a_pod_that_is_tried_time_and_again_leaves_nothing_behind(
    queue: SchedulingQueue, make_pod: MakePod
) -> None:
    """However it comes back to the active queue."""
    queue.add(make_pod("a"), 0)
    for number in range(4000):
        refuse(queue, number * 20.0)
        queue.handle([GONE], number * 20.0)
        queue.advance(number * 20.0 + 15)
    assert len(gc.get_referrers(queue.get("a"))) < 3500


def test_a_pod_that_came_again_meanwhile_is_not_put_back_for_the_one_before(
    queue: SchedulingQueue, make_pod: MakePod
) -> None:
    """It was deleted and created under the same uid while it was tried; it is tried on its own."""
    for put_back in (queue.failed, lambda entry, now: queue.refused(entry, FIT, now)):
        queue.add(make_pod("a"), 0)
        before = queue.pop(0)
        assert before is not None
        queue.remove("a")
        queue.add(make_pod("a"), 0)
        put_back(before, 0)
        counts = queue.counts()
        assert (counts[Place.ACTIVE], counts[Place.UNSCHEDULABLE], counts[Place.BACKOFF]) == (
            1,
            0,
            0,
        )
        assert queue.get("a") is not before
        queue.remove("a")


def test_pods_that_are_taken_to_be_tried_with_another_are_counted_as_tried(
    queue: SchedulingQueue, make_pod: MakePod
) -> None:
    """Wherever they wait, unless a gate holds them; the first to come is first."""
    gate = (PodSchedulingGate(name="later"),)
    for number, name in enumerate(("refused", "failed", "active", "tried")):
        queue.add(make_pod(name), number)
    queue.add(make_pod("gated", scheduling_gates=gate), 4)
    refuse(queue, 4)
    entry = queue.pop(4)
    assert entry is not None
    queue.failed(entry, 4)
    queue.activate(["none"], 4)
    last = queue.take(["tried"])
    assert [one.uid for one in last] == ["tried"]

    taken = queue.take(["gated", "active", "none", "failed", "tried", "refused"])

    told = [(one.uid, one.attempts, one.place) for one in taken]
    in_flight = Place.IN_FLIGHT
    assert told == [
        ("refused", 2, in_flight),
        ("failed", 2, in_flight),
        ("active", 1, in_flight),
    ]
    assert queue.pop(400) is None


def test_what_is_left_over_is_swept_out_and_nobody_who_waits(
    queue: SchedulingQueue, make_pod: MakePod
) -> None:
    """A pod that fails time and again leaves places behind; another one has its own."""
    queue.add(make_pod("waits"), 0)
    entry = queue.pop(0)
    assert entry is not None
    queue.failed(entry, 0)
    queue.add(make_pod("busy"), 0)
    for _ in range(3000):
        busy = queue.pop(0)
        assert busy is not None
        queue.failed(busy, 0)
        queue.activate(["busy"], 0)
    assert queue.next_wakeup() == 1.0
    busy = queue.pop(0)
    assert busy is not None
    queue.failed(busy, 0)
    assert names(queue, 0.9) == []
    assert names(queue, 1.0) == ["waits"]
    assert names(queue, 9.9) == []
    assert names(queue, 10.0) == ["busy"]
