"""What is remembered about amounts is what a look at all of them would give."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.scheduling.snapshot.test_pod_indexes import events, rebuilt
from tests.strategies.clusters import node, pod

from numakube.scheduling.arrays import IntArray, Rows
from numakube.scheduling.framework.cycle_state import CycleState
from numakube.scheduling.plugins.node_resources_fit import NodeResourcesFit
from numakube.scheduling.plugins.node_scores import NodeResourcesBalancedAllocation
from numakube.scheduling.plugins.plugin_arguments import (
    MOST_ALLOCATED,
    NodeResourcesFitArgs,
    ScoringStrategy,
    WeightedResource,
)
from numakube.scheduling.snapshot.cluster import Cluster
from numakube.scheduling.snapshot.node_columns import RowChanges
from numakube.scheduling.snapshot.node_resources import EqualRows, ResourceTable
from numakube.scheduling.snapshot.pods import PodInfo

FULL_NODES_FIRST = NodeResourcesFit(
    NodeResourcesFitArgs(
        scoring_strategy=ScoringStrategy(
            type=MOST_ALLOCATED,
            resources=(WeightedResource("cpu", 1), WeightedResource("memory", 2)),
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


def test_a_row_without_a_node_has_nothing() -> None:
    """A node that comes later may have the row, with fewer kinds of resources."""
    cluster = Cluster()
    cluster.set_node(node(Random(0), 0))
    cluster.place(PodInfo(pod(Random(1), "p")), "n0")
    snapshot = cluster.snapshot()
    row, table = snapshot.row_of["n0"], snapshot.resources
    assert table.allowed_pods[row]
    table.clear(row)
    counts = (table.pod_count, table.allowed_pods, table.nonzero_cpu_milli)
    assert [int(count[row]) for count in (*counts, table.nonzero_memory_bytes)] == [0, 0, 0, 0]
    assert not table.allocatable("cpu")[row]
    assert not table.requested("cpu")[row]


# ------------------------------------------------------------------------------------------------
# What one row of each state gets, every row in that state gets.

ROOM = 64
NOT_JUDGED = -1


class Table:
    """Two numbers at each row, and what is judged of them."""

    def __init__(self, room: int = ROOM) -> None:
        self.numbers = np.zeros((2, room), dtype=np.int64)
        self.changes = RowChanges(room)
        self.equal = EqualRows()
        self.looked_at: list[int] = []

    def write(self, row: int, *numbers: int) -> None:
        """Change a row."""
        self.numbers[:, row] = numbers
        self.changes.note(row)

    def grow(self, room: int) -> None:
        """Make room for more rows."""
        more = room - self.numbers.shape[1]
        self.numbers = np.pad(self.numbers, ((0, 0), (0, more)))
        self.changes.grow(room)

    def at(self, rows: Rows) -> IntArray:
        """Return the numbers of some rows, and note that somebody looked."""
        self.looked_at += rows.tolist()
        return self.numbers[:, rows]

    def judged(self, rows: Rows) -> tuple[int, list[int]] | None:
        """How many rows were judged by hand, and what all of them got."""
        found = self.equal.find(self.changes, rows, self.at)
        if found is None:
            return None
        values = np.full(self.numbers.shape[1], NOT_JUDGED)
        values[found.judged] = self.sums(found.judged)
        found.spread(values)
        return len(found.judged), values[rows].tolist()

    def sums(self, rows: Rows) -> IntArray:
        """Return what some rows get when each is judged alone."""
        first, second = self.numbers[:, rows]
        return np.asarray(10 * first + second)


def all_of(table: Table) -> Rows:
    """Return every row."""
    return np.arange(table.numbers.shape[1])


writes = st.lists(st.tuples(st.integers(0, ROOM - 1), st.integers(0, 3)), max_size=40)


@given(st.lists(st.tuples(writes, st.booleans()), min_size=1, max_size=6))
def test_every_row_gets_what_it_would_get_alone(
    rounds: list[tuple[list[tuple[int, int]], bool]],
) -> None:
    """Rows change, are left out, come back, and the table grows."""
    table, rows = Table(), all_of(Table())
    for number, (changes, other_rows) in enumerate(rounds):
        for row, amount in changes:
            table.write(row, amount, row % 2)
        if other_rows:
            rows = all_of(table)[number % 2 :: 2] if number % 3 else all_of(table)
        if number == 3:
            table.grow(2 * ROOM)
        judged = table.judged(rows)
        states = len({tuple(table.numbers[:, row]) for row in rows.tolist()})
        assert judged == (states, table.sums(rows).tolist())


def test_a_row_is_looked_at_again_only_after_a_change() -> None:
    """What is known of the others holds."""
    table = Table()
    rows = all_of(table)
    assert table.judged(rows) == (1, [0] * ROOM)
    table.looked_at.clear()
    assert table.judged(rows) == (1, [0] * ROOM)
    assert table.looked_at == []
    table.write(5, 1, 0)
    assert table.judged(rows) == (2, table.sums(rows).tolist())
    assert table.looked_at == [5]


def test_rows_that_are_all_different_are_not_compared_for_a_while() -> None:
    """It would be in vain for nearly every kind of pods."""
    table = Table()
    rows = all_of(table)
    for row in rows.tolist():
        table.write(row, row, 0)
    assert table.judged(rows) is None
    for row in rows.tolist():
        table.write(row, 0, 0)
    table.looked_at.clear()
    answers = [table.judged(rows) for _ in range(100)]
    assert answers[0] is None
    assert answers[-1] == (1, [0] * ROOM)
    assert sorted(table.looked_at) == rows.tolist()


def test_of_thousands_of_changes_some_are_left_for_later() -> None:
    """What one pod waits for is bounded; the rows that are left are judged one by one."""
    table = Table(1000)
    rows = all_of(table)
    table.judged(rows)
    for row in range(400):
        table.write(row, row % 3, 1)
    table.looked_at.clear()
    assert table.judged(rows) == (1 + 3 + 272, table.sums(rows).tolist())
    assert table.looked_at == list(range(128))
    assert table.judged(rows) == (1 + 3 + 144, table.sums(rows).tolist())


def test_when_every_row_has_changed_it_takes_some_kinds_to_know_them_again() -> None:
    """Until then rows are judged one by one, and nobody waits for long."""
    table = Table(1000)
    rows = all_of(table)
    table.judged(rows)
    for row in rows.tolist():
        table.write(row, row % 3, 1)
    table.looked_at.clear()
    answers = [table.judged(rows) for _ in range(8)]
    assert answers[:3] == [None] * 3
    assert answers[-1] == (3, table.sums(rows).tolist())
    assert table.looked_at == rows.tolist()
