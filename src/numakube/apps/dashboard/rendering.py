"""Pages from templates: everything that comes from a cluster is escaped, without exception.

Images may leave Jinja2 out: processes that can do without the dashboard import this
module only when they serve it.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

import numakube
from numakube.errors import InvalidValue
from numakube.values.display import (
    age_text,
    amount_text,
    held_quantities_text,
    quantity_text,
    zones_text,
)
from numakube.values.times import parse_time

if TYPE_CHECKING:
    from datetime import datetime

    from numakube.api.wire import Timestamp

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
    return _UNKNOWN if value is None else amount_text(resource, value)


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
