"""Schedules in crontab syntax, as far as telling whether they can be parsed.

Follows the standard parser of github.com/robfig/cron/v3, which kube-apiserver uses: five fields,
names of months and days, ``@daily`` and the like, ``@every 1h30m``.
"""

from __future__ import annotations

import re
from typing import Final

from numakube.values.gotext import go_quote

_MONTHS: Final = (
    "jan",
    "feb",
    "mar",
    "apr",
    "may",
    "jun",
    "jul",
    "aug",
    "sep",
    "oct",
    "nov",
    "dec",
)
_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS: Final[tuple[tuple[int, int, dict[str, int]], ...]] = (
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, {name: number for number, name in enumerate(_MONTHS, 1)}),
    (0, 6, {name: number for number, name in enumerate(_DAYS)}),
)
_DESCRIPTORS: Final = frozenset(
    {
        "@yearly",
        "@annually",
        "@monthly",
        "@weekly",
        "@daily",
        "@midnight",
        "@hourly",
    }
)
_match_duration: Final = re.compile(
    r"[+-]?(0|([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+"
).fullmatch
_match_integer: Final = re.compile(r"[+-]?[0-9]+").fullmatch


class _Unparsable(Exception):
    """The reason why a schedule cannot be parsed."""


def schedule_problem(schedule: str) -> str:
    """Return why *schedule* cannot be parsed; an empty text if it can."""
    try:
        _parse(schedule)
    except _Unparsable as reason:
        return str(reason)
    return ""


def _parse(schedule: str) -> None:
    if schedule.startswith(("TZ=", "CRON_TZ=")):
        schedule = schedule.partition(" ")[2].strip()
    if schedule.startswith("@"):
        return _parse_descriptor(schedule)
    fields = schedule.split()
    if len(fields) != len(_FIELDS):
        shown = " ".join(fields)
        raise _Unparsable(f"expected exactly 5 fields, found {len(fields)}: [{shown}]")
    for field, bounds in zip(fields, _FIELDS, strict=True):
        for part in filter(None, field.split(",")):
            _parse_range(part, *bounds)
    return None


def _parse_descriptor(text: str) -> None:
    if text in _DESCRIPTORS:
        return
    if not text.startswith("@every "):
        raise _Unparsable(f"unrecognized descriptor: {text}")
    duration = text.removeprefix("@every ")
    if not _match_duration(duration):
        why = f"time: invalid duration {go_quote(duration)}"
        raise _Unparsable(f"failed to parse duration {text}: {why}")


def _parse_range(text: str, low: int, high: int, names: dict[str, int]) -> None:
    spread, *steps = text.split("/")
    ends = spread.split("-")
    if ends[0] in {"*", "?"}:
        start, end = low, high
    else:
        start = _number(ends[0], names)
        if len(ends) > 2:
            raise _Unparsable(f"too many hyphens: {text}")
        end = _number(ends[1], names) if len(ends) == 2 else start
    if len(steps) > 1:
        raise _Unparsable(f"too many slashes: {text}")
    step = _number(steps[0], {}) if steps else 1
    if steps and len(ends) == 1:
        end = high
    _check_bounds(text, (start, end, step), (low, high))


def _check_bounds(text: str, spread: tuple[int, int, int], bounds: tuple[int, int]) -> None:
    start, end, step = spread
    low, high = bounds
    if start < low:
        raise _Unparsable(f"beginning of range ({start}) below minimum ({low}): {text}")
    if end > high:
        raise _Unparsable(f"end of range ({end}) above maximum ({high}): {text}")
    if start > end:
        raise _Unparsable(f"beginning of range ({start}) beyond end of range ({end}): {text}")
    if step == 0:
        raise _Unparsable(f"step of range should be a positive number: {text}")


def _number(text: str, names: dict[str, int]) -> int:
    if text.lower() in names:
        return names[text.lower()]
    if not _match_integer(text):
        why = f"strconv.Atoi: parsing {go_quote(text)}: invalid syntax"
        raise _Unparsable(f"failed to parse int from {text}: {why}")
    number = int(text)
    if number < 0:
        raise _Unparsable(f"negative number ({number}) not allowed: {text}")
    return number
