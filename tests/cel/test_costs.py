"""What an expression costs, in Kubernetes' words, and how much work a call is."""

from __future__ import annotations

from typing import Any

import pytest

from numakube.cel import compile_expression
from numakube.cel.costs import matching, weight, work_of
from numakube.cel.string_functions import compiled_size, repeats_of
from numakube.cel.value_types import CelType
from numakube.cel.values import NONE, Growing, Optional

# What Kubernetes says that an expression costs, where sizes of addresses matter.


def cost(text: str) -> int:
    """Return the cost of an expression."""
    return compile_expression(text, {}).measure({})[1]


@pytest.mark.parametrize("text", ["10.0.0.0/8", "2001:db8::/32", "2001:db8::1/128", "::/0"])
def test_the_address_of_a_network_costs_one_however_long_it_is(text: str) -> None:
    """It is there already; to read one from text costs by its length."""
    network = f"cidr('{text}')"
    assert cost(f"{network}.ip()") - cost(network) == 1


def test_a_slice_costs_what_is_in_it_wherever_it_begins() -> None:
    """And as much as one of one element if there is no such slice."""
    costs = [cost(f"size([1, 2, 3, 4, 5, 6].slice({part}))") for part in ("0, 2", "4, 6")]
    assert costs[0] == costs[1] == cost("size([1, 2, 3, 4, 5, 6].slice(0, 3))") - 1


def test_an_address_costs_by_its_text() -> None:
    """A tenth of each character, rounded up."""
    assert cost("ip('10.0.0.1')") == 1
    assert cost("ip('2001:db8::1234:5678')") == 2


# How much work a call is, told from its operands before it is done.


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
        "replacing nothing that is text": ("replace", (LINE, 1, "a"), 0),
        "replacing in no text": ("replace", (1, "a", "b"), 0),
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
