"""``<PF>#<ranges>``."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numakube.node.pci.device_pools import parse_pattern

SPANS = st.lists(st.tuples(st.integers(0, 300), st.integers(0, 300)), min_size=1, max_size=6)


@given(spans=SPANS, index=st.integers(-1, 310))
def test_a_function_is_selected_if_one_of_the_ranges_has_its_number(
    spans: list[tuple[int, int]], index: int
) -> None:
    """Both ends count; a range that runs backwards has nothing in it."""
    items = [str(first) if first == last else f"{first}-{last}" for first, last in spans]
    pattern = parse_pattern(f"ens1f0#{','.join(items)}")

    selected = pattern.selects(None if index < 0 else index)

    assert selected == any(index in range(first, last + 1) for first, last in spans)
    assert not pattern.mistake


@given(key=st.text(st.characters(exclude_characters="#"), max_size=12), index=st.integers(0, 99))
def test_without_ranges_every_function_is_meant(key: str, index: int) -> None:
    """Also one without a number."""
    pattern = parse_pattern(key)

    assert pattern.selects(index)
    assert pattern.selects(None)
    assert pattern.key == key


def test_names_are_compared_in_any_case() -> None:
    """Addresses, too."""
    assert parse_pattern("0000:3B:00.0#1").is_for("0000:3b:00.0")
    assert not parse_pattern("ens1f0").is_for("ens1f01")


@pytest.mark.parametrize(
    ("text", "selected", "mistake"),
    [
        ("a#", set(), "'' is not a number or a range such as 0-3"),
        ("a#0-1,x,3", {0, 1}, "'x' is not a number or a range such as 0-3"),
        ("a#0,1-2-3", {0}, "'1-2-3' is not a range such as 0-3"),
        ("a#0, 1", {0}, "' 1' is not a number or a range such as 0-3"),
        ("a#0#1", set(), "more than one '#'"),
        ("a#2-", set(), "'2-' is not a number or a range such as 0-3"),
        ("a#+2", {2}, ""),
    ],
)
def test_what_comes_before_a_mistake_counts(text: str, selected: set[int], mistake: str) -> None:
    """As upstream reads it, from left to right."""
    pattern = parse_pattern(text)

    assert {number for number in range(10) if pattern.selects(number)} == selected
    assert pattern.mistake == mistake
