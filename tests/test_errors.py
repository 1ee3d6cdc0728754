"""The tree of exceptions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROOTS = {"NumakubeError", "AssertionError"}
"""What is not a bug, and what is."""

CLASS = re.compile(r"^class (?P<name>[A-Za-z]\w*)\((?P<bases>[^)]*)\)", re.MULTILINE)


def exceptions() -> Iterator[tuple[str, set[str]]]:
    """Yield every public class with the names of its bases."""
    for source in (ROOT / "src", *ROOT.glob("packages/*/src")):
        for file in source.rglob("*.py"):
            for found in CLASS.finditer(file.read_text("utf-8")):
                bases = map(str.strip, found["bases"].split(","))
                yield found["name"], {base for base in bases if base.isidentifier()}


def test_one_root_catches_everything_that_is_raised_on_purpose() -> None:
    """Wherever it is defined; what is raised and caught within a module has no public name."""
    classes = list(exceptions())
    known = set(ROOTS)
    for _ in range(4):
        known |= {name for name, bases in classes if bases & known}
    others = {
        name
        for name, bases in classes
        if any(base.endswith(("Error", "Exception")) for base in bases) and name not in known
    }
    assert not others
