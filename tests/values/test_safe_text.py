"""Foreign texts made fit to be shown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numakube.values.safe_text import (
    MAX_REASON,
    printable,
    printable_lines,
    quoted,
    reason_of,
    without_secrets,
)


@given(st.text())
def test_whatever_is_shown_is_one_line_that_no_terminal_obeys(text: str) -> None:
    """And it is as long as it was, so that columns stay where they are."""
    assert printable(text).isprintable()
    assert len(printable(text)) == len(text)


@pytest.mark.parametrize("bad", list("\x1b\n\r\x9b\u202e\u2066\u2028\ud800"))
def test_what_is_not_seen_as_it_is_gets_replaced(bad: str) -> None:
    """Escape sequences, line breaks, directions, halves of pairs."""
    assert printable(f"a{bad}b") == "a\ufffdb"


def test_lines_can_be_kept() -> None:
    """Of what a program has printed."""
    assert printable_lines("a\n\x1bb\r\nc") == "a\n\ufffdb\nc"


def test_ordinary_text_stays_as_it_is() -> None:
    """Of any language."""
    assert printable("größe 節点 web-1") == "größe 節点 web-1"


def test_a_quotation_has_an_end() -> None:
    """Reasons stand in events and tables."""
    assert len(quoted("x" * 10_000)) == MAX_REASON
    assert reason_of(LookupError("a\nb")) == "LookupError: a\ufffdb"


@pytest.mark.parametrize(
    "text",
    [
        "headers: {'Authorization': 'Bearer abc.def-123'}",
        "authorization: bearer ABCDEF123456",
        "Basic dXNlcjpwYXNzd29yZA==",
        "token eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0.c2lnbmF0dXJl",
    ],
)
def test_secrets_of_requests_are_not_shown(text: str) -> None:
    """Neither in headers nor by themselves."""
    shown = without_secrets(text)
    assert "***" in shown
    for part in ("abc.def", "ABCDEF", "dXNlcjpw", "c2lnbmF0dXJl"):
        assert part not in shown
