"""Durations in Go's notation (``1h2m3.5s``), as configurations and leases write them.

A duration is a whole number of nanoseconds, as Go's ``time.Duration``.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from numakube.errors import InvalidValue
from numakube.values.gotext import go_quote
from numakube.values.int64 import INT64_MAX

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
