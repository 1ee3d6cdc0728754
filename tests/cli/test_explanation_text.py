"""How an explanation appears on a terminal."""

from __future__ import annotations

import os
import pty
import sys

import pytest

from numakube.cli.explanation_text import folded, print_explanation, style_of

ROW = "  container main  cpu       6                     3 of 7 (lacks 3)  4 of 8 (lacks 2)"


def test_sentences_are_folded_and_rows_are_not() -> None:
    """With an indentation that shows what belongs together."""
    sentence = "  1. Ask for 4 CPUs instead of 6 in container main: fits on node-a."
    parts = list(folded(sentence, 40))
    assert parts == [
        "  1. Ask for 4 CPUs instead of 6 in",
        "    container main: fits on node-a.",
    ]
    assert list(folded(ROW, 40)) == [ROW]
    assert list(folded("short", 40)) == ["short"]


def test_a_reason_with_its_plugin_is_a_sentence() -> None:
    """Though there are blanks before the plugin."""
    line = (
        "2 nodes: cannot align container (cpu: best zone has 4 of 6)   [NodeResourceTopologyMatch]"
    )
    assert len(list(folded(line, 60))) == 2


def test_verdicts_have_colours() -> None:
    """Not every line."""
    assert style_of("Node a (exact data): fits") == "green"
    assert style_of("Node a (exact data): refused: no") == "yellow"
    assert style_of(ROW) == ""


def test_output_that_is_piped_is_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    """One sentence a line, however long."""
    text = "Pod a\n" + "word " * 100 + "\n"
    print_explanation(text)
    assert capsys.readouterr().out == text


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
        print_explanation("Node a: fits\n")
        terminal.flush()
        shown = os.read(leader, 1000)
    os.close(leader)
    assert b"Node a: fits" in shown
    assert (b"\x1b[32m" in shown) == colour
