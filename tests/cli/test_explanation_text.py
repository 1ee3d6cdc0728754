"""How an explanation appears on a terminal."""

from __future__ import annotations

import os
import pty
import sys

import pytest

from numakube.cli.explain import folded, print_lines
from numakube.insight.explain.explanation_text import Line, LineRole

ROW = "  container main  cpu       6                     3 of 7 (lacks 3)  4 of 8 (lacks 2)"


def test_sentences_are_folded_and_rows_are_not() -> None:
    """With an indentation that shows what belongs together."""
    sentence = "  1. Ask for 4 CPUs instead of 6 in container main: fits on node-a."
    assert list(folded(Line(sentence, LineRole.CHANGE), 40)) == [
        "  1. Ask for 4 CPUs instead of 6 in",
        "    container main: fits on node-a.",
    ]
    assert list(folded(Line(ROW, LineRole.ROW), 40)) == [ROW]
    assert list(folded(Line("short"), 40)) == ["short"]


def test_output_that_is_piped_is_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    """One sentence a line, however long."""
    words = "word " * 100
    print_lines([Line("Pod a", LineRole.TITLE), Line(words)])
    assert capsys.readouterr().out == f"Pod a\n{words}\n"


@pytest.mark.parametrize("colour", [True, False])
def test_a_terminal_gets_colours_unless_told_otherwise(
    monkeypatch: pytest.MonkeyPatch, *, colour: bool
) -> None:
    """By NO_COLOR, as everywhere."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    if not colour:
        monkeypatch.setenv("NO_COLOR", "1")
    leader, follower = pty.openpty()
    with os.fdopen(follower, "w") as terminal:
        monkeypatch.setattr(sys, "stdout", terminal)
        print_lines([Line("Node a: fits", LineRole.FITS), Line("a row")])
        terminal.flush()
        shown = os.read(leader, 1000)
    os.close(leader)
    assert b"Node a: fits" in shown
    assert shown.count(b"\x1b[32m") == int(colour)
