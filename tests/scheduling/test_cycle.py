"""One cycle: the best node that stands up to every check, or all the reasons why none does."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from msgspec.structs import replace
from tests.scheduling.conftest import MakeNode, MakePod

from numakube.api.affinity_and_taints import Affinity, PodAffinity, PodAffinityTerm
from numakube.api.meta import LabelSelector
from numakube.insight.node_setup import nodes_of_kinds
from numakube.insight.scheduler_engine import BindsNothing
from numakube.scheduling.arrays import Rows
from numakube.scheduling.assembly import Engine, all_plugins, assemble, default_configuration
from numakube.scheduling.cycle import (
    Attempt,
    Chosen,
    Cycle,
    Failed,
    FirstOfEquals,
    KnownRefusals,
    Refused,
)
from numakube.scheduling.framework.cycle_state import CycleState
from numakube.scheduling.framework.plugins import (
    Confirm,
    Filter,
    Nomination,
    Nominations,
    Plugin,
    PostFilter,
    PreFilter,
    PreFilterResult,
    PreScore,
    Score,
    VectorFilter,
)
from numakube.scheduling.framework.registry import profile_of
from numakube.scheduling.framework.runtime import Runtime
from numakube.scheduling.framework.status import (
    SUCCESS,
    Diagnosis,
    Status,
    Verdicts,
    failure,
    unresolvable,
    unschedulable,
)
from numakube.scheduling.plugins.rejection_guard import NODE_SECONDS
from numakube.scheduling.snapshot.cluster import Cluster, Snapshot
from numakube.scheduling.snapshot.nodes import NodeInfo
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing import pod
from numakube_planning.simulation.virtual_node import NodeFactory


class Room(Filter, VectorFilter, Score):
    """CPUs must suffice; the emptier the better."""

    name = "Room"

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Judge one node."""
        free = node.allocatable["cpu"] - node.requested.get("cpu", 0)
        return SUCCESS if pod.requests["cpu"] <= free else unschedulable("Insufficient cpu")

    def filter_all(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows
    ) -> Verdicts:
        """Judge all."""
        table = snapshot.resources
        free = (table.allocatable("cpu") - table.requested("cpu"))[rows]
        return Verdicts.where(free >= pod.requests["cpu"], unschedulable("Insufficient cpu"))

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """Prefer free CPUs."""
        return (node.allocatable["cpu"] - node.requested.get("cpu", 0)) // 1000


class Forbidden(Confirm):
    """Refuses some nodes at the last moment."""

    name = "Forbidden"

    def __init__(self, *nodes: str) -> None:
        self.nodes = nodes
        self.asked: list[str] = []

    def confirm(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Refuse the forbidden ones."""
        self.asked.append(node.name)
        return unschedulable("forbidden") if node.name in self.nodes else SUCCESS


class Doubtful(Confirm):
    """Lets some nodes pass with a second thought."""

    name = "Doubtful"

    def __init__(self, *nodes: str) -> None:
        self.nodes = nodes

    def confirm(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Hesitate."""
        return Status(reasons=("doubtful",)) if node.name in self.nodes else SUCCESS


class Only(PreFilter):
    """Narrows the nodes."""

    name = "Only"

    def __init__(self, *nodes: str) -> None:
        self.nodes = frozenset(nodes)

    def pre_filter(self, state: CycleState, pod: PodInfo, snapshot: Snapshot) -> PreFilterResult:
        """Leave the given ones."""
        return PreFilterResult(nodes=self.nodes)


class Evictor(PostFilter):
    """Makes room on n1."""

    name = "Evictor"

    def post_filter(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, refusals: object
    ) -> tuple[Nomination | None, Status]:
        """Nominate."""
        return Nomination("n1"), SUCCESS


class Setting:
    """A cluster of three nodes and a cycle over it."""

    def __init__(self, make_node: MakeNode) -> None:
        self.cluster = Cluster()
        self.nominations = Nominations()
        for name, cpus in (("n1", 4), ("n2", 8), ("n3", 6)):
            self.cluster.set_node(make_node(name, cpus))
        self.cycle = Cycle(self.cluster, self.nominations, np.random.default_rng(1))

    def decide(self, pod: PodInfo, *plugins: Plugin) -> Chosen | Refused | Failed:
        """Decide with `Room` and *plugins*."""
        return self.cycle.decide(pod, Runtime(profile_of("numa", (Room(), *plugins))))


@pytest.fixture
def setting(make_node: MakeNode) -> Setting:
    """Three nodes of 4, 8 and 6 CPUs."""
    return Setting(make_node)


def test_the_best_node_is_chosen(setting: Setting, make_pod: MakePod) -> None:
    """By total score."""
    decision = setting.decide(make_pod("a", "2"))
    assert isinstance(decision, Chosen)
    assert (decision.node, decision.feasible, decision.evaluated) == ("n2", 3, 3)


def test_nodes_are_confirmed_from_the_best_downwards(setting: Setting, make_pod: MakePod) -> None:
    """And no more of them than needed."""
    checks = Forbidden("n2")
    decision = setting.decide(make_pod("a", "2"), checks)
    assert isinstance(decision, Chosen)
    assert decision.node == "n3"
    assert checks.asked == ["n2", "n3"]


@pytest.mark.parametrize(
    ("doubtful", "node"),
    [(("n2",), "n3"), (("n2", "n3"), "n1"), (("n1", "n2", "n3"), "n2"), (("n1", "n3"), "n2")],
)
def test_a_node_without_doubts_is_taken_before_better_ones_with(
    setting: Setting, make_pod: MakePod, doubtful: tuple[str, ...], node: str
) -> None:
    """The best one is, if there are doubts about all."""
    decision = setting.decide(make_pod("a", "2"), Doubtful(*doubtful))
    assert isinstance(decision, Chosen)
    assert decision.node == node


def test_a_refusal_counts_the_nodes_of_each_reason(setting: Setting, make_pod: MakePod) -> None:
    """In the words that users know."""
    decision = setting.decide(make_pod("a", "5"), Forbidden("n2", "n3"))
    assert isinstance(decision, Refused)
    assert decision.diagnosis.message() == (
        "0/3 nodes are available: 1 Insufficient cpu, 2 forbidden."
    )
    assert decision.diagnosis.plugins() == {"Room", "Forbidden"}
    assert decision.diagnosis.statuses()["n1"].plugin == "Room"


def test_nodes_outside_a_pre_filter_result_are_reported_together(
    setting: Setting, make_pod: MakePod
) -> None:
    """With the plugins that ruled them out."""
    decision = setting.decide(make_pod("a", "7"), Only("n1"))
    assert isinstance(decision, Refused)
    assert decision.diagnosis.message() == (
        "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [Only]."
    )


def test_a_pod_like_a_refused_one_is_not_tried_until_room_appears(
    setting: Setting, make_pod: MakePod, make_node: MakeNode
) -> None:
    """Ten thousand replicas that cannot fit cost one cycle, not ten thousand."""
    checks = Forbidden("n1", "n2", "n3")
    first = setting.decide(make_pod("a", "2"), checks)
    asked = len(checks.asked)
    setting.cluster.place(make_pod("other"), "n3")
    again = setting.decide(make_pod("b", "2"), checks)
    assert isinstance(first, Refused)
    assert isinstance(again, Refused)
    assert again.remembered
    assert len(checks.asked) == asked
    setting.cluster.set_node(make_node("n4"))
    decision = setting.decide(make_pod("c", "2"), checks)
    assert isinstance(decision, Chosen)
    assert decision.node == "n4"


def test_pods_of_an_indexed_job_are_alike_unless_pods_are_selected_by_labels(
    setting: Setting, make_pod: MakePod
) -> None:
    """Their numbers are labels, which matter to nobody as long as no term asks for labels."""
    assert isinstance(setting.decide(numbered(make_pod("a", "9"), 1)), Refused)
    again = setting.decide(numbered(make_pod("b", "9"), 2))
    assert isinstance(again, Refused)
    assert again.remembered
    term = PodAffinityTerm(topology_key="zone", label_selector=LabelSelector())
    alone = Affinity(pod_anti_affinity=PodAffinity(required=(term,)))
    setting.cluster.place(make_pod("alone", affinity=alone), "n1")
    third = setting.decide(numbered(make_pod("c", "9"), 3))
    assert isinstance(third, Refused)
    assert not third.remembered


def numbered(pod: PodInfo, number: int) -> PodInfo:
    """Return *pod* with the label of an indexed Job."""
    labels = {"batch.kubernetes.io/job-completion-index": str(number)}
    metadata = replace(pod.pod.metadata, labels=labels)
    return PodInfo(replace(pod.pod, metadata=metadata))


def test_room_made_for_a_nominated_pod_is_not_given_away(
    setting: Setting, make_pod: MakePod
) -> None:
    """Except to pods of higher priority."""
    setting.nominations.nominate(make_pod("urgent", "6", priority=100), "n2")
    decision = setting.decide(make_pod("a", "3"))
    assert isinstance(decision, Chosen)
    assert decision.node == "n3"
    vip = setting.decide(make_pod("vip", "3", priority=1000))
    assert isinstance(vip, Chosen)
    assert vip.node == "n2"


def test_a_post_filter_nominates_a_node(setting: Setting, make_pod: MakePod) -> None:
    """The caller evicts."""
    decision = setting.decide(make_pod("a", "20"), Evictor())
    assert isinstance(decision, Refused)
    assert decision.nomination == Nomination("n1")
    assert not isinstance(setting.decide(make_pod("b", "20"), Evictor()), Chosen)


def test_a_refusal_before_any_node_is_told_alone(setting: Setting, make_pod: MakePod) -> None:
    """As kube-scheduler does."""

    class Never(PreFilter):
        name = "Never"

        def pre_filter(
            self, state: CycleState, pod: PodInfo, snapshot: Snapshot
        ) -> PreFilterResult:
            return PreFilterResult(unresolvable("claims are not handled"))

    decision = setting.decide(make_pod("a", "1"), Never())
    assert isinstance(decision, Refused)
    assert decision.diagnosis.message() == "0/3 nodes are available: claims are not handled."


def test_c23_an_empty_cluster_is_called_that(make_pod: MakePod) -> None:
    """In kube-scheduler's words."""
    cycle = Cycle(Cluster(), Nominations(), np.random.default_rng(1))
    decision = cycle.decide(make_pod("a"), Runtime(profile_of("numa", (Room(),))))
    assert isinstance(decision, Refused)
    assert decision.diagnosis.message() == "no nodes available to schedule pods"


def test_a_plugin_that_cannot_prepare_its_scores_fails_the_attempt(
    setting: Setting, make_pod: MakePod
) -> None:
    """The pod is tried again later rather than placed by half of the rules."""

    class Broken(PreScore):
        name = "Broken"

        def pre_score(
            self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows
        ) -> Status:
            return failure("cannot read the preferences")

    decision = setting.decide(make_pod("a", "1"), Broken())
    assert isinstance(decision, Failed)
    assert (decision.status.plugin, decision.status.message) == (
        "Broken",
        "cannot read the preferences",
    )


# ------------------------------------------------------------------------------------------------
# A refusal that is not looked into again is what a new look would say.


def cycle_of(engine: Engine) -> Cycle:
    """Return a cycle that remembers nothing yet."""
    return Cycle(engine.cluster, engine.nominations, FirstOfEquals())


def what_of(decision: object) -> object:
    """Return all of a decision that anybody reads; where room is made changes from time to time."""
    if isinstance(decision, Refused):
        diagnosis, evicts = decision.diagnosis, decision.nomination is not None
        return evicts or diagnosis.message(), diagnosis.plugins(), diagnosis.statuses()
    assert isinstance(decision, Chosen)
    return decision.node


@pytest.mark.parametrize("priorities", [1, 2])
def test_while_pods_come_and_go(priorities: int) -> None:
    """Room is made before each look, mostly on nodes that stay too full."""
    engine, rng = engine_of_nodes(), Random(priorities)
    (runtime,) = engine.runtimes.values()
    nodes, lasting = sorted(engine.cluster.row_of), cycle_of(engine)
    leaving = PodInfo(pod("leaving", cpu="1", priority=priorities))
    held = 0
    for step in range(70):
        number = rng.randrange(40)
        one = PodInfo(pod(f"p{number}", cpu=str(1 + number % 6), priority=number % priorities))
        engine.cluster.remove_pod(one.uid)
        for come in (one, leaving)[rng.random() < 0.2 :]:
            engine.cluster.place(come, rng.choice(nodes))
        engine.cluster.remove_pod(leaving.uid)
        for cpu in ("3", "5", "7", "40"):
            asked = PodInfo(pod(f"asked{step}", cpu=cpu, priority=priorities - 1))
            found = lasting.decide(asked, runtime)
            assert what_of(found) == what_of(cycle_of(engine).decide(asked, runtime))
            held += isinstance(found, Refused) and found.remembered
    assert (held > 40) == (priorities == 1)


def test_a_node_that_rejected_a_pod_is_tried_again_when_its_time_is_over() -> None:
    """Nothing else need happen: time alone makes such a refusal void."""
    engine = engine_of_nodes()
    (runtime,) = engine.runtimes.values()
    cycle = cycle_of(engine)
    for node in engine.cluster.nodes():
        rejected = PodInfo(pod(f"on-{node.name}", cpu="2", node_name=node.name))
        assert node.numa is not None
        engine.guard.rejected(rejected, 0.0, report=node.numa.topology)
    again = PodInfo(pod("again", cpu="2"))

    refused = cycle.decide(again, runtime)
    engine.guard.advance(NODE_SECONDS + 1)
    decision = cycle.decide(again, runtime)

    assert isinstance(refused, Refused)
    assert isinstance(decision, Chosen)


def test_room_that_was_kept_for_others_is_found_when_it_is_given_back() -> None:
    """Though no node has changed."""
    engine = engine_of_nodes()
    (runtime,) = engine.runtimes.values()
    cycle, asked = cycle_of(engine), PodInfo(pod("asked", cpu="2"))
    kept = {f"{node}-{one}": node for node in engine.cluster.row_of for one in range(8)}
    for name, node in kept.items():
        engine.nominations.nominate(PodInfo(pod(name, cpu="2")), node)
    refused = cycle.decide(asked, runtime)
    for name in kept:
        engine.nominations.drop(PodInfo(pod(name, cpu="2")).uid)

    assert isinstance(refused, Refused)
    assert isinstance(cycle.decide(asked, runtime), Chosen)


def test_what_is_remembered_is_bounded_by_the_nodes_of_all_refusals() -> None:
    """Refusals by large clusters take more memory, so that fewer are kept; of none, many are."""
    engine = engine_of_nodes()
    (runtime,) = engine.runtimes.values()
    for total, kept in ((400_000, 1), (0, 4)):
        known = KnownRefusals(engine.cluster, engine.nominations)
        asked = [PodInfo(pod(f"asked{number}", cpu=str(20 + number))) for number in range(4)]
        for one in asked:
            known.put(one, Diagnosis(total=total), CycleState())
        assert sum(known.get(one, runtime) is not None for one in asked) == kept


# ------------------------------------------------------------------------------------------------
# What nominated pods leave to others is remembered for pods that are alike, and never wrong.

NODES = "6x 2 sockets, 4 cores, smt 1, 16Gi; policy=single-numa-node"


class Forgetful(Nominations):
    """Remembers no verdict."""

    def verdict(self, kind: bytes, node: str, state: object) -> None:
        """Know nothing."""
        del kind, node, state


def engine_of_nodes() -> Engine:
    """Return an engine that knows a few empty nodes."""
    engine = assemble(default_configuration(), all_plugins(BindsNothing.make))
    factory = NodeFactory({})
    for plan in nodes_of_kinds([NODES]):
        node = factory.make(plan)
        engine.cluster.set_node(node.object)
        report = node.report(1, exact=True)
        engine.cluster.take(engine.cache.set_report(report), engine.cache)
    return engine


def feasible(engine: Engine, asked: PodInfo, nominations: Nominations) -> list[int]:
    """Return the rows that are left for a pod."""
    runtime = next(iter(engine.runtimes.values()))
    attempt = Attempt(runtime, asked, engine.cluster.snapshot(), nominations)
    rows: list[int] = attempt.feasible_rows().tolist()
    return rows


def test_remembered_verdicts_are_what_a_new_look_would_say() -> None:
    """While pods are nominated, placed and taken off in any order."""
    engine, rng = engine_of_nodes(), Random(7)
    nodes = sorted(engine.cluster.row_of)
    remembering, forgetful = engine.nominations, Forgetful()
    refused = 0
    for step in range(80):
        number, node = rng.randrange(12), rng.choice(nodes)
        one = PodInfo(pod(f"p{number}", cpu=str(1 + number % 3), priority=number % 2))
        change = rng.randrange(5)
        for some in (remembering, forgetful):
            if change < 2:
                some.nominate(one, node)
            elif change == 2:
                some.drop(one.uid)
        if change > 2:
            engine.cluster.remove_pod(one.uid)
        if change > 3:
            engine.cluster.place(one, node)
        for cpu in ("2", "3"):
            asked = PodInfo(pod(f"asked{step}", cpu=cpu))
            found = feasible(engine, asked, remembering)
            assert found == feasible(engine, asked, forgetful)
            refused += len(found) < len(nodes)
    assert refused > 10


def test_a_pod_takes_its_own_room_while_its_like_is_refused() -> None:
    """Room on the only node is kept for one of two pods that are alike."""
    engine = engine_of_nodes()
    runtime = next(iter(engine.runtimes.values()))
    cycle = Cycle(engine.cluster, engine.nominations, FirstOfEquals())
    for number, node in enumerate(sorted(engine.cluster.row_of)):
        for place in range(2):
            engine.nominations.nominate(PodInfo(pod(f"k{number}-{place}", cpu="3")), node)
    mine = PodInfo(pod("k0-0", cpu="3"))

    assert not isinstance(cycle.decide(PodInfo(pod("other", cpu="3")), runtime), Chosen)
    decision = cycle.decide(mine, runtime)

    assert isinstance(decision, Chosen)
    assert decision.node == min(engine.cluster.row_of)
