"""Rows that have changed are found, however long ago somebody looked."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from numakube.scheduling.snapshot.node_columns import RowChanges


@given(st.lists(st.integers(0, 7), max_size=80), st.data())
def test_the_rows_written_since_any_time_are_told(writes: list[int], data: st.DataObject) -> None:
    """Also after the table has grown in between."""
    changes, grown = RowChanges(8), data.draw(st.integers(0, 80), "writes before it grows")
    counts = [changes.count]
    for number, row in enumerate(writes):
        if number == grown:
            changes.grow(16)
        changes.note(row)
        counts.append(changes.count)
    seen = data.draw(st.integers(0, len(writes)), "writes that were seen")
    assert changes.since(counts[seen]).tolist() == sorted(set(writes[seen:]))
    assert len(changes.at) == (16 if grown < len(writes) else 8)
