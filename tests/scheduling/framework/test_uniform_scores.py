"""A plugin that rates all nodes the same may say so with one number."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from numakube.api.meta import ObjectMeta
from numakube.api.nodes import Node
from numakube.api.pod import Pod
from numakube.scheduling.arrays import IntArray, Rows, uniform
from numakube.scheduling.framework.cluster_events import EventKind
from numakube.scheduling.framework.cycle_state import CycleState
from numakube.scheduling.framework.plugins import NormalizesScores, VectorScore
from numakube.scheduling.framework.profile import profile_of
from numakube.scheduling.framework.runtime import Runtime, Scores
from numakube.scheduling.snapshot.cluster import Cluster
from numakube.scheduling.snapshot.pods import PodInfo

if TYPE_CHECKING:
    from numakube.scheduling.snapshot.cluster import Snapshot


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
