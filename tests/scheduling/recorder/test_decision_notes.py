"""What is kept of a decision: reasons with their values, and the best candidates."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest
from tests.scheduling.conftest import MakeNode, MakePod

from numakube.scheduling.cycle import Chosen, Failed, Refused
from numakube.scheduling.framework.cycle_state import CycleState
from numakube.scheduling.framework.plugins import Nomination
from numakube.scheduling.framework.runtime import Scores
from numakube.scheduling.framework.status import (
    SUCCESS,
    Diagnosis,
    FilterRun,
    Status,
    Verdicts,
    failure,
    unresolvable,
    unschedulable,
)
from numakube.scheduling.numa.alignment_refusal import AlignmentRefusal, Kind
from numakube.scheduling.recorder.decision_notes import CANDIDATES, GROUPS, best_of, tried
from numakube.scheduling.recorder.flight_documents import WallTime, note_document
from numakube.scheduling.recorder.flight_recorder import TriedNote
from numakube.scheduling.snapshot.cluster import Cluster

WALL = WallTime(datetime(2026, 1, 1, tzinfo=UTC), 10.0)


def cluster_of(make_node: MakeNode, count: int) -> Cluster:
    """Return a cluster of equal nodes."""
    cluster = Cluster()
    for number in range(count):
        cluster.set_node(make_node(f"n{number}"))
    return cluster


def run(
    plugin: str, refused: dict[int, Status], size: int, *, confirmed: bool = False
) -> FilterRun:
    """Return what one filter said of *size* rows."""
    statuses = (SUCCESS, *refused.values())
    choice = np.zeros(size, dtype=np.int32)
    for number, row in enumerate(refused, start=1):
        choice[row] = number
    return FilterRun(plugin, np.arange(size), Verdicts(choice, statuses), confirmed)


def of(decision: Chosen | Refused | Failed, cluster: Cluster) -> TriedNote:
    """Condense a decision."""
    return tried(decision, at=9.0, seconds=0.001, cluster=cluster)


def test_nodes_are_grouped_by_reason_with_the_closest_refusal(make_node: MakeNode) -> None:
    """Equal texts add up; the values are those of the node that lacked least."""
    cluster = cluster_of(make_node, 4)
    near = AlignmentRefusal(kind=Kind.ALIGN, resource="cpu", wanted=8000, free=6000, zones=(1,))
    far = AlignmentRefusal(kind=Kind.ALIGN, resource="cpu", wanted=8000, free=1000, zones=(0,))
    text = "kubelet would refuse container (TopologyAffinityError)"
    refusals = {0: unschedulable(text, detail=far), 2: unschedulable(text, detail=near)}
    diagnosis = Diagnosis(total=4, runs=[run("Numa", refusals, 3, confirmed=True)])
    diagnosis.excluded.append((np.array([3]), unresolvable("node(s) elsewhere").by("Affinity")))
    note = of(Refused(diagnosis), cluster)
    assert (note.evaluated, note.feasible, note.node) == (4, 0, "")
    numa, excluded = note.groups
    assert (numa.nodes, numa.plugin, numa.examples) == (2, "Numa", ("n0", "n2"))
    assert numa.refusal is near
    assert numa.confirmed
    assert (excluded.nodes, excluded.hopeless, excluded.examples) == (1, True, ("n3",))
    shown = note_document(note, WALL)
    assert (shown["event"], shown["result"]) == ("tried", "refused")
    assert shown["time"] == "2025-12-31T23:59:59.000000Z"
    closest = shown["refusals"][0]["closest"]
    assert (closest["resource"], closest["wanted"], closest["free"]) == ("cpu", "8", "6")


def test_pods_that_are_alike_share_what_was_made_of_their_refusal(make_node: MakeNode) -> None:
    """A remembered refusal costs nothing."""
    cluster = cluster_of(make_node, 2)
    diagnosis = Diagnosis(total=2, runs=[run("Fit", {0: unschedulable("Insufficient cpu")}, 2)])
    first = of(Refused(diagnosis), cluster)
    second = of(Refused(diagnosis, remembered=True), cluster)
    assert second.groups is first.groups
    assert second.remembered


def test_a_refusal_before_any_node_is_looked_at_is_kept(make_node: MakeNode) -> None:
    """It speaks for all nodes."""
    status = unresolvable("claim not found").by("VolumeBinding")
    note = of(Refused(Diagnosis(total=2, pre_filter=status)), cluster_of(make_node, 2))
    (group,) = note.groups
    assert (group.nodes, group.reasons) == (2, ("claim not found",))


def test_many_different_reasons_are_counted_rather_than_kept(make_node: MakeNode) -> None:
    """A few dozen are enough for anybody."""
    size = GROUPS + 8
    refusals = {row: unschedulable(f"reason {row}") for row in range(size)}
    diagnosis = Diagnosis(total=size, runs=[run("Odd", refusals, size)])
    note = of(Refused(diagnosis), cluster_of(make_node, size))
    assert (len(note.groups), note.others) == (GROUPS, 8)


def test_the_best_candidates_are_kept_with_the_scores_of_each_plugin(make_node: MakeNode) -> None:
    """The chosen one in any case, though many are as good."""
    cluster = cluster_of(make_node, 40)
    total = np.full(40, 70, dtype=np.int64)
    total[3] = 10
    scores = Scores(np.arange(40), total, {"A": total - 10, "B": np.full(40, 10)})
    ties = np.flatnonzero(total == 70)
    for chosen, known in (("n0", ties), ("n17", ties), ("n39", ties), ("n20", None)):
        decision = Chosen(chosen, CycleState(), 41, 40, scores, Diagnosis(total=41), known)
        note = of(decision, cluster)
        shown = note_document(note, WALL)["candidates"]
        assert len({entry["node"] for entry in shown} | {chosen}) == len(shown) == CANDIDATES
        assert all(entry["scores"] == {"A": 60, "B": 10} for entry in shown)


def test_few_candidates_are_kept_in_order(make_node: MakeNode) -> None:
    """Including those that nobody would take."""
    scores = Scores(np.array([0, 1, 2]), np.array([5, 9, 7]), {"A": np.array([5, 9, 7])})
    note = of(Chosen("n1", CycleState(), 3, 3, scores), cluster_of(make_node, 3))
    shown = note_document(note, WALL)
    assert [candidate["node"] for candidate in shown["candidates"]] == ["n1", "n2", "n0"]
    assert shown["candidates"][0]["scores"] == {"A": 9}
    assert shown["result"] == "chosen"


def test_failures_and_nominations_are_kept(make_node: MakeNode, make_pod: MakePod) -> None:
    """Who failed; whose room is taken."""
    cluster = cluster_of(make_node, 1)
    note = of(Failed(failure("out of order").by("Spread")), cluster)
    assert (note.message, note_document(note, WALL)["result"]) == ("Spread: out of order", "failed")
    nomination = Nomination("n0", (make_pod("victim"),))
    note = of(Refused(Diagnosis(total=1), nomination), cluster)
    assert note.nominated is not None
    assert note.nominated.victims == ("default/victim",)


@pytest.mark.parametrize("ties", [None, 1, 2, CANDIDATES - 1, CANDIDATES, CANDIDATES + 2])
def test_the_best_candidates_are_kept_however_many_are_equally_good(
    make_node: MakeNode, ties: int | None
) -> None:
    """Always as many as there is place for, the chosen one among them."""
    size = CANDIDATES + 4
    cluster, best = cluster_of(make_node, size), ties or 1
    total = np.array([100] * best + [90 - row for row in range(size - best)])
    scores = Scores(np.arange(size), total, {"Numa": total})
    chosen = Chosen(
        f"n{best - 1}",
        CycleState(),
        evaluated=size,
        feasible=size,
        scores=scores,
        ties=None if ties is None else np.arange(ties),
    )
    found = best_of(chosen, cluster)
    assert found is not None
    assert len(found.nodes) == CANDIDATES
    assert chosen.node in found.nodes
    assert sorted(found.totals, reverse=True) == sorted(total, reverse=True)[:CANDIDATES]
