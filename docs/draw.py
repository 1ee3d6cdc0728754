"""Make the picture of the README from the real output: ``python docs/draw.py``.

A test compares the file with what this makes, so the picture cannot go stale.
"""

from __future__ import annotations

import re
from io import StringIO
from pathlib import Path

from rich.console import Console

from numakube.cli.admit import drawing, run_example
from numakube.cli.admit.zones import zones_of

PICTURE = Path(__file__).parent / "images" / "admit.svg"
WIDTH = 108
# The default template loads a font from the network; any monospaced font does.
FONT_FACE = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
LINE_ENDS = re.compile(r"[ \t]+$", re.MULTILINE)


def draw() -> str:
    """Return the example's table and drawing as SVG."""
    console = Console(
        record=True, width=WIDTH, file=StringIO(), force_terminal=True, color_system="truecolor"
    )
    node, verdicts = run_example()
    marks = drawing.marks_of(verdicts)
    console.print("$ numakube admit --example", style="bold")
    console.print(drawing.verdict_table(verdicts, marks))
    for part in drawing.refusals(verdicts):
        console.print(part)
    console.print()
    for part in drawing.draw_zones(zones_of(node, verdicts), marks, drawing.UNICODE):
        console.print(part)
    svg = console.export_svg(title="numakube", unique_id="numakube")
    return LINE_ENDS.sub("", FONT_FACE.sub("", svg)).replace("Fira Code, monospace", "monospace")


if __name__ == "__main__":
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(draw(), encoding="utf-8")
