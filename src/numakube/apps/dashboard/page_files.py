"""The files that pages are made from: templates, style sheets and scripts.

In templates everything that comes from a cluster is escaped, without exception. Style sheets and
scripts are read once and are all below one folder, whose name is a hash of everything in it:
browsers keep them, scripts import each other by relative names, and a new version of any is a new
folder.

Images may leave Jinja2 out: processes that can do without the dashboard import this module only
when they serve it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

import numakube
from numakube.errors import InvalidValue
from numakube.insight.drawing.svg import svg_style
from numakube.values.display import (
    age_text,
    amount_text,
    held_quantities_text,
    lack_text,
    quantity_text,
    zones_text,
)
from numakube.values.times import parse_time

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from numakube.api.codec import Timestamp

TYPES: Final = {
    "css": "text/css",
    "js": "text/javascript",
    "svg": "image/svg+xml",
}
DRAWING_STYLE: Final = "drawing.css"
_UNKNOWN: Final = "\N{EN DASH}"


@cache
def environment() -> Environment:
    """Return where the templates are."""
    made = Environment(
        loader=PackageLoader("numakube.apps.dashboard"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["amount"] = amount
    made.filters["held"] = held_quantities_text
    made.filters["zones"] = zones_text
    made.filters["quantity"] = lambda text, resource: quantity_text(resource, text)
    made.filters["lack"] = lambda text, resource: lack_text(resource, text)
    made.filters["breakable"] = breakable
    made.filters["seconds"] = seconds_text
    made.filters["moment"] = moment_text
    made.filters["segment"] = lambda text: quote(str(text), safe="")
    made.globals["numakube_version"] = numakube.__version__
    return made


def render(template: str, **values: Any) -> str:  # noqa: ANN401 - whatever the template names
    """Return a page."""
    return environment().get_template(template).render(values)


def amount(value: int | None, resource: str) -> str:
    """Return an amount of a resource for people."""
    if value is None:
        return _UNKNOWN
    text = amount_text(resource, value)
    return f"{int(text):,}" if text.isdecimal() else text


def breakable(name: str) -> Markup:
    """Return a long name that may be broken where its parts meet."""
    return Markup("/<wbr>").join(escape(part) for part in name.split("/"))


def seconds_text(seconds: float | None) -> str:
    """Return a span of time for people."""
    return _UNKNOWN if seconds is None else age_text(max(seconds, 0))


def moment_text(moment: Timestamp | None) -> str:
    """Return a moment for people, in UTC; one that cannot be read as it is."""
    if not moment:
        return _UNKNOWN
    try:
        time = parse_time(moment)
    except InvalidValue:
        return moment
    fraction = f".{time.microsecond // 1000:03}" if "." in moment else ""
    return f"{time:%Y-%m-%d %H:%M:%S}{fraction} UTC"


def seconds_since(moment: Timestamp | None, now: datetime) -> float | None:
    """Return how long ago a moment was; ``None`` if it is not known."""
    if not moment:
        return None
    try:
        return (now - parse_time(moment)).total_seconds()
    except InvalidValue:
        return None


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
