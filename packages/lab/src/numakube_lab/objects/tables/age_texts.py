"""How long ago a timestamp was, as ``kubectl get`` shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.errors import InvalidValue
from numakube.values.display import age_text
from numakube.values.times import parse_time

if TYPE_CHECKING:
    from datetime import datetime

UNKNOWN: Final = "<unknown>"


def human_age(moment: str | None, now: datetime) -> str:
    """Return the age of an RFC 3339 timestamp; one that is missing is ``<unknown>``."""
    if not moment:
        return UNKNOWN
    try:
        return age_text((now - parse_time(moment)).total_seconds())
    except InvalidValue:
        return "<invalid>"


def time_between(start: str, end: str) -> str:
    """Return how long it was from one timestamp to a later one."""
    return human_age(start, parse_time(end))
