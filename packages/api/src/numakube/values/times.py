"""Times and durations as the Kubernetes API reads and writes them.

Times are RFC 3339, written in UTC. ``metav1.Time`` has whole seconds, ``metav1.MicroTime`` (leases,
events) always six digits more; the API server refuses a lease without them. Errors follow Go's
``time.Parse``: they quote what is left of the text and the part of the layout that it was compared
with. Reading a clock is the business of the caller.

Durations (``1h2m3.5s``, in configurations) are whole numbers of nanoseconds, as Go's
``time.Duration``.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

from numakube.errors import InvalidValue
from numakube.values.gotext import INT64_MAX, go_quote

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


NANOSECOND: Final = 1
MICROSECOND: Final = 1_000
MILLISECOND: Final = 1_000_000
SECOND: Final = 1_000_000_000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE

_UNITS: Final = {
    "ns": NANOSECOND,
    "us": MICROSECOND,
    "\N{MICRO SIGN}s": MICROSECOND,
    "\N{GREEK SMALL LETTER MU}s": MICROSECOND,
    "ms": MILLISECOND,
    "s": SECOND,
    "m": MINUTE,
    "h": HOUR,
}
_PART: Final = re.compile(r"(?P<whole>[0-9]*)(?:\.(?P<fraction>[0-9]*))?(?P<unit>[^0-9.]*)")


@lru_cache(maxsize=256)
def parse_duration(text: str) -> int:
    """Return the nanoseconds that *text* stands for."""
    sign, rest = (text[0], text[1:]) if text[:1] in ("+", "-") else ("", text)
    if rest == "0":
        return 0
    total = 0
    while rest or text in ("", sign):
        match = _PART.match(rest)
        if match is None or not (match["whole"] or match["fraction"]):
            raise _refusal(f"time: invalid duration {go_quote(text)}")
        total += _nanoseconds(match, text)
        rest = rest[match.end() :]
    if total > INT64_MAX:
        raise _refusal(f"time: invalid duration {go_quote(text)}")
    return -total if sign == "-" else total


def format_duration(nanoseconds: int) -> str:
    """Return *nanoseconds* as Go prints it: ``1m0s``, ``1.5s``, ``300ms``."""
    if nanoseconds == 0:
        return "0s"
    sign, rest = ("-", -nanoseconds) if nanoseconds < 0 else ("", nanoseconds)
    for limit, unit, name in (
        (MICROSECOND, NANOSECOND, "ns"),
        (MILLISECOND, MICROSECOND, "\N{MICRO SIGN}s"),
        (SECOND, MILLISECOND, "ms"),
    ):
        if rest < limit:
            return f"{sign}{_decimal(rest, unit)}{name}"
    hours, rest = divmod(rest, HOUR)
    minutes, rest = divmod(rest, MINUTE)
    text = f"{_decimal(rest, SECOND)}s"
    if hours or minutes:
        text = f"{minutes}m{text}"
    return f"{sign}{hours}h{text}" if hours else f"{sign}{text}"


def _nanoseconds(match: re.Match[str], text: str) -> int:
    unit = match["unit"]
    if not unit:
        raise _refusal(f"time: missing unit in duration {go_quote(text)}")
    if unit not in _UNITS:
        raise _refusal(f"time: unknown unit {go_quote(unit)} in duration {go_quote(text)}")
    fraction = match["fraction"] or ""
    scaled = int(f"{match['whole']}{fraction}"[:4000]) * _UNITS[unit]
    return int(scaled // 10 ** len(fraction))


def _decimal(amount: int, unit: int) -> str:
    """Return *amount* in *unit*, with as many digits after the point as it needs."""
    whole, fraction = divmod(amount, unit)
    digits = f"{fraction:0{len(str(unit)) - 1}d}".rstrip("0") if fraction else ""
    return f"{whole}.{digits}" if digits else str(whole)


def _refusal(reason: str) -> InvalidValue:
    return InvalidValue(reason, reason=reason)
