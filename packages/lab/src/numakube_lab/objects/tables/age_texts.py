"""How long ago a timestamp was, as ``kubectl get`` shows it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from numakube.values.display import age_text

UNKNOWN: Final = "<unknown>"


def human_age(moment: str | None, now: datetime) -> str:
    """Return the age of an RFC 3339 timestamp; one that is missing is ``<unknown>``.

    >>> human_age("2024-05-01T10:00:00Z", datetime(2024, 5, 1, 10, 3, 20, tzinfo=UTC))
    '3m20s'
    """
    if not moment:
        return UNKNOWN
    try:
        then = datetime.fromisoformat(moment)
    except ValueError:
        return "<invalid>"
    aware = then if then.tzinfo else then.replace(tzinfo=UTC)
    return age_text(int((now - aware).total_seconds()))


def time_between(start: str, end: str) -> str:
    """Return how long it was from one timestamp to a later one."""
    return human_age(start, datetime.fromisoformat(end))
