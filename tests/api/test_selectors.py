"""Label selectors match what Kubernetes matches with them, and equal ones are equal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numakube.api.codec import convert
from numakube.api.meta import LabelSelector
from numakube.api.selectors import (
    EVERYTHING,
    NOTHING,
    Selector,
    as_int64,
    exactly,
    requirement,
    selector_of,
)
from numakube.errors import InvalidValue


def selector(**fields: object) -> Selector:
    """What a selector of these fields amounts to."""
    return selector_of(convert(LabelSelector, fields))


def test_no_selector_matches_nothing_and_an_empty_one_everything() -> None:
    """The difference that is easily missed."""
    assert selector_of(None) == NOTHING
    assert selector() == EVERYTHING
    assert not NOTHING.matches({})
    assert EVERYTHING.matches({"any": "thing"})
    assert not NOTHING.is_empty


@pytest.mark.parametrize(
    ("operator", "values", "matched"),
    [
        ("In", ("a", "b"), {"a", "b"}),
        ("NotIn", ("a",), {"b", "", None}),
        ("Exists", (), {"a", "b", ""}),
        ("DoesNotExist", (), {None}),
    ],
)
def test_operators(operator: str, values: tuple[str, ...], matched: set[str | None]) -> None:
    """A label that is missing is not the same as an empty one."""
    one = selector(matchExpressions=[{"key": "k", "operator": operator, "values": values}])
    found = {v for v in ("a", "b", "", None) if one.matches({} if v is None else {"k": v})}
    assert found == matched


@pytest.mark.parametrize(
    ("operator", "value", "accepted"),
    [("Gt", "2", {"3", "+10"}), ("Lt", "3", {"2", "-7", "00"})],
)
def test_numbers_are_compared_as_numbers(operator: str, value: str, accepted: set[str]) -> None:
    """What is no number is neither larger nor smaller."""
    one = requirement("k", operator, (value,))
    values = ["3", "+10", "2", "-7", "00", "x", "", "1.5", "9223372036854775808", "1_0", None]
    assert {v for v in values if one.accepts(v)} == accepted


def test_equal_selectors_are_equal_however_they_are_written() -> None:
    """They share what is counted for them."""
    expression = {"key": "a", "operator": "In", "values": ["1"]}
    assert selector(matchLabels={"a": "1"}) == selector(matchExpressions=[expression])
    both = exactly({"a": "1", "b": "2"})
    assert exactly({"b": "2"}).also(exactly({"a": "1"})) == both
    assert hash(both) == hash(exactly({"b": "2", "a": "1"}))
    assert NOTHING.also(both) == NOTHING
    assert both.also(NOTHING) == both


@pytest.mark.parametrize(
    "expression",
    [
        {"key": "a", "operator": "In"},
        {"key": "a", "operator": "Exists", "values": ["x"]},
        {"key": "a", "operator": "Gt", "values": ["1"]},
        {"key": "not a key", "operator": "Exists"},
        {"key": "a", "operator": "In", "values": ["-no value"]},
    ],
)
def test_what_kubernetes_refuses_is_refused(expression: dict[str, object]) -> None:
    """Such an object can still come from an old server."""
    with pytest.raises(InvalidValue):
        selector(matchExpressions=[expression])


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_every_int64_is_read(number: int) -> None:
    """And nothing beyond."""
    assert as_int64(str(number)) == number
    assert as_int64(str(number) + "000000000000000000000") in (None, 0)
