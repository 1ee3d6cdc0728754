"""The text of the event: each reason once, with the nodes that gave it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numakube.scheduling.framework.status import (
    SUCCESS,
    Diagnosis,
    Status,
    Verdicts,
    unschedulable,
)


@pytest.mark.parametrize(
    ("causes", "text"),
    [
        ([], "1 Unaligned"),
        (["a"], "1 Unaligned cause [a], 1 short"),
        (["a", "a"], "1 short, 2 Unaligned cause [a]"),
        (["a", "b", "b", "c"], "1 short, 4 Unaligned cause [b] and 2 more"),
        (["b", "a"], "1 short, 2 Unaligned cause [a] and 1 more"),
    ],
)
def test_of_many_causes_of_a_reason_the_most_frequent_is_told(causes: list[str], text: str) -> None:
    """However many nodes there are, the text stays short."""
    statuses = [replace(unschedulable("Unaligned"), cause=cause) for cause in causes]
    statuses.append(unschedulable("short" if causes else "Unaligned"))
    excluded = [(np.array([row]), status) for row, status in enumerate(statuses)]
    total = len(excluded)
    diagnosis = Diagnosis(total=total, excluded=excluded)
    assert diagnosis.message() == f"0/{total} nodes are available: {text}."


# ------------------------------------------------------------------------------------------------
# What a filter says of many rows at once is what it says of each.

REFUSED, OTHER = unschedulable("a"), unschedulable("b")
_STATUSES = st.lists(st.sampled_from((SUCCESS, REFUSED, OTHER)), min_size=1, max_size=8)


def told(verdicts: Verdicts) -> list[Status]:
    """Return the outcome of every row, and check that all that is told of them agrees."""
    statuses = [verdicts.status(position) for position in range(len(verdicts.choice))]
    assert verdicts.ok.tolist() == [status.ok for status in statuses]
    met = verdicts.statuses_met()
    assert all(status in statuses for status in met)
    assert all(status in met for status in statuses)
    return statuses


@given(_STATUSES, st.data())
def test_verdicts_of_many_rows_are_those_of_each(first: list[Status], data: st.DataObject) -> None:
    """Also after others were asked about those that passed, or about some again."""
    verdicts = Verdicts.each(range(len(first)), first.__getitem__)
    assert told(verdicts) == first
    again = data.draw(st.lists(st.sampled_from(first), min_size=len(first), max_size=len(first)))
    second = Verdicts.each(range(len(again)), again.__getitem__)
    expected = [next_ if status.ok else status for status, next_ in zip(first, again, strict=True)]
    assert told(verdicts.then(second)) == expected
    assert verdicts.then(None) is verdicts
    asked = np.array(data.draw(st.lists(st.booleans(), min_size=len(first), max_size=len(first))))
    some = Verdicts.each(np.flatnonzero(asked), again.__getitem__)
    chosen = [b if c else a for a, b, c in zip(first, again, asked, strict=True)]
    assert told(verdicts.replaced(asked, some)) == chosen


def test_the_first_refusal_of_a_row_counts() -> None:
    masks = [(np.array([True, False, False]), REFUSED), (np.array([True, True, False]), OTHER)]
    assert told(Verdicts.first_of(3, masks)) == [REFUSED, OTHER, SUCCESS]
    assert told(Verdicts.where(masks[1][0], OTHER)) == [SUCCESS, SUCCESS, OTHER]
