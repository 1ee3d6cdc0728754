"""Label and field selectors."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numakube.api.selector_text import Requirement, matches, selector_text
from numakube_lab.api.catalogue.builtin_resources import RESOURCES
from numakube_lab.api.catalogue.field_selectors import matches_fields, parse_field_selector
from numakube_lab.api.wire.label_selectors import parse_label_selector, selector_of
from numakube_lab.api.wire.refusals import Refusal

PODS = next(resource for resource in RESOURCES if resource.shelf == "pods")
KEYS = st.sampled_from(("app", "tier", "example.com/zone", "in"))
VALUES = st.sampled_from(("", "a", "b-1", "in", "notin"))
LABELS = st.dictionaries(KEYS, VALUES)


@st.composite
def requirements(draw: st.DrawFn) -> Requirement:
    """A requirement."""
    key = draw(KEYS)
    operator = draw(st.sampled_from(("=", "==", "!=", "in", "notin", "exists", "!")))
    if operator in ("in", "notin"):
        values = draw(st.sets(VALUES, min_size=1))
        return Requirement(key, operator, tuple(sorted(values)))
    if operator in ("exists", "!"):
        return Requirement(key, operator)
    return Requirement(key, operator, (draw(VALUES),))


@given(st.lists(requirements(), max_size=4))
def test_a_selector_reads_back_what_it_writes(wanted: list[Requirement]) -> None:
    """Text and requirements tell the same."""
    assert parse_label_selector(selector_text(tuple(wanted))) == tuple(wanted)


@given(requirements(), LABELS)
def test_a_requirement_and_its_opposite_divide_all_objects(
    wanted: Requirement, labels: dict[str, str]
) -> None:
    """Every object fulfils exactly one of the two."""
    opposites = {"=": "!=", "==": "!=", "!=": "=", "in": "notin", "notin": "in"}
    opposites |= {"exists": "!", "!": "exists"}
    opposite = Requirement(wanted.key, opposites[wanted.operator], wanted.values)

    assert wanted.matches(labels) != opposite.matches(labels)


def test_a_selector_object_without_requirements_selects_everything() -> None:
    """But no selector at all selects nothing."""
    empty = selector_of({})
    assert empty is not None
    assert matches(empty, {"a": "b"})
    assert selector_of(None) is None


@pytest.mark.parametrize("text", ["a in (", "a ! b", "a=b=c", "a,", "(a)", "a notin b"])
def test_a_malformed_selector_is_refused(text: str) -> None:
    """With a 400."""
    with pytest.raises(Refusal) as refused:
        parse_label_selector(text)
    assert refused.value.code == 400


@given(st.text(alphabet="ab=!(), in<>", max_size=12))
def test_every_text_is_either_a_selector_or_refused(text: str) -> None:
    """Nothing makes the parser fail otherwise, or go on for ever."""
    with contextlib.suppress(Refusal):
        parse_label_selector(text)


@pytest.mark.parametrize(
    ("text", "selected"),
    [
        ("", True),
        ("spec.nodeName=n", True),
        ("spec.nodeName!=n", False),
        ("spec.host=n", True),
        ("status.phase=", True),
        ("spec.hostNetwork=false", True),
        ("status.podIPs=10.0.0.1", True),
        (r"metadata.name=a\,b", False),
    ],
)
def test_pods_are_selected_by_their_fields(text: str, selected: bool) -> None:
    """Fields that an object does not have count as empty."""
    pod = {
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"nodeName": "n"},
        "status": {"podIPs": [{"ip": "10.0.0.1"}]},
    }
    assert matches_fields(parse_field_selector(text, PODS), pod) == selected


@pytest.mark.parametrize("text", ["spec.image=x", "metadata.name", r"metadata.name=\x", "a=b=c"])
def test_a_field_that_cannot_be_selected_by_is_refused(text: str) -> None:
    """With a 400."""
    with pytest.raises(Refusal) as refused:
        parse_field_selector(text, PODS)
    assert refused.value.code == 400
