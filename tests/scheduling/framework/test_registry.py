"""Plugins of a profile: where each takes part, and how much its scores count."""

from __future__ import annotations

import pytest
from tests.scheduling.conftest import MakeNode, MakePod

from numakube.errors import ConfigError
from numakube.scheduling.framework.cycle_state import CycleState
from numakube.scheduling.framework.plugins import Filter, PreEnqueue, Score
from numakube.scheduling.framework.registry import profile_of
from numakube.scheduling.framework.runtime import Runtime, Scores
from numakube.scheduling.framework.status import SUCCESS, Status
from numakube.scheduling.plugins.default_plugins import PrioritySort
from numakube.scheduling.snapshot.cluster import Cluster
from numakube.scheduling.snapshot.nodes import NodeInfo
from numakube.scheduling.snapshot.pods import PodInfo


class Rates(Score, Filter):
    """Rates a node by the number in its name."""

    name = "Rates"

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """Rate."""
        return int(node.name[1:])

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Accept."""
        return SUCCESS


@pytest.mark.parametrize(
    ("weights", "totals"), [(None, [1, 2]), ({"Rates": 3}, [3, 6]), ({"Other": 3}, [1, 2])]
)
def test_scores_count_by_the_weight_of_their_plugin(
    weights: dict[str, int] | None, totals: list[int], make_node: MakeNode, make_pod: MakePod
) -> None:
    """Once, if none is given."""
    cluster = Cluster()
    for name in ("n1", "n2"):
        cluster.set_node(make_node(name))
    runtime, snapshot = Runtime(profile_of("test", [Rates()], weights)), cluster.snapshot()
    scores = runtime.score(CycleState(), make_pod("p"), snapshot, snapshot.rows)
    assert isinstance(scores, Scores)
    assert scores.total.tolist() == totals


def test_a_plugin_takes_part_wherever_it_can() -> None:
    """And nowhere else."""
    rates = Rates()
    profile = profile_of("test", [rates, PrioritySort()])
    assert profile.at(Score) == profile.at(Filter) == (rates,)
    assert profile.at(PreEnqueue) == ()
    assert set(profile.plugins()) == {"Rates", PrioritySort.name}


def test_one_plugin_alone_sorts_the_queue() -> None:
    """Pods can be in one order only."""
    with pytest.raises(ConfigError, match="only one plugin can sort the queue"):
        profile_of("test", [PrioritySort(), PrioritySort()])
