"""How much work a call is, told from its operands before it is done."""

from __future__ import annotations

from typing import Any

import pytest

from numakube.cel.call_work import matching, weight, work_of
from numakube.cel.regular_expressions import compiled_size, repeats_of
from numakube.cel.value_types import CelType
from numakube.cel.values import NONE, Growing, Optional

PLENTY = 10**9
DYN = CelType("dyn")
LINE = "x" * 640
"""Text that is made as fast as ten elements are visited."""
PATTERN = "(ab|c){2,7}"


@pytest.mark.parametrize(
    ("value", "elements"),
    [
        (1, 1),
        (LINE, 11),
        (LINE.encode(), 11),
        ([], 1),
        ([1, 2, 3], 7),
        ([[1], [2, LINE]], 21),
        ({"a": 1, "b": 2}, 9),
        ({"a": [1, 2]}, 9),
        (Optional(present=True, value=[1, 2]), 6),
        (NONE, 2),
    ],
)
def test_a_value_weighs_what_it_contains(value: Any, elements: int) -> None:
    """However deep; long texts weigh more."""
    assert weight(value, PLENTY) == elements


@pytest.mark.parametrize("value", [[[1] * 50] * 50, {n: [1] * 50 for n in range(50)}])
def test_beyond_the_limit_nothing_is_counted(value: Any) -> None:
    """What weighs too much is known to, and no more is looked at than that takes."""
    most = weight(value, PLENTY)
    assert weight(value, most) == most
    assert 20 < weight(value, 20) <= 20 + 2 * 50 + 1


def calls() -> dict[str, tuple[str, tuple[Any, ...], int]]:
    """Return calls with the work of each."""
    ten = list(range(10))
    size = compiled_size(PATTERN)
    reading = len(PATTERN) + repeats_of(PATTERN)
    return {
        "lists are added": ("_+_", ([1] * 40, [1] * 20), 15),
        "a loop's list grows in place": ("_+_", (Growing([1] * 40), [1] * 20), 5),
        "texts are added": ("_+_", (LINE, LINE), 20),
        "the smaller of two is compared": ("_==_", ([1, 2, 3], ten), 3 * 7),
        "the smaller of two, otherwise": ("_!=_", (ten, [1, 2, 3]), 3 * 7),
        "scalars are compared at once": ("_==_", (LINE, LINE), 0),
        "optionals are compared": ("_==_", (NONE, NONE), 3 * 2),
        "a list is searched": ("@in", (1, [1, 2, 3]), 3 * 7),
        "a map is not": ("@in", (1, {1: 2}), 0),
        "an element is looked for": ("indexOf", ([1, 2, 3], 2), 3 * 7),
        "a part of a text": ("lastIndexOf", (LINE, "ab" * 16), 640 * 32 // 1024 + 672 // 6),
        "each with each": ("distinct", ([1, 2, 3],), 3 * 3 * 7),
        "each with each other": ("sets.contains", ([1, 2], [1, 2, 3]), 2 * 3 * 7),
        "none with each other": ("sets.intersects", ([], [1, 2, 3]), 3 * 7),
        "both ways": ("sets.equivalent", ([1, 2], [1, 2, 3]), 2 * 3 * 7 + 3 * 3 * 5),
        "sorted": ("sort", (ten,), 3 * 21 * 4),
        "nothing is sorted": ("sort", ([],), 3),
        "sorted by keys": ("@sortByAssociatedKeys", ([0], ten), 3 * 21 * 4),
        "visited": ("sum", (ten,), 3 * 21),
        "copied": ("reverse", (ten,), 2),
        "flattened": ("flatten", ([[1], [2]],), 9),
        "a range": ("lists.range", (500,), 500),
        "no range": ("lists.range", (0,), 0),
        "a range that is refused": ("lists.range", (10**12,), 0),
        "each character": ("lowerAscii", (LINE,), 640),
        "split at": ("split", ("a,b,c" + LINE, ","), 645 // 64 + 2),
        "split everywhere": ("split", (LINE, ""), 10 + 640),
        "split is refused": ("split", (LINE, 1), 0),
        "replaced": ("replace", ("ab" * 320, "a", "z" * 64), (640 + 320 * 64) // 64 + 80),
        "replacing is refused": ("replace", (LINE, "a", 1), 0),
        "joined": ("join", ([LINE, LINE],), 2 + 20),
        "joined with": ("join", ([LINE, LINE], LINE), 2 + 40),
        "joining is refused": ("join", (LINE, LINE), 0),
        "formatted": ("format", ("%s and %d", ["a", 1]), 9 + 800 // 64 + 8 * 5),
        "precisely": ("format", ("%.100f", [1.0]), 6 + 500 // 64 + 8 * 3),
        "a template that is refused": ("format", ("%q", [1]), 2),
        "formatting is refused": ("format", (LINE, 1), 0),
        "a pattern": (
            "matches",
            (LINE, PATTERN),
            reading + 3 * size + 640 * size // 32,
        ),
        "matching is refused": ("find", (LINE, 1), 0),
    }


@pytest.mark.parametrize("name", calls())
def test_the_work_of_a_call_follows_from_its_operands(name: str) -> None:
    """By how many elements are visited or made, and how much text."""
    function, operands, work = calls()[name]
    tells = work_of(function, [DYN, DYN])
    assert tells is not None
    assert tells(operands, PLENTY) == work


def test_a_pattern_that_is_too_much_to_read_is_not_compiled() -> None:
    """To read it is all the work that is told."""
    tells = work_of("matches", [DYN])
    assert tells is not None
    reading = len(PATTERN) + repeats_of(PATTERN)
    assert tells((LINE, PATTERN), reading - 1) == reading
    assert tells((LINE, PATTERN), reading) > reading


def test_a_constant_pattern_has_its_work_before_it_is_used() -> None:
    """The text is all that is new with each call."""
    size = compiled_size(PATTERN)
    tells = matching(PATTERN)
    assert tells(("",), PLENTY) == 3 * size + len(PATTERN)
    assert tells((LINE,), PLENTY) == 3 * size + len(PATTERN) + 640 * size // 32
    assert matching(1)((LINE,), PLENTY) == 0


@pytest.mark.parametrize(
    ("function", "kinds", "small"),
    [
        ("_+_", ("int", "int"), True),
        ("_+_", ("dyn", "int"), True),
        ("_+_", ("string", "string"), False),
        ("_==_", ("list", "string"), True),
        ("_==_", ("list", "list"), False),
        ("size", ("list",), True),
    ],
)
def test_some_calls_are_no_work_by_the_types_of_their_operands(
    function: str, kinds: tuple[str, ...], small: bool
) -> None:
    """Numbers are added, and scalars compared, at once."""
    assert (work_of(function, map(CelType, kinds)) is None) is small
