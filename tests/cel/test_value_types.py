"""What is known of the types of an expression before it is evaluated."""

from __future__ import annotations

from typing import Any

import pytest

from numakube.cel import compile_expression
from numakube.cel.cel_errors import CompileError
from numakube.cel.value_types import Bindings, CelType, ObjectType, list_of, map_of, more_general

INT, TEXT, DYN = CelType("int"), CelType("string"), CelType("dyn")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("(false ? 1 : dyn('a')) == 'a'", True),
        ("(true ? dyn('a') : 1) + 'b'", "ab"),
        ("(true ? [1] : [dyn('a')])[0] + 1", 2),
        ("(true ? {'a': dyn(1)} : {'a': 'b'})['a'] + 1", 2),
    ],
)
def test_what_may_be_of_any_type_makes_the_whole_so(text: str, value: Any) -> None:
    """Whichever of two values comes first."""
    assert compile_expression(text, {}).measure({})[0] == value


@pytest.mark.parametrize(
    "text",
    [
        "(true ? 1 : 2) + 'b'",
        "true ? 'a' : 1",
        "[1][0] + 'b'",
        "optional.of({'a': 1}).a + 1",
        "optional.of({'a': 1}).?a + 1",
        "{'a': 1}.?a + 1",
        "o == p",
        "[o] == [p]",
        "o == {'a': 1}",
    ],
)
def test_what_is_known_is_held_against_what_is_asked_for(text: str) -> None:
    """A value of a known type does not become one of another."""
    objects = {"o": ObjectType("O", fields={"a": INT}), "p": ObjectType("P", fields={"a": INT})}
    with pytest.raises(CompileError, match="no matching overload"):
        compile_expression(text, objects)


def test_a_variable_stands_for_the_type_that_says_less() -> None:
    """So that further values of other types fit as well."""
    bindings = Bindings()
    variable = bindings.fresh()
    assert bindings.fits([INT], [variable])
    assert not bindings.fits([TEXT], [variable])
    assert bindings.resolved(variable) == INT
    assert bindings.fits([DYN], [variable])
    assert bindings.resolved(variable) == DYN
    assert bindings.fits([TEXT], [variable])


def test_a_variable_never_stands_for_what_contains_it() -> None:
    """A list of itself would have no end."""
    bindings = Bindings()
    variable, other = bindings.fresh(), bindings.fresh()
    assert not bindings.fits([list_of(variable)], [variable])
    assert bindings.fits([list_of(variable)], [other])
    assert not bindings.fits([other], [variable])
    assert bindings.resolved(variable, unknown=DYN) == DYN


def test_what_did_not_fit_leaves_nothing_behind() -> None:
    """The next overload is tried as if there had been none before."""
    bindings = Bindings()
    variable, other = bindings.fresh(), bindings.fresh()
    assert bindings.fits([INT], [other])
    assert not bindings.fits([TEXT, DYN, TEXT], [variable, other, INT])
    assert bindings.resolved(variable) == variable
    assert bindings.resolved(other) == INT
    assert not bindings.fits([TEXT], [TEXT, TEXT])


@pytest.mark.parametrize(
    ("one", "other", "general"),
    [
        (INT, DYN, DYN),
        (DYN, INT, DYN),
        (list_of(INT), list_of(DYN), list_of(DYN)),
        (map_of(TEXT, DYN), map_of(TEXT, INT), map_of(TEXT, DYN)),
        (map_of(TEXT, INT), map_of(TEXT, DYN), map_of(TEXT, DYN)),
    ],
)
def test_the_more_general_of_two_types_is_that_which_says_less(
    one: CelType, other: CelType, general: CelType
) -> None:
    """Element by element."""
    assert more_general(one, other) == general


def test_a_field_of_what_may_be_missing_may_be_missing() -> None:
    """And has the value of the field where it is there."""
    assert compile_expression("optional.of({'a': 1}).a.value() + 1", {}).evaluate({}) == 2
    assert compile_expression("{'a': 1}.?b.orValue(5) + 1", {}).evaluate({}) == 6


def test_bindings_begin_with_what_is_bound_already() -> None:
    """A variable that has its type from before takes no other."""
    before = Bindings()
    variable = before.fresh()
    assert Bindings({variable.name: INT}).resolved(variable) == INT
    assert not Bindings({variable.name: INT}).fits([TEXT], [variable])


@pytest.mark.parametrize("text", ["'x'.matches()", "'x'.find()", "quantity()", "matches()"])
def test_a_checked_argument_that_is_missing_is_told_as_a_wrong_call(text: str) -> None:
    """Nobody looks at what is not there."""
    with pytest.raises(CompileError, match="no matching overload"):
        compile_expression(text, {})
