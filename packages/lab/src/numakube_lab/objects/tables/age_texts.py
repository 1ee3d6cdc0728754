"""How long ago something was, as ``kubectl get`` shows it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

UNKNOWN: Final = "<unknown>"

_MINUTE: Final = 60
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR
_YEAR: Final = 365 * _DAY


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
    return human_duration(int((now - aware).total_seconds()))


def time_between(start: str, end: str) -> str:
    """Return how long it was from one timestamp to a later one."""
    return human_age(start, datetime.fromisoformat(end))


def human_duration(seconds: int) -> str:
    """Return a duration with the one or two units that matter.

    >>> [human_duration(s) for s in (-2, -1, 119, 120, 605, 11000, 90000, 700000)]
    ['<invalid>', '0s', '119s', '2m', '10m', '3h3m', '25h', '8d']
    """
    if seconds < -1:
        return "<invalid>"
    if seconds < 2 * _MINUTE:
        return f"{max(seconds, 0)}s"
    if seconds < 10 * _MINUTE:
        return _two_units(seconds, _MINUTE, "m", 1, "s")
    if seconds < 3 * _HOUR:
        return f"{seconds // _MINUTE}m"
    if seconds < 8 * _HOUR:
        return _two_units(seconds, _HOUR, "h", _MINUTE, "m")
    if seconds < 2 * _DAY:
        return f"{seconds // _HOUR}h"
    return _days(seconds)


def _days(seconds: int) -> str:
    if seconds < 8 * _DAY:
        return _two_units(seconds, _DAY, "d", _HOUR, "h")
    if seconds < 2 * _YEAR:
        return f"{seconds // _DAY}d"
    if seconds < 8 * _YEAR:
        return _two_units(seconds, _YEAR, "y", _DAY, "d")
    return f"{seconds // _YEAR}y"


def _two_units(seconds: int, large: int, mark: str, small: int, small_mark: str) -> str:
    rest = seconds % large // small
    return f"{seconds // large}{mark}" + (f"{rest}{small_mark}" if rest else "")
