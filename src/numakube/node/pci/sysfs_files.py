"""Single files, links and folders of sysfs, which may vanish at any moment.

Whatever cannot be read is ``None`` or empty; who asks decides what that means. A tree that is a
copy, or that a test has made, reads the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.node.bounded_files import read_regular_file

if TYPE_CHECKING:
    from pathlib import Path


def text_of(path: Path) -> str | None:
    """Return the text of a file without the newline at its end; ``None`` if it cannot be read."""
    try:
        return read_regular_file(path).decode("utf-8", "replace").strip()
    except OSError:
        return None


def number_of(path: Path) -> int | None:
    """Return the number that a file holds; ``None`` if it holds none."""
    text = text_of(path)
    try:
        return None if text is None else int(text)
    except ValueError:
        return None


def target_of(path: Path) -> str:
    """Return the last part of what a link points to, which need not exist; empty if no link."""
    try:
        return path.readlink().name
    except OSError:
        return ""


def names_in(path: Path) -> tuple[str, ...]:
    """Return the names in a folder in their order; none if it cannot be listed."""
    try:
        return tuple(sorted(entry.name for entry in path.iterdir()))
    except OSError:
        return ()
