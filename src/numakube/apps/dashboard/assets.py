"""Style sheets and scripts: read once, named by their content, so that browsers keep them.

All of them are below one folder whose name is a hash of everything in it: scripts import each other
by relative names, and a new version of any is a new folder.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from numakube.insight.drawing.svg import svg_style

if TYPE_CHECKING:
    from collections.abc import Mapping

TYPES: Final = {
    "css": "text/css",
    "js": "text/javascript",
    "svg": "image/svg+xml",
}
DRAWING_STYLE: Final = "drawing.css"


@dataclass(frozen=True, slots=True)
class Assets:
    """The files, by name, and the folder that they are served under."""

    folder: str
    contents: Mapping[str, bytes]


@cache
def load_assets() -> Assets:
    """Return everything that pages refer to."""
    contents = {
        entry.name: entry.read_bytes()
        for entry in files(__package__).joinpath("static").iterdir()
        if entry.name.rpartition(".")[2] in TYPES
    }
    contents[DRAWING_STYLE] = svg_style().encode()
    digest = blake2b(digest_size=8)
    for name in sorted(contents):
        digest.update(name.encode() + b"\0" + contents[name] + b"\0")
    return Assets(digest.hexdigest(), contents)


def type_of(name: str) -> str:
    """Return the media type of a file."""
    return TYPES[name.rpartition(".")[2]]
