"""What is remembered about amounts is what a look at all of them would give."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from tests.scheduling.snapshot.test_pod_indexes import events, rebuilt
from tests.strategies.clusters import node, pod

from numakube.scheduling.arrays import IntArray, Rows
from numakube.scheduling.framework.cycle_state import CycleState
from numakube.scheduling.plugins.balanced_allocation import NodeResourcesBalancedAllocation
from numakube.scheduling.plugins.node_resources_fit import NodeResourcesFit
from numakube.scheduling.plugins.plugin_arguments import (
    MOST_ALLOCATED,
    NodeResourcesFitArgs,
    ResourceSpec,
    ScoringStrategy,
)
from numakube.scheduling.snapshot.cluster import Cluster
from numakube.scheduling.snapshot.node_resources import ResourceTable
from numakube.scheduling.snapshot.pods import PodInfo

FULL_NODES_FIRST = NodeResourcesFit(
    NodeResourcesFitArgs(
        scoring_strategy=ScoringStrategy(
            type=MOST_ALLOCATED, resources=(ResourceSpec("cpu", 1), ResourceSpec("memory", 2))
        )
    )
)
FIT = NodeResourcesFit()
BALANCED = NodeResourcesBalancedAllocation()


def said_of(cluster: Cluster, pod: PodInfo) -> dict[str, object]:
    """What the plugins say of every node, by name."""
    snapshot, state = cluster.snapshot(), CycleState()
    rows = snapshot.rows
    FIT.pre_filter(state, pod, snapshot)
    verdicts = FIT.filter_all(state, pod, snapshot, rows)
    found: dict[str, object] = {
        snapshot.at(int(row)).name: None if verdicts is None else verdicts.status(position)
        for position, row in enumerate(rows)
    }
    for plugin in (FIT, FULL_NODES_FIRST, BALANCED):
        if plugin.pre_score(state, pod, snapshot, rows).skipped:
            continue
        for row, score in zip(rows, plugin.score_all(state, pod, snapshot, rows), strict=True):
            found[f"{plugin.name} {id(plugin)} {snapshot.at(int(row)).name}"] = int(score)
    return found


@pytest.mark.parametrize("seed", range(6))
def test_verdicts_and_scores_after_any_changes_are_those_of_a_new_cluster(seed: int) -> None:
    """Nodes come, grow, go and come back at rows of others; pods come and go."""
    rng, cluster = Random(seed), Cluster()
    asking = [PodInfo(pod(Random(number), "asks")) for number in range(4)]
    for round_ in range(8):
        events(cluster, rng)
        if round_ == 5:
            for number in range(100):  # more than there was room for
                cluster.set_node(node(rng, number))
        for one in asking:
            assert said_of(cluster, one) == said_of(rebuilt(cluster), one)


def test_only_rows_that_changed_are_asked_about_again() -> None:
    """That is what makes a burst of replicas cheap."""
    cluster, asked = Cluster(), list[list[int]]()
    for number in range(6):
        cluster.set_node(node(Random(number), number))
    table: ResourceTable = cluster.snapshot().resources

    def compute(rows: Rows | slice, size: int) -> IntArray:
        asked.append(np.arange(table.capacity)[rows].tolist())
        return np.zeros(size, dtype=np.int64)

    def compute_one(row: int) -> int:
        asked.append([row])
        return 0

    def ask() -> None:
        table.derived("key", compute, compute_one, np.int8)

    ask()
    ask()
    cluster.place(PodInfo(pod(Random(1), "p")), "n1")
    ask()
    row = cluster.snapshot().row_of["n1"]
    assert asked == [sorted(cluster.snapshot().row_of.values()), [row]]


def test_what_a_small_type_cannot_hold_is_the_nearest_that_it_can() -> None:
    """Scores beyond the bounds of the framework mean no more than the bounds do."""
    cluster = Cluster()
    for number in range(6):
        cluster.set_node(node(Random(number), number))
    table: ResourceTable = cluster.snapshot().resources

    def compute(_rows: Rows | slice, size: int) -> IntArray:
        return np.full(size, 1000, dtype=np.int64)

    assert table.derived("key", compute, lambda _row: -1000, np.int8)[:6].tolist() == [127] * 6
    cluster.place(PodInfo(pod(Random(1), "p")), "n1")
    told = table.derived("key", compute, lambda _row: -1000, np.int8)
    assert told[cluster.snapshot().row_of["n1"]] == -128
