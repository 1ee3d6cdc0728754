"""Values of expressions, and what CEL does with them: equality, order, arithmetic, conversion.

Integers are int64 (or uint64 as `Uint`), doubles are floats, lists and maps those of Python;
timestamps are aware datetimes, durations timedeltas.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeAlias

from numakube_lab.schema.cel.cel_errors import EvaluationError

CelValue: TypeAlias = Any
"""Whatever an expression can be."""

INT_RANGE: Final = range(-(2**63), 2**63)
UINT_RANGE: Final = range(2**64)


class Uint(int):
    """An unsigned integer."""


@dataclass(frozen=True, slots=True)
class Optional:
    """A value that may be missing."""

    present: bool
    value: Any = None


def type_name(value: object) -> str:
    """Return what CEL calls the type of *value*."""
    names = (
        (bool, "bool"),
        (Uint, "uint"),
        (int, "int"),
        (float, "double"),
        (str, "string"),
        (bytes, "bytes"),
        (list, "list"),
        (dict, "map"),
        (datetime, "google.protobuf.Timestamp"),
        (timedelta, "google.protobuf.Duration"),
    )
    return next((name for kind, name in names if isinstance(value, kind)), "null_type")


def is_number(value: object) -> bool:
    """Tell whether *value* is an int, uint or double."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def equal(one: CelValue, other: CelValue) -> bool:
    """Compare: numbers by value whatever their type, all else within one type."""
    if is_number(one) and is_number(other):
        return bool(one == other)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(equal, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(equal(one[k], other[k]) for k in one)
    return type_name(one) == type_name(other) and bool(one == other)


def compare(one: CelValue, other: CelValue) -> int:
    """Return -1, 0 or 1; raise if the two have no order."""
    comparable = is_number(one) and is_number(other)
    same = type_name(one) == type_name(other) and isinstance(
        one, bool | str | bytes | datetime | timedelta
    )
    if not comparable and not same and type(one) is not type(other):
        raise no_overload()
    try:
        return int(one > other) - int(one < other)
    except TypeError:
        raise no_overload() from None


def no_overload() -> EvaluationError:
    """The error of an operation that the operands' types do not have."""
    return EvaluationError("no such overload")


def checked(number: int, like: int) -> int:
    """Return *number* in the type of *like*; raise if it does not fit."""
    if isinstance(like, Uint):
        if number not in UINT_RANGE:
            raise EvaluationError("unsigned integer overflow")
        return Uint(number)
    if number not in INT_RANGE:
        raise EvaluationError("integer overflow")
    return number


def parse_timestamp(text: str) -> datetime:
    """Read an RFC 3339 time."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise EvaluationError(f'parsing time "{text}" as RFC 3339') from None
    if moment.tzinfo is None:
        raise EvaluationError(f'parsing time "{text}" as RFC 3339: no time zone')
    return moment.astimezone(UTC)


def timestamp_text(moment: datetime) -> str:
    """Return *moment* as CEL prints it."""
    whole = moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S")
    fraction = f".{moment.microsecond:06}".rstrip("0") if moment.microsecond else ""
    return f"{whole}{fraction}Z"


def double_text(number: float) -> str:
    """Return *number* as Go's shortest form: ``1``, ``0.5``, ``1e+21``."""
    if number.is_integer() and abs(number) < 1e21:
        return str(int(number))
    mantissa, e, exponent = repr(number).partition("e")
    return f"{mantissa}e{exponent[0]}{exponent[1:]:0>2}" if e else mantissa
