"""What a plugin cannot evaluate costs a node, or the pod whose turn it is, and nobody else."""

from __future__ import annotations

import numpy as np
import pytest
from tests.scheduling.conftest import MakeNode, MakePod

from numakube.api.meta import ObjectMeta
from numakube.api.nodes import Node
from numakube.api.pod import Pod
from numakube.scheduling.arrays import IntArray, Rows, uniform
from numakube.scheduling.cycle import Chosen, Cycle, Refused
from numakube.scheduling.framework.cluster_events import EventKind
from numakube.scheduling.framework.cycle_state import CycleState
from numakube.scheduling.framework.plugins import (
    Confirm,
    Filter,
    Nominations,
    NormalizesScores,
    Permit,
    Plugin,
    PostFilter,
    PreEnqueue,
    PreFilter,
    PreFilterResult,
    Score,
    VectorFilter,
    VectorScore,
)
from numakube.scheduling.framework.registry import profile_of
from numakube.scheduling.framework.runtime import Runtime, Scores, without_aside
from numakube.scheduling.framework.status import (
    SKIP,
    SUCCESS,
    Code,
    Status,
    Verdicts,
    failure,
    unresolvable,
    unschedulable,
)
from numakube.scheduling.snapshot.cluster import Cluster, NodePart, Snapshot
from numakube.scheduling.snapshot.nodes import NodeInfo
from numakube.scheduling.snapshot.pods import PodInfo


class Trap(Filter, VectorFilter, Confirm, Score, VectorScore):
    """Raises at one extension point, on the given nodes."""

    name = "Trap"

    def __init__(self, point: str, *nodes: str) -> None:
        self.point = point
        self.nodes = nodes

    def _step_on(self, point: str, *nodes: str) -> None:
        if point == self.point and set(nodes) & set(self.nodes):
            raise LookupError("a value\nnobody \x1b[31mthought of")

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Judge one node."""
        self._step_on("filter", node.name)
        return SUCCESS

    def filter_all(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows
    ) -> Verdicts | None:
        """Judge all."""
        self._step_on("filter", *(snapshot.at(int(row)).name for row in rows))
        return None

    def confirm(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Judge the best."""
        self._step_on("confirm", node.name)
        return SUCCESS

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """Prefer the last one."""
        self._step_on("score", node.name)
        return int(node.name[1:])

    def score_all(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows
    ) -> IntArray:
        """Rate all."""
        nodes = [snapshot.at(int(row)) for row in rows]
        return np.array([self.score(state, pod, node) for node in nodes], dtype=np.int64)


class Reader(VectorFilter):
    """Reads every node into a column, and stumbles over one."""

    name = "Reader"

    def filter_all(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows
    ) -> Verdicts | None:
        """Accept those that can be read."""
        known = snapshot.column("reader", self._read).present(rows)
        return Verdicts.where(known, unschedulable("unknown"))

    def _read(self, node: NodeInfo) -> str:
        return node.labels["kind"]


class Clumsy(PostFilter, PreEnqueue):
    """Cannot make room, nor tell whether a pod may be tried."""

    name = "Clumsy"

    def post_filter(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, refusals: object
    ) -> tuple[None, Status]:
        """Fail."""
        raise ZeroDivisionError("no victims")

    def pre_enqueue(self, pod: PodInfo) -> Status:
        """Fail."""
        raise ZeroDivisionError("no gate")


@pytest.fixture
def cluster(make_node: MakeNode) -> Cluster:
    """Three nodes."""
    cluster = Cluster()
    for name in ("n1", "n2", "n3"):
        cluster.set_node(make_node(name, 4))
    return cluster


def decide(cluster: Cluster, pod: PodInfo, *plugins: Plugin) -> object:
    """Return what a cycle of *plugins* says."""
    cycle = Cycle(cluster, Nominations(), np.random.default_rng(1))
    return cycle.decide(pod, Runtime(profile_of("test", plugins)))


@pytest.mark.parametrize("point", ["filter", "confirm", "score"])
def test_a_node_that_cannot_be_evaluated_is_passed_over(
    cluster: Cluster, make_pod: MakePod, point: str
) -> None:
    """The best of the others is taken."""
    decision = decide(cluster, make_pod("p"), Trap(point, "n3"))

    assert isinstance(decision, Chosen)
    assert decision.node == "n2"


def test_the_reason_is_told_in_one_line(cluster: Cluster, make_pod: MakePod) -> None:
    """Whatever the node says, it says it in the event of a pod."""
    decision = decide(cluster, make_pod("p"), Trap("confirm", "n1", "n2", "n3"))

    assert isinstance(decision, Refused)
    message = decision.diagnosis.message()
    assert "3 node(s) set aside because evaluating them failed: LookupError: a value" in message
    assert message.isprintable()


@pytest.mark.parametrize("point", ["filter", "score"])
def test_a_pod_on_which_every_node_fails_fails_alone(
    cluster: Cluster, make_pod: MakePod, point: str
) -> None:
    """No node is to blame, and none is set aside for others."""
    with pytest.raises(LookupError):
        decide(cluster, make_pod("p"), Trap(point, "n1", "n2", "n3"))

    assert isinstance(decide(cluster, make_pod("q"), Trap("none")), Chosen)


def test_a_node_that_spoils_a_column_is_set_aside_until_it_changes(
    make_node: MakeNode, make_pod: MakePod
) -> None:
    """The column serves the others meanwhile."""
    cluster, pod = Cluster(), make_pod("p")
    cluster.set_node(make_node("n1", 4, kind="good"))
    cluster.set_node(make_node("n2", 4))

    first = decide(cluster, pod, Reader())
    assert isinstance(first, Chosen)
    assert first.node == "n1"
    assert [name for name, _ in cluster.aside] == ["n2"]
    cluster.set_node(make_node("n2", 4, kind="better"))
    assert not cluster.aside
    second = decide(cluster, pod, Reader())
    assert isinstance(second, Chosen)
    assert second.feasible == 2


def test_whoever_cannot_make_room_leaves_the_refusal_as_it_is(
    cluster: Cluster, make_pod: MakePod
) -> None:
    """And a gate that cannot tell stays closed."""
    clumsy, pod = Clumsy(), make_pod("p")

    decision = decide(cluster, pod, Trap("confirm", "n1", "n2", "n3"), clumsy)

    assert isinstance(decision, Refused)
    assert decision.nomination is None
    assert "Clumsy failed: ZeroDivisionError: no victims" in decision.diagnosis.message()
    gate = Runtime(profile_of("test", [clumsy])).pre_enqueue(pod)
    assert gate.message == "Clumsy failed: ZeroDivisionError: no gate"


# ------------------------------------------------------------------------------------------------
# A plugin that rates all nodes the same may say so with one number.


class Rates(VectorScore):
    """Rates nodes by given numbers."""

    name = "Rates"
    wakes_on = EventKind(0)

    def __init__(self, scores: IntArray) -> None:
        self._scores = scores

    def score_all(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows
    ) -> IntArray:
        """Return the numbers."""
        return self._scores


class RatesOthers(Rates):
    """The same, as another plugin."""

    name = "RatesOthers"


class RatesBackwards(Rates, NormalizesScores):
    """Rates nodes the better the less they are given."""

    name = "RatesBackwards"

    def normalize(self, state: CycleState, pod: PodInfo, scores: IntArray) -> IntArray:
        """Return what is missing to the largest."""
        backwards: IntArray = scores.max() + 10 - scores
        return backwards


def scores_of(value: IntArray) -> Scores:
    """Return the scores of three nodes that get *value* twice, and others."""
    cluster = Cluster()
    for index in range(3):
        cluster.set_node(Node(metadata=ObjectMeta(name=f"n{index}")))
    plugins = [Rates(value), RatesOthers(np.array([1, 2, 3])), RatesBackwards(value)]
    runtime = Runtime(profile_of("test", plugins, {"Rates": 2, "RatesBackwards": 3}))
    snapshot = cluster.snapshot()
    scores = runtime.score(CycleState(), PodInfo(Pod()), snapshot, snapshot.rows)
    assert isinstance(scores, Scores)
    return scores


@pytest.mark.parametrize("value", [-5, 0, 7, 300])
def test_one_number_for_all_nodes_counts_as_if_each_had_it(value: int) -> None:
    """Bounds, weights and normalisation included."""
    short, full = scores_of(uniform(value, 3)), scores_of(np.full(3, value))
    assert short.total.tolist() == full.total.tolist()
    for name, scores in full.by_plugin.items():
        assert short.by_plugin[name].tolist() == scores.tolist()


# ------------------------------------------------------------------------------------------------
# Nodes that plugins leave before any filter is asked.


def named(kind: type[Plugin], name: str, *args: object) -> Plugin:
    """Return a plugin of that *kind* and *name*."""
    made: Plugin = type(name, (kind,), {"name": name})(*args)
    return made


class Narrows(PreFilter, Filter):
    """Leaves some nodes, or says something else of the pod; its filter refuses n1."""

    def __init__(self, said: Status | set[str] | None = None) -> None:
        nodes = frozenset(said) if isinstance(said, set) else None
        self.result = PreFilterResult(said if isinstance(said, Status) else SUCCESS, nodes)

    def pre_filter(self, state: CycleState, pod: PodInfo, snapshot: Snapshot) -> PreFilterResult:
        """Say it."""
        return self.result

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Refuse n1."""
        return unschedulable("not n1") if node.name == "n1" else SUCCESS


@pytest.mark.parametrize(
    ("plugins", "feasible", "message", "by"),
    [
        ([], 2, "", set()),
        ([SKIP], 3, "", set()),
        ([{"n2"}], 1, "", set()),
        ([{"n1", "n2"}, {"n2", "n3"}], 1, "", set()),
        (
            [{"n1"}],
            0,
            "0/3 nodes are available: 1 not n1, 2 node(s) didn't satisfy plugin(s) [p0].",
            {"p0"},
        ),
        (
            [None, {"n1", "n2"}, {"n1", "gone"}],
            0,
            "0/3 nodes are available: 1 not n1, 2 node(s) didn't satisfy plugin(s) [p1 p2].",
            {"p0", "p1"},
        ),
        ([set[str]()], 0, "0/3 nodes are available: node(s) didn't satisfy plugin p0.", {"p0"}),
        (
            [{"n1"}, {"n2"}],
            0,
            "0/3 nodes are available: node(s) didn't satisfy plugin(s) [p0 p1] simultaneously.",
            {"p1"},
        ),
        (
            [unresolvable("no claim"), {"n2"}],
            0,
            "0/3 nodes are available: no claim.",
            {"p0"},
        ),
    ],
)
def test_nodes_are_those_that_all_pre_filters_leave(
    cluster: Cluster,
    make_pod: MakePod,
    plugins: list[Status | set[str] | None],
    feasible: int,
    message: str,
    by: set[str],
) -> None:
    """And whose filter is not skipped; the message names who left none."""
    made = [named(Narrows, f"p{number}", said) for number, said in enumerate(plugins or [None])]
    decision = decide(cluster, make_pod("p"), *made)
    if not message:
        assert isinstance(decision, Chosen)
        assert decision.feasible == feasible
        return
    assert isinstance(decision, Refused)
    assert decision.diagnosis.message() == message
    assert decision.diagnosis.plugins() == by


class Holds(Permit):
    """Lets a pod pass, wait, or not."""

    def __init__(self, status: Status, seconds: float = 0.0) -> None:
        self.answer = status, seconds

    def permit(self, state: CycleState, pod: PodInfo, node: str) -> tuple[Status, float]:
        """Say so."""
        return self.answer


WAIT = Status(Code.WAIT)
NO, BUG = unschedulable("no"), failure("bug")


@pytest.mark.parametrize(
    ("answers", "code", "by", "seconds"),
    [
        ([], Code.SUCCESS, "", 0),
        ([(SUCCESS, 9)], Code.SUCCESS, "", 0),
        ([(WAIT, 5), (SUCCESS, 9), (WAIT, 7)], Code.WAIT, "p2", 7),
        ([(WAIT, 7), (WAIT, 5)], Code.WAIT, "p1", 7),
        ([(WAIT, 5), (NO, 9), (BUG, 1)], NO.code, "p1", 0),
        ([(WAIT, 5), (BUG, 9), (NO, 1)], Code.ERROR, "p1", 0),
    ],
)
def test_a_pod_waits_as_long_as_any_plugin_lets_it_unless_one_refuses(
    make_pod: MakePod, answers: list[tuple[Status, float]], code: Code, by: str, seconds: float
) -> None:
    plugins = [named(Holds, f"p{number}", *answer) for number, answer in enumerate(answers)]
    runtime = Runtime(profile_of("test", plugins))
    status, patience = runtime.permit(CycleState(), make_pod("p"), "n1")
    assert (status.code, status.plugin, patience) == (code, by, seconds)


# ------------------------------------------------------------------------------------------------
# Plugins that look at all nodes at once, and have no other form.


class Columns(VectorFilter, VectorScore):
    """Takes the nodes whose kind it can read, of which later ones are better."""

    name = "Columns"

    def filter_all(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows
    ) -> Verdicts | None:
        """Refuse nothing, unless a node is of a bad kind; stumble over one without a kind."""
        kinds = [snapshot.at(int(row)).labels["kind"] for row in rows]
        if "bad" not in kinds:
            return None
        return Verdicts.where(np.array([kind != "bad" for kind in kinds]), unschedulable("bad"))

    def score_all(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows
    ) -> IntArray:
        """Rate them by name."""
        return np.array([int(snapshot.at(int(row)).name[1:]) for row in rows], dtype=np.int64)


@pytest.mark.parametrize(
    ("kinds", "chosen", "message"),
    [
        (["good", "good", "good"], "n3", ""),
        (["good", "good", "bad"], "n2", ""),
        (["good", None, "bad"], "n1", ""),
        ([None, None, "good"], "n3", ""),
        (["bad", "bad", "bad"], "", "0/3 nodes are available: 3 bad."),
    ],
)
def test_a_plugin_of_columns_alone_judges_and_rates_nodes_by_themselves_where_it_stumbles(
    make_node: MakeNode, make_pod: MakePod, kinds: list[str | None], chosen: str, message: str
) -> None:
    cluster = Cluster()
    for number, kind in enumerate(kinds, start=1):
        cluster.set_node(make_node(f"n{number}", 4, **({"kind": kind} if kind else {})))
    decision = decide(cluster, make_pod("p"), Columns())
    if chosen:
        assert isinstance(decision, Chosen)
        assert decision.node == chosen
    else:
        assert isinstance(decision, Refused)
        assert decision.diagnosis.message() == message


@pytest.mark.parametrize(
    ("asked", "left", "refused"),
    [
        ((0, 1, 2, 3), [0], {"Node: ValueError: odd": [1, 3], "NodeResourceTopology: no": [2]}),
        ((0, 1), [0], {"Node: ValueError: odd": [1]}),
        ((2, 3), [], {"Node: ValueError: odd": [3], "NodeResourceTopology: no": [2]}),
        ((0,), [0], {}),
        ((), [], {}),
    ],
)
def test_nodes_that_are_set_aside_are_left_out_by_reason(
    make_node: MakeNode, asked: tuple[int, ...], left: list[int], refused: dict[str, list[int]]
) -> None:
    """Those that are not asked about, or are gone, are not told of."""
    cluster = Cluster()
    for number in range(4):
        cluster.set_node(make_node(f"n{number}"))
    for name, part in (("n1", NodePart.OBJECT), ("n3", NodePart.OBJECT), ("x", NodePart.OBJECT)):
        cluster.set_aside(name, part, ValueError("odd"))
    cluster.aside["n2", NodePart.ZONES] = "no"
    rows, told = without_aside(cluster.snapshot(), np.array(asked, dtype=np.intp))
    assert rows.tolist() == left
    assert {status.message.partition("failed: ")[2]: rows.tolist() for rows, status in told} == (
        refused
    )
    assert all(status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE for _, status in told)
