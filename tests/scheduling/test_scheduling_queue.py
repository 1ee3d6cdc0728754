"""Whose turn it is, and what wakes those who wait."""

from __future__ import annotations

import gc
from random import Random
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.scheduling.conftest import MakeNode, MakePod
from tests.strategies.clusters import Scene, node, scene, scenes

from numakube.api.affinity_and_taints import Taint
from numakube.api.nodes import NodeSpec
from numakube.api.pod import Pod, PodResourceClaim, PodSchedulingGate
from numakube.api.pod_groups import MemberGroup
from numakube.dra.pod_claims import claim_keys
from numakube.scheduling.cycle import Cycle, Refused
from numakube.scheduling.framework.cluster_events import ClusterEvent, EventKind
from numakube.scheduling.framework.cycle_state import CycleState
from numakube.scheduling.framework.plugins import Filter, Nominations, Plugin
from numakube.scheduling.framework.registry import profile_of
from numakube.scheduling.framework.runtime import Runtime
from numakube.scheduling.framework.status import SUCCESS, Status, unresolvable
from numakube.scheduling.plugins.default_plugins import default_plugins, default_weights
from numakube.scheduling.scheduling_queue import (
    MAX_UNSCHEDULABLE_SECONDS,
    Place,
    PodBackoff,
    ProfileHints,
    SchedulingQueue,
)
from numakube.scheduling.snapshot.cluster import Cluster
from numakube.scheduling.snapshot.nodes import NodeInfo
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing import World, bound, pod_document
from numakube.testing.scheduler import Scheduler


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
    assert PodBackoff().after(attempts) == seconds


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
    assert PodBackoff(1.0, 600.0).after_costly(1) == 600.0


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


def test_a_pod_that_was_tried_with_another_queues_anew(
    queue: SchedulingQueue, make_pod: MakePod
) -> None:
    """Its former place among the active ones does not count."""
    for name in ("a", "b", "c"):
        queue.add(make_pod(name), 0)
    for entry in queue.take(["a", "b"]):
        queue.refused(entry, FIT, 0)
    queue.handle([GONE], 60)
    assert names(queue, 60) == ["c", "a", "b"]


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
    assert [pod.uid for pod in last] == ["tried"]

    taken = queue.take(["gated", "active", "none", "failed", "tried", "refused"])

    told = [(pod.uid, pod.attempts, pod.place) for pod in taken]
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


def test_who_waits_to_be_tried_outlasts_those_who_come_and_go(
    queue: SchedulingQueue, make_pod: MakePod
) -> None:
    """Their places are swept out, its own is not."""
    queue.add(make_pod("waits"), 0)
    for _ in range(3000):
        queue.add(make_pod("passes"), 0)
        queue.remove("passes")
    assert names(queue, 0) == ["waits"]
    assert names(queue, 0) == []


# ------------------------------------------------------------------------------------------------
# What the profiles say of waiting pods: which events cannot help them.

NAME = "default-scheduler"
FIT_PLUGIN = frozenset({"NodeResourcesFit"})


def runtime() -> Runtime:
    """The default profile."""
    return Runtime(profile_of(NAME, default_plugins(), default_weights()))


def hints_of(cluster: Cluster, nominations: Nominations | None = None) -> ProfileHints:
    """Return hints for pods of the default profile."""
    return ProfileHints({NAME: runtime()}, cluster, nominations or Nominations())


def outcome(one: Scene) -> Refused | None:
    """Try the pod of a scene, without memory of earlier attempts."""
    cycle = Cycle(one.cluster, Nominations(), np.random.default_rng(1))
    decision = cycle.decide(one.pod, runtime())
    return decision if isinstance(decision, Refused) else None


def change(one: Scene, rng: Random) -> ClusterEvent | None:
    """Take a pod away, or alter a node; return the event."""
    cluster = one.cluster
    placed = [(uid, info.name) for info in cluster.nodes() for uid in info.pods]
    if placed and rng.random() < 0.6:
        uid, name = rng.choice(placed)
        gone = cluster.remove_pod(uid)
        info = cluster.node(name)
        return ClusterEvent(kind=EventKind.POD_DELETED, node=name, node_info=info, pod=gone)
    before = cluster.nodes_generation
    info = cluster.set_node(node(rng, rng.randrange(len(cluster.row_of))))
    if cluster.nodes_generation == before:
        return None
    return ClusterEvent(kind=EventKind.NODE_UPDATED, node=info.name, node_info=info)


def check(one: Scene) -> bool:
    """Check one scene; tell whether an event was ruled out."""
    refused = outcome(one)
    event = None if refused is None else change(one, Random(one.seed))
    if refused is None or event is None:
        return False
    out = hints_of(one.cluster).rules_out(one.pod, refused.diagnosis.plugins(), event)
    assert not out or outcome(one) is not None
    return out


@given(scenes())
def test_a_pod_for_which_an_event_is_ruled_out_fits_nowhere_still(one: Scene) -> None:
    """To leave it alone changes no decision."""
    check(one)


def test_many_events_are_ruled_out() -> None:
    """The property above does not hold for want of cases."""
    assert sum(check(scene(seed)) for seed in range(300)) > 20


def small(cluster: Cluster, make_node: MakeNode) -> ClusterEvent:
    """A pod went from a node that is too small for large ones."""
    info = cluster.set_node(make_node("n1", 4))
    return ClusterEvent(kind=EventKind.POD_DELETED, node="n1", node_info=info)


def test_a_node_that_is_too_small_helps_nobody(make_node: MakeNode, make_pod: MakePod) -> None:
    """Nor does one that other plugins keep the pod off, no matter which refused it elsewhere."""
    cluster = Cluster()
    event, hints = small(cluster, make_node), hints_of(cluster)
    assert hints.rules_out(make_pod("large", "8"), FIT_PLUGIN, event)
    assert not hints.rules_out(make_pod("fits", "2"), FIT_PLUGIN, event)
    tainted = NodeSpec(taints=(Taint(key="gpu", value="", effect="NoSchedule"),))
    cluster.set_node(replace(make_node("n1", 4), spec=tainted))
    assert hints.rules_out(make_pod("fits", "2"), FIT_PLUGIN | {"TaintToleration"}, event)


def test_a_pod_that_can_evict_others_is_tried(make_node: MakeNode, make_pod: MakePod) -> None:
    """It may gain room on any node."""
    cluster = Cluster()
    event, hints = small(cluster, make_node), hints_of(cluster)
    cluster.place(make_pod("low", priority=-1), "n1")
    assert not hints.rules_out(make_pod("large", "8"), FIT_PLUGIN, event)
    polite = make_pod("polite", "8", preemption_policy="Never")
    assert hints.rules_out(polite, FIT_PLUGIN, event)


def test_while_room_is_kept_for_others_everybody_is_tried(
    make_node: MakeNode, make_pod: MakePod
) -> None:
    """It may be kept no longer."""
    cluster, nominations = Cluster(), Nominations()
    event = small(cluster, make_node)
    nominations.nominate(make_pod("urgent", priority=9), "n1")
    assert not hints_of(cluster, nominations).rules_out(make_pod("large", "8"), FIT_PLUGIN, event)


def test_a_refusal_that_depends_on_other_nodes_is_never_ruled_out(
    make_node: MakeNode, make_pod: MakePod
) -> None:
    """A pod that goes from one node may open a whole zone."""
    cluster = Cluster()
    event = small(cluster, make_node)
    by = FIT_PLUGIN | {"PodTopologySpread"}
    assert not hints_of(cluster).rules_out(make_pod("large", "8"), by, event)


class Waits(Filter):
    """Is helped by pods that go from n1; has no opinion of others."""

    name = "Waits"
    wakes_on = EventKind.POD_DELETED

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Accept all."""
        return SUCCESS

    def wakes(self, pod: PodInfo, event: ClusterEvent) -> bool:
        """Only n1 matters; a node without a name is a bug."""
        if not event.node:
            raise LookupError
        return event.node == "n1"


@pytest.mark.parametrize(
    ("refused_by", "event", "cares", "wakes"),
    [
        ({"Waits"}, GONE, True, True),
        ({"Waits"}, replace(GONE, node="n2"), True, False),
        ({"Waits"}, replace(GONE, node=""), True, True),
        ({"Waits"}, replace(GONE, kind=EventKind.NODE_ADDED), False, False),
        ({"Waits", "Unknown"}, replace(GONE, node="n2"), True, True),
        ({"Unknown"}, GONE, False, True),
        (set(), GONE, True, True),
    ],
)
def test_an_event_matters_to_a_pod_if_it_may_help_one_of_those_that_refused_it(
    refused_by: set[str], event: ClusterEvent, cares: bool, wakes: bool, make_pod: MakePod
) -> None:
    """A plugin that is not there, or cannot tell, may be helped by anything."""
    plugins = [*default_plugins(), Waits()]
    profile = Runtime(profile_of(NAME, plugins, default_weights()))
    hints, by = ProfileHints({NAME: profile}, Cluster(), Nominations()), frozenset(refused_by)
    assert hints.cares(by, event.kind) is cares
    assert hints.wakes(make_pod("p"), by, event) is wakes


def test_pods_that_a_plugin_refused_that_is_gone_are_alike(make_pod: MakePod) -> None:
    hints, by = hints_of(Cluster()), frozenset({"Unknown"})
    assert hints.likeness(make_pod("a"), by) == hints.likeness(make_pod("b"), by)
    assert hints.likeness(make_pod("a"), by) != hints.likeness(make_pod("b", priority=3), by)


# ------------------------------------------------------------------------------------------------
# Pods that wait for the same thing are asked about once: the answer is that of each of them.

ZONE = "topology.kubernetes.io/zone"
KINDS = (
    EventKind.POD_ADDED, EventKind.POD_UPDATED, EventKind.POD_DELETED, EventKind.NODE_ADDED,
    EventKind.NODE_UPDATED, EventKind.NODE_REMOVED, EventKind.TOPOLOGY_CHANGED,
    EventKind.STORAGE_CHANGED, EventKind.CLAIM_CHANGED, EventKind.POD_GROUP_CHANGED,
)  # fmt: skip


def spread(key: str) -> dict[str, Any]:
    """Return a constraint that may look at the pod's own labels."""
    return {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "a"}},
        "matchLabelKeys": [key],
    }


def near(app: str) -> dict[str, Any]:
    """Return a wish to be far from the pods of an application."""
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": ZONE}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def differ(document: dict[str, Any], rng: Random) -> None:
    """Let a pod differ from others in something that may matter, or may not."""
    meta, spec = document["metadata"], document["spec"]
    main = spec["containers"][0]
    labels, annotations = meta.setdefault("labels", {}), meta.setdefault("annotations", {})
    one = rng.choice("ab")
    changes: list[tuple[dict[str, Any], str, Any]] = [
        (labels, rng.choice(("app", "controller-uid", "job-name")), one),
        (labels, "scheduling.x-k8s.io/pod-group", one),
        (annotations, rng.choice(("example.com/note", "numakube.dev/closeness")), one),
        (annotations, "topology.numakube.dev/missing-data", rng.choice(("Refuse", "Allow"))),
        (annotations, "numakube.dev/gang-topology", one),
        (meta, "ownerReferences", [{"apiVersion": "v1", "kind": "Job", "name": one, "uid": one}]),
        (main, "env", [{"name": "RANK", "value": one}]),
        (main, "image", one),
        (main, "ports", [{"containerPort": 80, "hostPort": rng.choice((80, 81))}]),
        (main["resources"]["requests"], "cpu", rng.choice(("1", "6", "40"))),
        (spec, "overhead", {"cpu": rng.choice(("1", "2"))}),
        (spec, "tolerations", [{"key": one, "operator": "Exists"}]),
        (spec, "nodeSelector", {ZONE: one}),
        (spec, "affinity", near(one)),
        (spec, "topologySpreadConstraints", [spread(rng.choice(("app", "job-name")))]),
        (spec, "volumes", [{"name": "v", "persistentVolumeClaim": {"claimName": one}}]),
        (spec, "volumes", [{"name": "v", "ephemeral": {}}]),
        (spec, "volumes", [{"name": one, "emptyDir": {}}]),
        (spec, "resourceClaims", [{"name": "c", "resourceClaimName": one}]),
        (spec, "hostNetwork", True),
        (spec, "hostUsers", False),
        (spec, "tolerations", [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]),
        (spec, "nodeName", rng.choice(("n0", "n1"))),
        (spec, "priority", rng.choice((0, 5))),
        (spec, "preemptionPolicy", "Never"),
    ]
    where, key, value = rng.choice(changes)
    where[key] = value


def some_pod(name: str, rng: Random) -> PodInfo:
    """Return one of many pods, few of which are quite alike."""
    document = pod_document(name, "4", metadata={"name": name, "uid": name})
    for _ in range(rng.choice((0, 1, 1, 2, 3))):
        differ(document, rng)
    return PodInfo(msgspec.convert(document, Pod))


def some_event(scheduler: Scheduler, rng: Random) -> ClusterEvent:
    """Return something that happens on a node, to a pod or to an object."""
    kind, cluster = rng.choice(KINDS), scheduler.engine.cluster
    node = rng.choice(("n0", "n1", "n2"))
    on_node = kind not in EventKind.STORAGE_CHANGED | EventKind.CLAIM_CHANGED
    is_pods = kind in EventKind.POD_ADDED | EventKind.POD_UPDATED | EventKind.POD_DELETED
    group = ("scheduling.x-k8s.io", "default", rng.choice("ab"))
    return ClusterEvent(
        kind=kind,
        node=node if on_node else "",
        node_info=cluster.node(node) if on_node else None,
        pod=some_pod("other", rng) if is_pods else None,
        claim="" if on_node else rng.choice(("default/a", "default/p1-v")),
        pod_group=group if kind is EventKind.POD_GROUP_CHANGED else None,
    )


@pytest.fixture(scope="module")
def scheduler() -> Scheduler:
    """A cluster with two nodes, one of them with a pod, and gangs."""
    world = World()
    world.add_node("n0", labels={ZONE: "a"})
    world.add_node("n1", "restricted", labels={ZONE: "b"}, machine="1 socket, 4 cores, 8Gi")
    world.add_node("n2", labels={ZONE: "a"})
    for name in "ab":
        world.objects.coscheduling_groups[f"default/{name}"] = MemberGroup()
    made = world.scheduler()
    for name, spec in (
        ("n0", NodeSpec(taints=(Taint(key="a", value="", effect="NoSchedule"),))),
        ("n2", NodeSpec(unschedulable=True)),
    ):
        made.set_node(msgspec.structs.replace(world.nodes[name], spec=spec))
    document = pod_document("there", "1", metadata={"name": "there", "uid": "there"})
    document["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80}]
    for name in ("n0", "n1", "n2"):
        held = msgspec.convert(document, Pod)
        meta = msgspec.structs.replace(held.metadata, uid=f"there-{name}")
        held = msgspec.structs.replace(held, metadata=meta)
        made.engine.cluster.place(PodInfo(bound(held, name)), name)
    return made


def answers(plugin: Plugin, pod: PodInfo, event: ClusterEvent, nodes: list[NodeInfo]) -> object:
    """Return all that a plugin says of a waiting pod."""
    judges = plugin.judges_nodes_alone and isinstance(plugin, Filter)
    fits = [plugin.filter(CycleState(), pod, one).ok for one in nodes] if judges else []  # type: ignore[attr-defined]
    return plugin.wakes(pod, event), plugin.looks_beyond(pod, event), fits


@settings(max_examples=40)
@given(seed=st.integers(0, 1 << 32))
def test_what_a_plugin_says_of_one_pod_it_says_of_all_that_are_like_it(
    scheduler: Scheduler, seed: int
) -> None:
    """Of every plugin, and whatever happens."""
    rng = Random(seed)
    events = [some_event(scheduler, rng) for _ in range(12)]
    nodes = list(scheduler.engine.cluster.nodes())
    pods = [some_pod(f"p{number}", rng) for number in range(24)]
    for name, plugin in scheduler.runtime.profile.plugins().items():
        told: dict[object, tuple[PodInfo, list[object]]] = {}
        for pod in pods:
            said = [answers(plugin, pod, event, nodes) for event in events]
            first, expected = told.setdefault(plugin.likeness(pod), (pod, said))
            assert said == expected, (name, first.pod, pod.pod)


@given(seed=st.integers(0, 1 << 32))
def test_what_is_said_of_one_pod_holds_for_all_that_are_like_it(
    scheduler: Scheduler, seed: int
) -> None:
    """Whoever refused them, and whether or not they could evict others."""
    rng = Random(seed)
    hints = ProfileHints(scheduler.engine.runtimes, scheduler.engine.cluster, Nominations())
    names = sorted(scheduler.runtime.profile.plugins())
    refused_by = frozenset(rng.sample(names, rng.randint(1, 3)))
    events = [some_event(scheduler, rng) for _ in range(6)]
    told: dict[object, list[tuple[bool, bool]]] = {}
    for number in range(16):
        one = some_pod(f"p{number}", rng)
        said = [
            (hints.rules_out(one, refused_by, event), hints.wakes(one, refused_by, event))
            for event in events
        ]
        assert told.setdefault(hints.likeness(one, refused_by), said) == said


@pytest.mark.parametrize(
    "field",
    ["labels", "annotations", "ownerReferences", "name", "env", "image", "emptyDir"],
)
def test_pods_that_lack_room_are_alike_whatever_else_tells_them_apart(
    scheduler: Scheduler, field: str
) -> None:
    """Labels of Jobs, environments, names, tokens: no hint looks at them."""
    hints = ProfileHints(scheduler.engine.runtimes, scheduler.engine.cluster, Nominations())
    lacking = frozenset({"NodeResourcesFit", "NodeResourceTopologyMatch", "TaintToleration"})
    found = set()
    for number in range(3):
        own = f"own-{number}"
        document = pod_document(own, "30", metadata={"name": own, "uid": own})
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": own, "uid": own}
        changes: dict[str, tuple[dict[str, Any], str, Any]] = {
            "labels": (document["metadata"], "labels", {"batch.kubernetes.io/job-name": own}),
            "annotations": (document["metadata"], "annotations", {"example.com/id": own}),
            "ownerReferences": (document["metadata"], "ownerReferences", [owner]),
            "env": (document["spec"]["containers"][0], "env", [{"name": "ID", "value": own}]),
            "image": (document["spec"]["containers"][0], "image", own),
            "emptyDir": (document["spec"], "volumes", [{"name": own, "emptyDir": {}}]),
            "name": (document["metadata"], "generateName", own),
        }
        where, key, value = changes[field]
        where[key] = value
        info = PodInfo(msgspec.convert(document, Pod))
        found.add(hints.likeness(info, lacking))
    assert len(found) == 1
