"""Sets of fields: their algebra, and the form in which the API writes them."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kube_lab_server.patching.field_sets import (
    contains,
    difference,
    from_wire,
    intersection,
    key_element,
    of_paths,
    paths,
    recursive_difference,
    render,
    to_wire,
    union,
    value_element,
)

_STEPS = st.sampled_from(["f:a", "f:b", 'k:{"name":"x"}', 'v:"y"'])
_PATHS = st.lists(_STEPS, min_size=1, max_size=3).map(tuple)
_PATH_SETS = st.frozensets(_PATHS, max_size=6)
Paths = frozenset[tuple[str, ...]]


def _set(members: Paths) -> dict[str, Any]:
    return of_paths(*members)


def _members(fields: dict[str, Any]) -> Paths:
    return frozenset(paths(fields))


@given(_PATH_SETS)
def test_a_set_holds_the_paths_it_was_made_of(members: Paths) -> None:
    """And no others, also after it was written and read."""
    fields = _set(members)
    assert _members(fields) == members
    assert from_wire(to_wire(fields)) == fields
    assert all(contains(fields, path) for path in members)


@given(_PATH_SETS, _PATH_SETS)
def test_operations_are_those_of_sets(one: Paths, other: Paths) -> None:
    """On the places, whatever is above or below them."""
    left, right = _set(one), _set(other)
    assert _members(union(left, right)) == one | other
    assert _members(intersection(left, right)) == one & other
    assert _members(difference(left, right)) == one - other


@given(_PATH_SETS, _PATH_SETS)
def test_what_is_left_of_a_set_has_no_empty_branches(one: Paths, other: Paths) -> None:
    """So that an empty set is false."""
    for left in (difference, intersection, recursive_difference):
        fields = left(_set(one), _set(other))
        assert bool(fields) == bool(_members(fields))


@given(_PATH_SETS, _PATH_SETS)
def test_a_recursive_difference_takes_everything_below(one: Paths, other: Paths) -> None:
    """Of a place that it takes."""
    doomed = {path for path in one for top in other if path[: len(top)] == top}
    assert _members(recursive_difference(_set(one), _set(other))) == one - doomed


def test_a_place_with_others_below_is_marked() -> None:
    """With a dot, in the form of the API."""
    fields = of_paths(("f:a",), ("f:a", "f:b"), ("f:c",))
    assert to_wire(fields) == {"f:a": {".": {}, "f:b": {}}, "f:c": {}}


def test_paths_are_shown_as_the_server_shows_them() -> None:
    """With keys in order and strings in quotes."""
    step = key_element({"protocol": "TCP", "port": 80})
    assert step == 'k:{"port":80,"protocol":"TCP"}'
    path = ("f:spec", "f:ports", step, "f:name")
    assert render(path) == '.spec.ports[port=80,protocol="TCP"].name'
    assert render(("f:tags", value_element("a"))) == '.tags[="a"]'


def test_places_of_one_level_come_before_those_below() -> None:
    """As the server lists conflicts."""
    fields = of_paths(("f:b", "f:x"), ("f:c",), ("f:a", "f:y"), ("f:a",))
    assert [render(path) for path in paths(fields)] == [".a", ".c", ".a.y", ".b.x"]
