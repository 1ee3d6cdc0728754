"""Conversions between types, and the parts of times."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from numakube_lab.schema.cel.cel_durations import duration_text, parse_duration
from numakube_lab.schema.cel.cel_errors import EvaluationError
from numakube_lab.schema.cel.texts import require_text
from numakube_lab.schema.cel.values import (
    INT_RANGE,
    UINT_RANGE,
    Uint,
    double_text,
    is_number,
    no_overload,
    parse_timestamp,
    timestamp_text,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from numakube_lab.schema.cel.values import CelValue


def to_int(value: CelValue) -> int:
    """``int(value)``."""
    match value:
        case datetime():
            return int(value.timestamp())
        case str() if re.fullmatch(r"[+-]?\d+", value):
            return fitting(int(value), INT_RANGE)
        case int() | float() if is_number(value) and math.isfinite(value):
            return fitting(int(value), INT_RANGE)
        case str():
            raise EvaluationError(f'strconv.ParseInt: parsing "{value}": invalid syntax')
        case _:
            raise no_overload()


def fitting(number: int, allowed: range) -> int:
    """Return *number*; raise if it is not in *allowed*."""
    if number not in allowed:
        raise EvaluationError("integer overflow")
    return number


def to_uint(value: CelValue) -> Uint:
    """``uint(value)``."""
    match value:
        case str() if value.isdecimal():
            return Uint(fitting(int(value), UINT_RANGE))
        case int() | float() if is_number(value) and math.isfinite(value):
            return Uint(fitting(int(value), UINT_RANGE))
        case str():
            raise EvaluationError(f'strconv.ParseUint: parsing "{value}": invalid syntax')
        case _:
            raise no_overload()


def to_double(value: CelValue) -> float:
    """``double(value)``."""
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            message = f'strconv.ParseFloat: parsing "{value}": invalid syntax'
            raise EvaluationError(message) from None
    if not is_number(value):
        raise no_overload()
    return float(value)


def to_string(value: CelValue) -> str:
    """``string(value)``."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case int():
            return str(int(value))
        case float():
            return double_text(value)
        case bytes():
            return value.decode("utf-8", "replace")
        case datetime():
            return timestamp_text(value)
        case timedelta():
            return duration_text(value)
        case _:
            raise no_overload()


def to_bytes(value: CelValue) -> bytes:
    """``bytes(value)``."""
    if isinstance(value, bytes):
        return value
    require_text(value)
    return bytes(value, "utf-8")


def to_bool(value: CelValue) -> bool:
    """``bool(value)``."""
    if isinstance(value, bool):
        return value
    words = {
        **dict.fromkeys(("1", "t", "true", "TRUE", "True"), True),
        **dict.fromkeys(("0", "f", "false", "FALSE", "False"), False),
    }
    if isinstance(value, str) and value in words:
        return words[value]
    raise no_overload() if not isinstance(value, str) else EvaluationError(f'bool("{value}")')


def to_timestamp(value: CelValue) -> datetime:
    """``timestamp(value)``."""
    match value:
        case datetime():
            return value
        case str():
            return parse_timestamp(value)
        case int() if not isinstance(value, bool):
            return datetime.fromtimestamp(value, UTC)
        case _:
            raise no_overload()


def to_duration(value: CelValue) -> timedelta:
    """``duration(value)``."""
    if isinstance(value, timedelta):
        return value
    require_text(value)
    return parse_duration(value)


def clock(
    of_time: Callable[[datetime], int], of_duration: Callable[[timedelta], int] | None = None
) -> Callable[[CelValue], int]:
    """Return what reads a part of a time, or of a duration where that has it."""

    def read(value: CelValue) -> int:
        if isinstance(value, datetime):
            return of_time(value)
        if isinstance(value, timedelta) and of_duration is not None:
            return of_duration(value)
        raise no_overload()

    return read
