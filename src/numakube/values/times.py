"""Times as the Kubernetes API reads and writes them: RFC 3339, written in UTC.

``metav1.Time`` has whole seconds, ``metav1.MicroTime`` (leases, events) always six digits more; the
API server refuses a lease without them. Errors follow Go's ``time.Parse``: they quote what is left
of the text and the part of the layout that it was compared with. Reading a clock is the business of
the caller.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

from numakube.errors import InvalidValue

SECONDS_LAYOUT: Final = "2006-01-02T15:04:05Z07:00"
MICROS_LAYOUT: Final = "2006-01-02T15:04:05.000000Z07:00"

_RFC3339: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)([.,]\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII
)
# The parts of a layout in the order in which Go compares them, and what each matches.
_PARTS: Final = (
    ("2006", r"\d{4}"),
    ("-", "-"),
    ("01", r"\d\d"),
    ("-", "-"),
    ("02", r"\d\d"),
    ("T", "T"),
    ("15", r"\d\d?"),
    (":", ":"),
    ("04", r"\d\d"),
    (":", ":"),
    ("05", r"\d\d(?:[.,]\d+)?"),
)
_OFFSET: Final = ("Z07:00", r"Z|[+-]\d\d:\d\d")
_RANGES: Final = (("month", 1, 12), ("hour", 0, 23), ("minute", 0, 59), ("second", 0, 59))


@lru_cache(maxsize=4096)
def parse_time(text: str) -> datetime:
    """Return the time that *text* names, in UTC; digits beyond microseconds are dropped."""
    return _parse(text, SECONDS_LAYOUT)


def format_time(moment: datetime) -> str:
    """Return *moment* with whole seconds, as in ``creationTimestamp``."""
    return _utc(moment).isoformat(timespec="seconds") + "Z"


def format_micro_time(moment: datetime) -> str:
    """Return *moment* with six digits after the second, as in a lease's ``renewTime``."""
    return _utc(moment).isoformat(timespec="microseconds") + "Z"


@lru_cache(maxsize=4096)
def canonical_time(text: str) -> str:
    """Return the time *text* in UTC with whole seconds."""
    return format_time(_parse(text, SECONDS_LAYOUT))


def canonical_micro_time(text: str) -> str:
    """Return the time *text*, which has six digits after the second, in UTC."""
    return format_micro_time(_parse(text, MICROS_LAYOUT))


def _utc(moment: datetime) -> datetime:
    """Return *moment* in UTC, without saying so."""
    if moment.tzinfo is None:
        raise InvalidValue(f"time {moment.isoformat()}: has no time zone")
    return moment.astimezone(UTC).replace(tzinfo=None)


def _parse(text: str, layout: str) -> datetime:
    found = _RFC3339.fullmatch(text)
    if not found or (layout == MICROS_LAYOUT and len(found[7] or "") != len(".000000")):
        raise InvalidValue(_mismatch(text, layout))
    year, month, day, hour, minute, second = (int(found[i]) for i in range(1, 7))
    numbers = (month, hour, minute, second)
    for (name, low, high), number in zip(_RANGES, numbers, strict=True):
        if not low <= number <= high:
            raise InvalidValue(f'parsing time "{text}": {name} out of range')
    micros = int((found[7] or ".0")[1:7].ljust(6, "0"))
    try:
        local = datetime(year, month, day, hour, minute, second, micros, tzinfo=UTC)
        return local - _offset(found[8])
    except (ValueError, OverflowError):
        raise InvalidValue(f'parsing time "{text}": day out of range') from None


def _offset(text: str) -> timedelta:
    if text == "Z":
        return timedelta()
    magnitude = timedelta(hours=int(text[1:3]), minutes=int(text[4:6]))
    return -magnitude if text[0] == "-" else magnitude


def _mismatch(text: str, layout: str) -> str:
    rest = text
    parts = list(_PARTS)
    if layout == MICROS_LAYOUT:
        parts[-1:] = [("05", r"\d\d"), (".000000", r"[.,]\d{6}")]
    for name, pattern in (*parts, _OFFSET):
        found = re.match(pattern, rest, re.ASCII)
        if not found:
            return _cannot_parse(text, layout, rest, name)
        rest = rest[found.end() :]
    return f'parsing time "{text}": extra text: "{rest}"'


def _cannot_parse(text: str, layout: str, rest: str, part: str) -> str:
    return f'parsing time "{text}" as "{layout}": cannot parse "{rest}" as "{part}"'
