"""Label selectors as text."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numakube.api.selector_text import parse_label_selector, selector_text
from numakube.api.selectors import Requirement, Selector
from numakube.errors import InvalidValue

KEYS = st.sampled_from(("app", "tier", "example.com/zone", "in"))
VALUES = st.sampled_from(("", "a", "b-1", "in", "notin"))
LABELS = st.dictionaries(KEYS, VALUES)


@st.composite
def requirements(draw: st.DrawFn) -> Requirement:
    """A requirement."""
    key = draw(KEYS)
    operator = draw(st.sampled_from(("=", "==", "!=", "In", "NotIn", "Exists", "DoesNotExist")))
    if operator in ("In", "NotIn"):
        values = draw(st.sets(VALUES, min_size=1))
        return Requirement(key, operator, frozenset(values))
    if operator in ("Exists", "DoesNotExist"):
        return Requirement(key, operator)
    return Requirement(key, operator, frozenset({draw(VALUES)}))


@given(st.lists(requirements(), max_size=4))
def test_a_selector_reads_back_what_it_writes(wanted: list[Requirement]) -> None:
    """Text and requirements tell the same."""
    selector = Selector(tuple(wanted))
    assert parse_label_selector(selector_text(selector)) == selector


@given(requirements(), LABELS)
def test_a_requirement_and_its_opposite_divide_all_objects(
    wanted: Requirement, labels: dict[str, str]
) -> None:
    """Every object fulfils exactly one of the two."""
    opposites = {"=": "!=", "==": "!=", "!=": "=", "In": "NotIn", "NotIn": "In"}
    opposites |= {"Exists": "DoesNotExist", "DoesNotExist": "Exists"}
    opposite = Requirement(wanted.key, opposites[wanted.operator], wanted.values)

    value = labels.get(wanted.key)
    assert wanted.accepts(value) != opposite.accepts(value)


@pytest.mark.parametrize("text", ["a in (", "a ! b", "a=b=c", "a,", "(a)", "a notin b"])
def test_a_malformed_selector_is_refused(text: str) -> None:
    """With kube-apiserver's words."""
    with pytest.raises(InvalidValue, match=r"found|unable"):
        parse_label_selector(text)


@given(st.text(alphabet="ab=!(), in<>", max_size=12))
def test_every_text_is_either_a_selector_or_refused(text: str) -> None:
    """Nothing makes the parser fail otherwise, or go on for ever."""
    with contextlib.suppress(InvalidValue):
        parse_label_selector(text)


@pytest.mark.parametrize(("value", "selected"), [("8", True), ("7", False), ("x", False)])
def test_numbers_are_compared_as_numbers(value: str, *, selected: bool) -> None:
    """What is not an integer is never more or less than one."""
    assert parse_label_selector("gen>7").matches({"gen": value}) is selected
    assert not parse_label_selector("gen>7").matches({})
    with pytest.raises(InvalidValue, match="the value must be an integer"):
        parse_label_selector("gen>9223372036854775808")
