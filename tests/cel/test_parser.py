"""Literals are read as they are written, up to the ends of their types."""

from __future__ import annotations

from typing import Any

import pytest

from numakube.cel import compile_expression
from numakube.cel.cel_errors import CompileError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("0x7fffffffffffffff", 2**63 - 1),
        ("-0x8000000000000000", -(2**63)),
        ("18446744073709551615u", 2**64 - 1),
        ("0XffffffffffffffffU", 2**64 - 1),
        ("000000000000000000000000000000000000000007", 7),
        ("0u", 0),
        ("r'a\\n'", "a\\n"),
        ("'''a'b'''", "a'b"),
        ("b'\\xff'", b"\xff"),
        ("b'\\377'", b"\xff"),
        ("'\\u00e9'", "é"),
        ("b'é'", "é".encode()),
    ],
)
def test_a_literal_has_its_value(text: str, value: Any) -> None:
    """Leading zeros do not make a number longer."""
    assert compile_expression(text, {}).measure({})[0] == value


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("9223372036854775809", "int"),
        ("-9223372036854775809", "int"),
        ("18446744073709551615", "int"),
        ("18446744073709551616u", "uint"),
        ("0x10000000000000000u", "uint"),
        ("1" * 60, "int"),
    ],
)
def test_a_number_beyond_its_type_is_refused(text: str, kind: str) -> None:
    """By one as well as by far."""
    with pytest.raises(CompileError, match=f"invalid {kind} literal"):
        compile_expression(text, {})


@pytest.mark.parametrize("text", ["'\\q'", "b'\\u00e9'", "'\\ud800'", "'\\400'"])
def test_an_escape_that_means_nothing_is_refused(text: str) -> None:
    """Where it is."""
    with pytest.raises(CompileError):
        compile_expression(text, {})
