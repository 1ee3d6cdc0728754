"""Functions of lists at their ends: nothing, one element, and just too much."""

from __future__ import annotations

from typing import Any

import pytest

from numakube.cel import compile_expression
from numakube.cel.cel_errors import EvaluationError
from numakube.cel.function_table import MAX_RANGE, flatten, number_range, sort_by, unwrap
from numakube.cel.values import NONE, Optional


def value(text: str) -> Any:
    """Return the value of an expression."""
    return compile_expression(text, {}).measure({})[0]


def test_a_range_may_be_empty_and_as_long_as_is_allowed() -> None:
    """Not one more, and not less than nothing."""
    assert number_range(0) == []
    assert number_range(3) == [0, 1, 2]
    assert len(number_range(MAX_RANGE)) == MAX_RANGE
    with pytest.raises(EvaluationError, match="exceeds maximum"):
        number_range(MAX_RANGE + 1)
    with pytest.raises(EvaluationError, match="must be non-negative, got -1"):
        number_range(-1)


@pytest.mark.parametrize(
    ("depth", "flat"),
    [(0, [1, [2, [3]]]), (1, [1, 2, [3]]), (2, [1, 2, 3]), (3, [1, 2, 3])],
)
def test_lists_are_flattened_down_to_a_depth(depth: int, flat: list[Any]) -> None:
    """None at all at the depth of nothing."""
    assert flatten([1, [2, [3]]], depth) == flat
    with pytest.raises(EvaluationError, match="level must be non-negative"):
        flatten([], -1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[1, 2, 3].slice(0, 3)", [1, 2, 3]),
        ("[1, 2, 3].slice(1, 1)", []),
        ("[1, 2, 3].slice(3, 3)", []),
        ("[1, 2, 3].slice(1, 2)", [2]),
        ("[3, 1, 2].sort()", [1, 2, 3]),
        ("[].sort()", []),
        ("[1, 1, 2].distinct()", [1, 2]),
        ("[2, 1].reverse()", [1, 2]),
        ("[1, 2].isSorted()", True),
        ("[2, 1].isSorted()", False),
        ("[1, 1].isSorted()", True),
        ("[1, 2, 3].sum()", 6),
        ("[1, 3, 2].max()", 3),
        ("[2, 1, 3].min()", 1),
        ("[1, 2, 1].indexOf(1)", 0),
        ("[1, 2, 1].lastIndexOf(1)", 2),
        ("[1, 2].indexOf(3)", -1),
        ("[1, 2].lastIndexOf(3)", -1),
        ("sets.contains([1, 2], [])", True),
        ("sets.contains([1, 2], [2, 1, 1])", True),
        ("sets.contains([1], [1, 2])", False),
        ("sets.equivalent([1, 2], [2, 1, 1])", True),
        ("sets.equivalent([1, 2], [1])", False),
        ("sets.equivalent([1], [1, 2])", False),
        ("sets.intersects([1, 2], [2, 3])", True),
        ("sets.intersects([1, 2], [3])", False),
        ("sets.intersects([], [])", False),
    ],
)
def test_a_function_of_lists_has_its_value(text: str, expected: Any) -> None:
    """Also where there is nothing to do."""
    assert value(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "[1, 2].slice(-1, 1)",
        "[1, 2].slice(0, 3)",
        "[1, 2].slice(2, 1)",
        "[].min()",
        "'aba'.lastIndexOf('a', -1)",
        "'aba'.indexOf('a', -1)",
    ],
)
def test_what_is_not_there_is_an_error(text: str) -> None:
    """Not an empty list."""
    with pytest.raises(EvaluationError):
        value(text)


def test_elements_are_sorted_by_keys_of_one_type() -> None:
    """Equal keys keep the order of their elements."""
    assert sort_by(["b", "a", "c"], [2, 1, 2]) == ["a", "b", "c"]
    with pytest.raises(EvaluationError, match="must have the same type"):
        sort_by(["a", "b"], [1, "x"])


def test_values_of_optionals_are_those_that_are_there() -> None:
    """Everything has to be one."""
    assert unwrap([Optional(True, 1), NONE, Optional(True, 0)]) == [1, 0]
    with pytest.raises(EvaluationError, match="value 1 is not optional"):
        unwrap([NONE, 1])
