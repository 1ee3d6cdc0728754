"""Drawings in colour, as far as the terminal has any."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from numakube.cli.shared.terminal import print_drawing
from numakube.insight.node_map.terminal_map import PaintedText


@pytest.mark.parametrize("system", ["standard", "256", "truecolor"])
def test_pods_have_different_colours_on_every_terminal(system: str) -> None:
    """A dozen of them; letters tell the rest."""
    console = Console(file=io.StringIO(), force_terminal=True, color_system=system)  # type: ignore[arg-type]
    print_drawing(console, [(PaintedText("A", f"p{number}"),) for number in range(12)])
    assert isinstance(console.file, io.StringIO)
    codes = re.findall(r"\x1b\[([0-9;]+)m", console.file.getvalue())
    assert len(set(codes) - {"0"}) == 12
