"""Blocks of pages that show what a command prints for a cluster that a test makes.

Such a block has the comment ``printed="name"`` before it. ``UPDATE_DOCS=1`` writes it again.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def check_printed(page: str, name: str, text: str) -> None:
    """Compare the block *name* of a page below ``docs`` with *text*."""
    path = ROOT / "docs" / page
    written = path.read_text(encoding="utf-8")
    mark = f'<!-- printed="{name}" -->\n```text\n'
    block = re.compile(re.escape(mark) + r"(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
    assert block.search(written), f"{page} has no block {name}"
    real = block.sub(lambda _: f"{mark}{text}```", written)
    if os.environ.get("UPDATE_DOCS"):
        path.write_text(real, encoding="utf-8")
    else:
        assert real == written
