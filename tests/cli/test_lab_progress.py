"""How far the start of a lab is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube_lab.cli.lab.background import LINE_SECONDS, Progress

if TYPE_CHECKING:
    import pytest


def test_a_short_start_writes_no_lines_and_a_long_one_now_and_then(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Where there is no terminal."""
    now = 0.0
    with Progress(clock=lambda: now) as progress:
        for number in range(31):
            now = float(number)
            progress.show(f"{number} of 30 nodes")
    lines = capsys.readouterr().err.splitlines()
    assert lines == [f"{number} of 30 nodes" for number in (10, 20, 30)]
    assert LINE_SECONDS == 10


def test_a_text_that_stays_is_no_progress() -> None:
    """So that a user can tell a slow start from one that hangs."""
    now = 5.0
    progress = Progress(clock=lambda: now)
    progress.show("1 of 3")
    now = 50.0
    progress.show("1 of 3")
    assert progress.moved_at == 5.0
