"""Conversions between types, and the parts of times."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

from numakube.cel.cel_errors import EvaluationError
from numakube.cel.values import (
    INT_RANGE,
    UINT_RANGE,
    CelValue,
    Uint,
    parse_timestamp,
    timestamp_text,
    type_name,
)
from numakube.errors import InvalidValue
from numakube.values.gotext import go_number
from numakube.values.times import MICROSECOND
from numakube.values.times import parse_duration as go_nanoseconds

if TYPE_CHECKING:
    from collections.abc import Callable

_OFFSET: Final = re.compile(r"([+-]?)(\d{1,2}):(\d\d)")
# Longer ones are out of range, and reading them takes time with the square of their length.
_INTEGER: Final = re.compile(r"[+-]?0*[0-9]{1,20}", re.ASCII)
_UNSIGNED: Final = re.compile(r"0*[0-9]{1,20}", re.ASCII)
_TRUE: Final = frozenset({"1", "t", "true", "TRUE", "True"})
_FALSE: Final = frozenset({"0", "f", "false", "FALSE", "False"})


def _unconvertible(value: CelValue, wanted: str) -> EvaluationError:
    return EvaluationError(f"type conversion error from '{type_name(value)}' to '{wanted}'")


def _fitting(number: int, allowed: range, kind: str) -> int:
    if number not in allowed:
        raise EvaluationError(f"{kind} overflow")
    return number


def to_int(value: CelValue) -> int:
    """``int(value)``."""
    match value:
        case datetime():
            return math.floor(value.timestamp())
        case timedelta():
            return (value // timedelta(microseconds=1)) * 1000
        case str():
            if not _INTEGER.fullmatch(value) or int(value) not in INT_RANGE:
                raise _unconvertible(value, "int")
            return int(value)
        case float() if not math.isfinite(value):
            raise EvaluationError("integer overflow")
        case _:
            return _fitting(int(value), INT_RANGE, "integer")


def to_uint(value: CelValue) -> Uint:
    """``uint(value)``."""
    if isinstance(value, str):
        if not _UNSIGNED.fullmatch(value) or int(value) not in UINT_RANGE:
            raise _unconvertible(value, "uint")
        return Uint(int(value))
    if isinstance(value, float) and not math.isfinite(value):
        raise EvaluationError("unsigned integer overflow")
    return Uint(_fitting(int(value), UINT_RANGE, "unsigned integer"))


def to_double(value: CelValue) -> float:
    """``double(value)``."""
    if isinstance(value, str):
        try:
            return float(value.replace("_", "x"))
        except ValueError:
            raise _unconvertible(value, "double") from None
    return float(value)


def to_string(value: CelValue) -> str:
    """``string(value)``."""
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(int(value))
        case float():
            return double_text(value)
        case bytes():
            return _utf8(value)
        case datetime():
            return timestamp_text(value)
        case timedelta():
            return duration_text(value)
        case _:
            return str(value)


def _utf8(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise EvaluationError("invalid UTF-8 in bytes, cannot convert to string") from None


def double_text(number: float) -> str:
    """Return *number* as Go's shortest form: ``1``, ``0.5``, ``1e+21``."""
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "+Inf" if number > 0 else "-Inf"
    return "-0" if number == 0 and math.copysign(1, number) < 0 else go_number(number)


def to_bytes(value: CelValue) -> bytes:
    """``bytes(value)``."""
    return value if isinstance(value, bytes) else bytes(value, "utf-8")


def to_bool(value: CelValue) -> bool:
    """``bool(value)``."""
    if isinstance(value, bool):
        return value
    if value in _TRUE or value in _FALSE:
        return value in _TRUE
    raise _unconvertible(value, "bool")


def to_timestamp(value: CelValue) -> datetime:
    """``timestamp(value)``."""
    match value:
        case datetime():
            return value
        case str():
            return parse_timestamp(value)
        case _:
            try:
                return datetime.fromtimestamp(value, UTC)
            except (ValueError, OverflowError, OSError):
                raise EvaluationError("timestamp overflow") from None


def to_duration(value: CelValue) -> timedelta:
    """``duration(value)``."""
    return value if isinstance(value, timedelta) else parse_duration(value)


def parse_duration(text: str) -> timedelta:
    """Read *text* as Go does (``1h30m``); raise `EvaluationError` if it is not a duration."""
    try:
        nanoseconds = go_nanoseconds(text)
    except InvalidValue as error:
        raise EvaluationError(str(error)) from None
    return timedelta(microseconds=nanoseconds // MICROSECOND)


def duration_text(duration: timedelta) -> str:
    """Return *duration* as CEL prints it: ``90s``, ``1.5s``."""
    return f"{go_number(duration.total_seconds())}s"


def clock(
    of_time: Callable[[datetime], int], of_duration: Callable[[timedelta], int] | None = None
) -> Callable[..., int]:
    """Return what reads a part of a time, in a time zone if given, or of a duration."""

    def read(value: CelValue, zone: str | None = None) -> int:
        if isinstance(value, timedelta) and of_duration is not None:
            return of_duration(value)
        return of_time(value if zone is None else value.astimezone(_zone(zone)))

    return read


def _zone(name: str) -> timezone | ZoneInfo:
    found = _OFFSET.fullmatch(name)
    if found:
        offset = timedelta(hours=int(found[2]), minutes=int(found[3]))
        return timezone(-offset if found[1] == "-" else offset)
    try:
        return ZoneInfo(name or "UTC")
    except (KeyError, ValueError, OSError):
        raise EvaluationError(f"unknown time zone {name}") from None
