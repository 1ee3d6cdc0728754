"""DefaultPreemption chooses the node where the least is lost, without trying them all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.scheduling.numa.caches.reported_node import ReportedNode, pod, taken
from tests.scheduling.preemption.room import PlainFilters, full_node

from numakube.api.meta import LabelSelector, LabelSelectorRequirement, ObjectMeta
from numakube.api.pod import Pod, PodCondition, PodStatus
from numakube.api.workloads import (
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
)
from numakube.errors import ConfigError
from numakube.scheduling.framework.cycle_state import CycleState
from numakube.scheduling.framework.registry import Handle
from numakube.scheduling.framework.runtime import Runtime
from numakube.scheduling.framework.status import Status, unresolvable, unschedulable
from numakube.scheduling.preemption.default_preemption import (
    REGISTRY,
    DefaultPreemption,
    PreemptionSettings,
    is_being_preempted,
)
from numakube.scheduling.preemption.victims import (
    Bounds,
    Budget,
    ChosenVictims,
    EvictionTrial,
    budgets_of,
    find_victims,
    lowest_cost,
)
from numakube.scheduling.snapshot.cluster import Cluster
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing import bound

NEW = pod("new", cpus=8, priority=9)


class Scene:
    """A cluster and the plugin."""

    def __init__(self, budgets: Sequence[Budget] = ()) -> None:
        self.filters = PlainFilters()
        # The plugin asks the runtime for three things, all of which the plain filters have.
        self.handle = Handle(runtime=cast("Runtime", self.filters))
        self.plugin = DefaultPreemption(PreemptionSettings(), self.handle, lambda: budgets)

    @property
    def cluster(self) -> Cluster:
        """The cluster."""
        return self.handle.cluster

    def preempt(self, one: Pod = NEW, **refusals: Status) -> tuple[str, list[str], str]:
        """Return node, victims and message."""
        statuses = {node.name: unschedulable("Insufficient cpu") for node in self.cluster.nodes()}
        statuses |= refusals
        nomination, status = self.plugin.post_filter(
            CycleState(), PodInfo(one), self.cluster.snapshot(), statuses
        )
        if nomination is None:
            return "", [], status.message
        return nomination.node, [victim.name for victim in nomination.victims], status.message


@pytest.fixture
def scene() -> Scene:
    """An empty cluster."""
    return Scene()


def test_a_pod_that_must_not_preempt_does_not(scene: Scene) -> None:
    """In kube-scheduler's words."""
    full_node(scene.cluster, [pod("a", cpus=14)])
    spec = msgspec.structs.replace(NEW.spec, preemption_policy="Never")
    one = msgspec.structs.replace(NEW, spec=spec)
    assert scene.preempt(one)[2] == "preemption: not eligible due to preemptionPolicy=Never."


def test_a_pod_waits_while_its_victims_are_leaving(scene: Scene) -> None:
    """Otherwise it would evict others each time it is tried."""
    victim = taken(bound(pod("a", cpus=14), "n1"))
    full_node(scene.cluster, [victim, pod("stays", cpus=1)])
    full_node(scene.cluster, [pod("b", cpus=14)], name="n2")
    meta = msgspec.structs.replace(victim.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
    condition = PodCondition(type="DisruptionTarget", status="True", reason="PreemptionByScheduler")
    assert victim.status is not None
    status = msgspec.structs.replace(victim.status, conditions=(condition,))
    scene.cluster.place(
        PodInfo(msgspec.structs.replace(victim, metadata=meta, status=status)), "n1"
    )
    scene.handle.nominations.nominate(PodInfo(NEW), "n1")
    refused = "preemption: not eligible due to a terminating pod on the nominated node."
    assert scene.preempt()[2] == refused
    gone_bad = unresolvable("node(s) were unschedulable")
    assert scene.preempt(n1=gone_bad)[0] == "n2"


def test_a_pod_waits_for_victims_that_are_never_seen_on_their_way_out(scene: Scene) -> None:
    """Without a grace period a pod is there until it is gone."""
    stays, goes = pod("stays", cpus=7), pod("goes", cpus=7)
    full_node(scene.cluster, [stays, goes])
    full_node(scene.cluster, [pod("b", cpus=14)], name="n2")
    nominations = scene.handle.nominations
    nominations.nominate(PodInfo(NEW), "n1")
    nominations.expect_to_leave(NEW.metadata.uid, frozenset({"goes", "gone-already"}))
    refused = "preemption: not eligible due to a terminating pod on the nominated node."
    assert scene.preempt()[2] == refused
    nominations.expect_to_leave(NEW.metadata.uid, frozenset({"gone-already"}))
    assert scene.preempt()[0] != ""
    nominations.expect_to_leave(NEW.metadata.uid, frozenset({"goes"}))
    nominations.drop(NEW.metadata.uid)
    nominations.expect_to_leave(NEW.metadata.uid, frozenset({"goes"}))
    assert nominations.leaving(NEW.metadata.uid) == frozenset()
    assert scene.preempt()[0] != ""


@pytest.mark.parametrize("elsewhere", [0, 9])
def test_nodes_that_no_eviction_helps_are_left_alone(scene: Scene, elsewhere: int) -> None:
    """The message counts them as kube-scheduler does, be there pods of lower priority or not."""
    full_node(scene.cluster, [pod("a", cpus=14, priority=elsewhere)], name="n1")
    full_node(scene.cluster, [pod("b", cpus=14, priority=9)], name="n2")
    message = scene.preempt(n1=unresolvable("node(s) had untolerated taint"))[2]
    assert message == (
        "preemption: 0/2 nodes are available: 1 No preemption victims found for incoming pod, "
        "1 Preemption is not helpful for scheduling."
    )


@pytest.mark.parametrize(
    ("worse", "better"),
    [
        ([pod("p", cpus=14, priority=3)], [pod("q", cpus=14, priority=2)]),
        (
            [pod("p", cpus=7, priority=2), pod("r", cpus=7, priority=1)],
            [pod("q", cpus=14, priority=2)],
        ),
        (
            [pod("p", cpus=7, priority=-5), pod("r", cpus=7, priority=-5)],
            [pod("q", cpus=14, priority=-5)],
        ),
    ],
)
@pytest.mark.parametrize("swap", [False, True])
def test_the_node_with_the_smaller_loss_is_chosen(
    scene: Scene, worse: list[Pod], better: list[Pod], *, swap: bool
) -> None:
    """By the highest priority, then the sum of priorities, in which fewer pods are better."""
    first, second = (better, worse) if swap else (worse, better)
    full_node(scene.cluster, first, name="n1")
    full_node(scene.cluster, second, name="n2")
    assert scene.preempt(pod("new", cpus=9, priority=9))[1] == ["q"]


def started(one: Pod, day: int | None) -> Pod:
    """Return a pod that started on that day of the month; None if it has not."""
    time = None if day is None else f"2026-01-{day:02}T00:00:00Z"
    status = msgspec.structs.replace(one.status or PodStatus(), start_time=time)
    return msgspec.structs.replace(one, status=status)


@pytest.mark.parametrize(
    ("days", "chosen"),
    [
        ((1, 2), "n2"),
        ((2, 1), "n1"),
        ((None, 2), "n1"),
        ((2, None), "n2"),
    ],
)
def test_of_equal_losses_the_one_that_has_run_for_the_shortest_time_is_chosen(
    scene: Scene, days: tuple[int | None, int | None], chosen: str
) -> None:
    """What has not started yet has lost nothing; among equals any node is as good.

    By amounts less would be lost on each of them, so that none is taken without looking at all.
    """
    for number, day in enumerate(days, start=1):
        name = f"n{number}"
        there = [
            pod(f"stays{number}", cpus=4, priority=9),
            pod(f"useless{number}", cpus=3, priority=1),
            pod(f"important{number}", cpus=6, priority=5),
        ]
        full_node(scene.cluster, there, name=name, site=ReportedNode.make(name))
        scene.cluster.place(PodInfo(started(bound(there[2], name), day)), name)
    assert scene.preempt(pod("new", cpus=5, priority=9))[:2] == (
        chosen,
        [f"important{chosen[1]}"],
    )


def test_of_several_victims_the_first_of_the_most_important_counts() -> None:
    """Not those of lower priority."""

    def victims(*them: tuple[int, int]) -> ChosenVictims:
        pods = [started(pod(f"p{day}", priority=priority), day) for priority, day in them]
        return ChosenVictims(tuple(map(PodInfo, pods)), 0)

    assert victims((5, 3), (5, 2), (1, 1)).started == "2026-01-02T00:00:00Z"
    assert victims((1, 1), (5, 4)).started == "2026-01-04T00:00:00Z"
    assert victims((5, 3), (2, 1)).cost == (0, 5, 7 + 2 * 2**31, 2)
    assert lowest_cost(5, 2, 2) == victims((5, 3), (2, 1)).cost


def test_a_node_where_no_budget_is_violated_is_chosen_first(scene: Scene) -> None:
    """Even if more important pods have to go."""

    class Guarded:
        def matches(self, labels: object) -> bool:
            return labels == {"app": "db"}

    scene = Scene([Budget("default", Guarded(), 0)])
    guarded = pod("a", cpus=14, priority=1)
    meta = msgspec.structs.replace(guarded.metadata, labels={"app": "db"})
    full_node(scene.cluster, [msgspec.structs.replace(guarded, metadata=meta)], name="n1")
    full_node(scene.cluster, [pod("b", cpus=14, priority=5)], name="n2")
    assert scene.preempt()[0] == "n2"


def test_nothing_is_evicted_unless_the_model_then_admits_the_pod(scene: Scene) -> None:
    """Eight CPUs can become free on both nodes, but in a single zone on one of them only."""
    split = [pod("a", cpus=4), pod("b", cpus=4, priority=9), pod("c", cpus=3)]
    full_node(scene.cluster, split, name="n1", site=ReportedNode.make("n1"))
    assert scene.preempt()[:2] == ("", [])
    full_node(scene.cluster, [pod("d", cpus=8)], name="n2", site=ReportedNode.make("n2"))
    assert scene.preempt()[:2] == ("n2", ["d"])


def test_of_thousands_of_equal_nodes_only_one_is_tried(scene: Scene) -> None:
    """No other can be better."""
    for number in range(300):
        full_node(scene.cluster, [pod(f"p{number}", cpus=14, priority=1)], name=f"n{number}")
    assert scene.preempt()[0]
    assert scene.filters.asked <= 3


def test_each_attempt_begins_with_other_nodes(scene: Scene) -> None:
    """So that those which are hard to judge do not hide the others for good."""
    for number in range(300):
        site = ReportedNode.make(f"n{number}", exact=False)
        full_node(scene.cluster, [pod(f"p{number}", cpus=7)], name=f"n{number}", site=site)
    full_node(scene.cluster, [pod("x", cpus=14, priority=0)], name="good")
    one = pod("new", cpus=7, priority=9)
    tried = [scene.preempt(msgspec.structs.replace(one))[0] for _ in range(3)]
    assert "good" in tried


amounts = st.tuples(st.integers(1, 6), st.integers(0, 3))


@given(
    pods=st.lists(amounts, max_size=5),
    wanted=st.integers(1, 14),
    priority=st.integers(0, 4),
)
def test_a_bound_is_never_above_the_cost(
    pods: list[tuple[int, int]], wanted: int, priority: int
) -> None:
    """Otherwise the best node could be passed over."""
    cluster = Cluster()
    made = [pod(f"p{at}", cpus=one[0], priority=one[1]) for at, one in enumerate(pods)]
    node = full_node(cluster, made)
    who = PodInfo(pod("new", cpus=wanted, priority=priority))
    filters = PlainFilters()
    found = find_victims(who, node, (), lambda: EvictionTrial(filters, CycleState(), who, node))
    (bound,) = Bounds().of(who, [node])
    if isinstance(found, ChosenVictims) and found.pods:
        assert bound is not None
        assert bound <= found.cost


@pytest.mark.parametrize(
    ("wanted", "priority", "victims"),
    [
        (1, 9, (1,)),
        (3, 9, (1,)),
        (7, 9, (1,)),
        (8, 9, (1, 2)),
        (11, 9, (1, 2)),
        (12, 9, (1, 2, 4)),
        (15, 9, (1, 2, 4)),
        (16, 9, None),
        (11, 4, (1, 2)),
        (12, 4, None),
        (7, 2, (1,)),
        (8, 2, None),
        (7, 1, None),
    ],
)
def test_a_bound_is_the_cost_where_all_pods_are_of_one_size(
    wanted: int, priority: int, victims: tuple[int, ...] | None
) -> None:
    """Of the least important ones as many as are needed; three of 15 CPUs are free."""
    cluster = Cluster()
    node = full_node(cluster, [pod(f"p{one}", cpus=4, priority=one) for one in (4, 1, 2)])
    (bound,) = Bounds().of(PodInfo(pod("new", cpus=wanted, priority=priority)), [node])
    if victims is None:
        assert bound is None
    else:
        gone = tuple(PodInfo(pod(f"p{one}", priority=one)) for one in victims)
        assert bound == ChosenVictims(gone, 0).cost


def test_the_number_of_candidates_follows_kube_scheduler() -> None:
    """A tenth of the nodes, at least a hundred, at most all."""
    args = PreemptionSettings()
    assert [args.candidates_among(nodes) for nodes in (0, 50, 500, 5000)] == [0, 50, 100, 500]


def test_a_bound_is_computed_anew_when_its_node_changes(scene: Scene) -> None:
    """And kept as long as it does not."""
    bounds, who = Bounds(), PodInfo(pod("new", cpus=8, priority=9))
    node = full_node(scene.cluster, [pod("a", cpus=14, priority=3)])
    (before,) = bounds.of(who, [node])
    assert bounds.of(who, [node]) == [before]
    scene.cluster.place(PodInfo(bound(pod("a", cpus=14, priority=5), "n1")), "n1")
    (after,) = bounds.of(who, [node])
    assert before is not None
    assert after is not None
    assert before < after


def test_the_first_node_that_will_do_is_compared_with_others(scene: Scene) -> None:
    """By amounts one pod of no importance is enough there; its zone needs another one to go."""
    crowded = [
        pod("stays", cpus=4, priority=9),
        pod("useless", cpus=3, priority=1),
        pod("important", cpus=6, priority=5),
    ]
    full_node(scene.cluster, crowded, name="n1", site=ReportedNode.make("n1"))
    plain = [pod("stays too", cpus=7, priority=9), pod("lesser", cpus=8, priority=2)]
    full_node(scene.cluster, plain, name="n2", site=ReportedNode.make("n2"))
    assert scene.preempt(pod("new", cpus=5, priority=9))[1] == ["lesser"]


@pytest.mark.parametrize(
    ("deleted", "condition", "going"),
    [
        (True, {}, True),
        (False, {}, False),
        (True, {"type": "Ready"}, False),
        (True, {"status": "False"}, False),
        (True, {"reason": "EvictionByEvictionAPI"}, False),
    ],
)
def test_a_pod_makes_room_if_a_scheduler_evicts_it(
    deleted: bool, condition: dict[str, str], going: bool
) -> None:
    """Not if it goes for other reasons, nor if it is not going."""
    told = PodCondition(type="DisruptionTarget", status="True", reason="PreemptionByScheduler")
    changed: PodCondition = msgspec.structs.replace(told, **condition)
    one = taken(bound(pod("a"), "n1"))
    assert one.status is not None
    status = msgspec.structs.replace(
        one.status,
        conditions=(PodCondition(type="Ready", status="True"), changed),
    )
    at = "2026-01-01T00:00:00Z" if deleted else None
    meta = msgspec.structs.replace(one.metadata, deletion_timestamp=at)
    info = PodInfo(msgspec.structs.replace(one, metadata=meta, status=status))
    assert is_being_preempted(info) is going


# ------------------------------------------------------------------------------------------------
# DefaultPreemption is configured as in kube-scheduler.


def test_the_plugin_is_made_by_its_name() -> None:
    """With defaults for what is not said."""
    args = {"kind": "DefaultPreemptionArgs", "minCandidateNodesPercentage": 5}
    assert REGISTRY["DefaultPreemption"](args, Handle()).name == "DefaultPreemption"


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (
            {"minCandidateNodesPercentage": 101},
            "minCandidateNodesPercentage: Invalid value: 101: not in valid range [0, 100]",
        ),
        (
            {"minCandidateNodesAbsolute": -1},
            "minCandidateNodesAbsolute: Invalid value: -1: not in valid range [0, inf)",
        ),
        (
            {"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 0},
            "cannot be zero at the same time as minCandidateNodesAbsolute",
        ),
    ],
)
def test_wrong_arguments_are_refused_in_kube_schedulers_words(
    args: dict[str, object], problem: str
) -> None:
    """So that the known documentation helps."""
    with pytest.raises(ConfigError) as caught:
        REGISTRY["DefaultPreemption"](args, Handle())
    assert problem in str(caught.value)


def budget(selector: LabelSelector | None) -> PodDisruptionBudget:
    """A budget of pods with that selector."""
    return PodDisruptionBudget(
        metadata=ObjectMeta(namespace="default", name="b"),
        spec=PodDisruptionBudgetSpec(selector=selector),
        status=PodDisruptionBudgetStatus(disruptions_allowed=2, disrupted_pods={"p": "now"}),
    )


def test_a_budget_is_read_from_its_object() -> None:
    """What it allows stands in its status."""
    (made,) = budgets_of([budget(LabelSelector(match_labels={"app": "db"}))])
    assert (made.namespace, made.allowed, made.disrupted) == ("default", 2, frozenset({"p"}))
    assert made.pods.matches({"app": "db"})
    assert not made.pods.matches({"app": "web"})


def test_budgets_without_a_proper_selector_protect_nobody() -> None:
    """As in kube-scheduler; a missing selector matches no pod anyway."""
    wrong = LabelSelectorRequirement(key="app", operator="Near", values=("db",))
    assert budgets_of([budget(LabelSelector(match_expressions=(wrong,)))]) == []
    assert budgets_of([budget(LabelSelector())]) == []
    (nobody,) = budgets_of([budget(None)])
    assert not nobody.pods.matches({"app": "db"})
