"""What one row of each state gets, every row in that state gets."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from numakube.scheduling.arrays import IntArray, Rows
from numakube.scheduling.snapshot.equal_rows import EqualRows
from numakube.scheduling.snapshot.row_changes import RowChanges

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
