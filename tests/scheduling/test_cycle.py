"""One cycle: the best node that stands up to every check, or all the reasons why none does."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace
from tests.scheduling.conftest import MakeNode, MakePod

from numakube.api.affinity_and_taints import Affinity, PodAffinity, PodAffinityTerm
from numakube.api.meta import LabelSelector
from numakube.scheduling.arrays import Rows
from numakube.scheduling.cycle import Chosen, Cycle, Failed, Refused
from numakube.scheduling.framework.cycle_state import CycleState
from numakube.scheduling.framework.nominations import Nominations
from numakube.scheduling.framework.plugins import (
    Confirm,
    Filter,
    Nomination,
    Plugin,
    PostFilter,
    PreFilter,
    PreFilterResult,
    PreScore,
    Score,
    VectorFilter,
)
from numakube.scheduling.framework.profile import profile_of
from numakube.scheduling.framework.runtime import Runtime
from numakube.scheduling.framework.status import (
    SUCCESS,
    Status,
    failure,
    unresolvable,
    unschedulable,
)
from numakube.scheduling.framework.verdicts import Verdicts
from numakube.scheduling.snapshot.cluster import Cluster, Snapshot
from numakube.scheduling.snapshot.nodes import NodeInfo
from numakube.scheduling.snapshot.pods import PodInfo


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
