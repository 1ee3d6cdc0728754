"""Distributions that are installed for a moment."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def write_distribution(
    folder: Path, entry_points: str, *, name: str = "toy", **modules: str
) -> Path:
    """Write a distribution with *entry_points* and top-level *modules* into *folder*."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "entry_points.txt").write_text(entry_points, encoding="utf-8")
    for module, text in modules.items():
        file = folder.joinpath(*module.split(".")).with_suffix(".py")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return folder


@contextmanager
def installed(
    folder: Path, entry_points: str, *, name: str = "toy", **modules: str
) -> Iterator[None]:
    """Have such a distribution installed."""
    sys.path.insert(0, str(write_distribution(folder, entry_points, name=name, **modules)))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for module in modules:
            sys.modules.pop(module, None)
