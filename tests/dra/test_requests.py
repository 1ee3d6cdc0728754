"""Constraints of claims: devices that must agree in an attribute, or must all differ."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numakube.api.codec import convert
from numakube.api.resource_claims import DeviceConstraint
from numakube.api.resource_slices import DeviceAttribute
from numakube.dra.requests import ClaimConstraint, constraint_of

Tree = dict[str, Any]
SCALARS = [{"int": 1}, {"int": 2}, {"string": "1"}, {"version": "1.0.0"}, {"bool": True}]
LISTS = [{"ints": [1, 2]}, {"ints": [2, 3]}, {"ints": [3]}, {"strings": ["1"]}, {"strings": []}, {}]
_STEPS = st.lists(st.one_of(st.none(), st.sampled_from([*SCALARS, *LISTS])), max_size=9)


class Request(NamedTuple):
    """A request, and the one that it is an alternative of."""

    full_name: str = "r"
    parent_name: str = "r"


def constraint(kind: str, *requests: str, lists: bool = False) -> ClaimConstraint:
    """Return a constraint on an attribute; candidates are their attribute here."""
    wire = convert(DeviceConstraint, {kind: "d/x", "requests": requests})
    lookup = cast("Any", lambda wanted, candidate, name: candidate)
    found = constraint_of(wire, lookup, lists=lists, distinct=True)
    assert found is not None
    return found


def takes(one: ClaimConstraint, attribute: DeviceAttribute | None, wanted: Any = None) -> bool:
    """Tell whether a device with that attribute may be added, and add it."""
    return one.add(wanted or cast("Any", Request()), cast("Any", attribute))


def elements(tree: Tree) -> set[tuple[str, str]]:
    """Return what a value has, with its type."""
    return {
        (kind.removesuffix("s"), str(value))
        for kind, values in tree.items()
        for value in (values if isinstance(values, list) else [values])
    }


def agree(taken: list[Tree], new: Tree) -> bool:
    """Lists have an element in common."""
    return bool(elements(new)) and bool(set.intersection(*map(elements, [*taken, new])))


def differ(taken: list[Tree], new: Tree) -> bool:
    """No two lists have an element in common."""
    return bool(elements(new)) and not any(elements(one) & elements(new) for one in taken)


def same(taken: list[Tree], new: Tree) -> bool:
    """Single values are equal; of the first alone it is enough that it is there."""
    return not taken or (new in SCALARS and new == taken[0])


def unlike(taken: list[Tree], new: Tree) -> bool:
    """Single values are unequal; of the first alone it is enough that it is there."""
    return not taken or (new in SCALARS and new not in taken)


@pytest.mark.parametrize(
    ("kind", "lists", "admits"),
    [
        ("matchAttribute", True, agree),
        ("matchAttribute", False, same),
        ("distinctAttribute", True, differ),
        ("distinctAttribute", False, unlike),
    ],
)
@given(steps=_STEPS)
def test_a_device_joins_those_that_it_agrees_with_or_differs_from(
    kind: str, lists: bool, admits: Any, steps: list[Tree | None]
) -> None:
    """Also after some were taken back, which is a step of none here."""
    one, taken = constraint(kind, lists=lists), list[Tree]()
    for step in steps:
        if step is not None:
            expected = admits(taken, step)
            assert takes(one, convert(DeviceAttribute, step)) is expected
            taken += [step] if expected else []
        elif taken:
            one.remove(cast("Any", Request()))
            taken.pop()


@pytest.mark.parametrize("kind", ["matchAttribute", "distinctAttribute"])
def test_a_device_without_the_attribute_fulfils_no_constraint(kind: str) -> None:
    assert not takes(constraint(kind), None)


@pytest.mark.parametrize(
    ("named", "counts"), [((), True), (("r",), True), (("r/a",), True), (("other",), False)]
)
def test_a_constraint_is_about_the_requests_that_it_names(
    named: tuple[str, ...], counts: bool
) -> None:
    """By the name of the request, or of one of its alternatives; about all if it names none."""
    one, wanted = constraint("matchAttribute", *named), Request("r/a", "r")
    first, second = (convert(DeviceAttribute, {"int": value}) for value in (1, 2))
    assert takes(one, first, wanted)
    assert takes(one, second, wanted) is not counts
    one.remove(cast("Any", wanted))
    assert takes(one, second, wanted)


def test_a_constraint_of_a_kind_that_is_off_or_unknown_is_none() -> None:
    lookup = cast("Any", None)
    distinct = convert(DeviceConstraint, {"distinctAttribute": "d/x"})
    assert constraint_of(distinct, lookup, lists=False, distinct=False) is None
    assert constraint_of(convert(DeviceConstraint, {}), lookup, lists=False, distinct=True) is None
