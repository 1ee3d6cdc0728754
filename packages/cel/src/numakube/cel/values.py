"""Values of expressions, and what CEL does with all of them: equality, operators, conversions.

Integers are int64 (or uint64 as `Uint`), doubles are floats, lists and maps those of Python;
timestamps are aware datetimes, durations timedeltas. Kubernetes' own types are in
`numakube.cel.kubernetes_types`, and register here how they are called. Follows cel-go 0.29.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from zoneinfo import ZoneInfo

from numakube.cel.cel_errors import EvaluationError
from numakube.errors import InvalidValue
from numakube.values.gotext import go_number
from numakube.values.quantity import Quantity
from numakube.values.times import MICROSECOND, parse_time
from numakube.values.times import parse_duration as go_nanoseconds

if TYPE_CHECKING:
    from collections.abc import Callable


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


@dataclass(frozen=True, slots=True)
class TypeValue:
    """A type as a value: what ``type(x)`` returns."""

    name: str


class MapWithDefault(dict[Any, Any]):
    """A map whose unknown keys have the value *default* when they are looked up.

    They are still not in the map: ``in``, ``size`` and loops do not see them.
    """

    def __init__(self, entries: dict[Any, Any], default: CelValue) -> None:
        super().__init__(entries)
        self.default = default


class Growing(list[Any]):
    """The list that a loop collects into; adding to it changes it in place."""


class GrowingMap(dict[Any, Any]):
    """The map that a loop collects into; inserting changes it in place."""


NONE: Final = Optional(present=False)

_TYPE_NAMES: Final[dict[type, str]] = {
    bool: "bool",
    Uint: "uint",
    int: "int",
    float: "double",
    str: "string",
    bytes: "bytes",
    list: "list",
    dict: "map",
    MapWithDefault: "map",
    datetime: "google.protobuf.Timestamp",
    timedelta: "google.protobuf.Duration",
    Optional: "optional_type",
    TypeValue: "type",
    Quantity: "kubernetes.Quantity",
    type(None): "null_type",
}
_OPAQUE: Final[set[type]] = {Quantity}


def register_type(kind: type, name: str) -> None:
    """Have values of the Python class *kind* called *name*; they equal values of their kind only.

    Comparing one with a value of another type is an error, as for all types of Kubernetes.
    """
    _TYPE_NAMES[kind] = name
    _OPAQUE.add(kind)


def type_name(value: object) -> str:
    """Return what CEL calls the type of *value*."""
    found = _TYPE_NAMES.get(type(value))
    if found is not None:
        return found
    return next(name for kind, name in _TYPE_NAMES.items() if isinstance(value, kind))


def is_number(value: object) -> bool:
    """Tell whether *value* is an int, uint or double."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def equal(one: CelValue, other: CelValue) -> bool:
    """Compare: numbers by value whatever their type, all else within one type."""
    if type(one) in _OPAQUE:
        if type(one) is not type(other):
            raise no_overload()
        return bool(one == other)
    if is_number(one) and is_number(other):
        return bool(one == other)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(equal, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return len(one) == len(other) and all(_same_entry(k, v, other) for k, v in one.items())
    if isinstance(one, Optional) and isinstance(other, Optional):
        return one.present == other.present and (not one.present or equal(one.value, other.value))
    return type_name(one) == type_name(other) and bool(one == other)


def equals(one: CelValue, other: CelValue) -> bool:
    """Compare as functions that search do: values that cannot be compared are not equal."""
    try:
        return equal(one, other)
    except EvaluationError:
        return False


def _same_entry(key: CelValue, value: CelValue, other: dict[Any, Any]) -> bool:
    found = find(other, key)
    return found.present and equal(value, found.value)


def find(entries: dict[Any, Any], key: CelValue) -> Optional:
    """Return the value of *key*, which is found as a number whatever its type."""
    if isinstance(key, list | dict):
        raise EvaluationError(f"unsupported key type: {type_name(key)}")
    if key in entries:
        value = entries[key]
        # Python takes true for 1, CEL does not.
        if not isinstance(key, bool | int | float) or _has_key_like(entries, key):
            return Optional(True, value)
    if isinstance(entries, MapWithDefault):
        return Optional(True, entries.default)
    return NONE


class _Probe:
    """Finds the key of a map that equals a given one, to learn of what type it is."""

    __slots__ = ("found", "key")

    def __init__(self, key: CelValue) -> None:
        self.key = key
        self.found: CelValue = None

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        self.found = other
        return bool(other == self.key)


def _has_key_like(entries: dict[Any, Any], key: CelValue) -> bool:
    if key not in (0, 1):
        return True
    probe = _Probe(key)
    return probe in entries and isinstance(probe.found, bool) == isinstance(key, bool)


def compare(one: CelValue, other: CelValue) -> int:
    """Return -1, 0 or 1; raise if the two have no order."""
    if is_number(one) and is_number(other):
        if math.isnan(one) or math.isnan(other):
            raise EvaluationError("NaN values cannot be ordered")
        return int(one > other) - int(one < other)
    ordered = isinstance(one, bool | str | bytes | datetime | timedelta)
    if not ordered or type_name(one) != type_name(other):
        raise no_overload()
    if isinstance(one, str):
        one, other = one.encode(), other.encode()
    return int(one > other) - int(one < other)


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
        return parse_time(text)
    except InvalidValue as error:
        raise EvaluationError(str(error)) from None


def timestamp_text(moment: datetime) -> str:
    """Return *moment* as CEL prints it."""
    whole = moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S")
    fraction = f".{moment.microsecond:06}".rstrip("0") if moment.microsecond else ""
    return f"{whole}{fraction}Z"


# Operators: arithmetic, negation, membership and size.
#
# An operator that the type of its first operand does not have at all is named in the error; one
# that it has, but not for the second operand, is not (cel-go 0.29).


def is_int(value: object) -> bool:
    """Tell whether *value* is an int or uint."""
    return isinstance(value, int) and not isinstance(value, bool)


def same_numbers(one: object, other: object) -> bool:
    """Tell whether both are numbers of one type."""
    return is_number(one) and is_number(other) and type(one) is type(other)


def _refused(operator: str, one: CelValue, *, known: bool) -> EvaluationError:
    """Return the error for *one*, whose type has the operator or not."""
    if known or isinstance(one, str | datetime | timedelta):
        return no_overload()
    return EvaluationError(f"no such overload: {operator}")


def add(one: CelValue, other: CelValue) -> CelValue:
    """``one + other``."""
    if same_numbers(one, other):
        return checked(one + other, one) if is_int(one) else one + other
    if isinstance(one, Growing) and isinstance(other, list):
        one.extend(other)
        return one
    if any(isinstance(one, kind) and isinstance(other, kind) for kind in (str, bytes, list)):
        return one + other
    match one, other:
        case (datetime(), timedelta()) | (timedelta(), datetime() | timedelta()):
            return _in_time(lambda: one + other)
        case _:
            adds = isinstance(one, bytes | list) or is_number(one)
            raise _refused("_+_", one, known=adds)


def subtract(one: CelValue, other: CelValue) -> CelValue:
    """``one - other``."""
    if same_numbers(one, other):
        return checked(one - other, one) if is_int(one) else one - other
    match one, other:
        case (datetime(), datetime() | timedelta()) | (timedelta(), timedelta()):
            return _in_time(lambda: one - other)
        case _:
            raise _refused("_-_", one, known=is_number(one))


def _in_time(compute: Callable[[], CelValue]) -> CelValue:
    try:
        return compute()
    except OverflowError:
        raise EvaluationError("timestamp overflow") from None


def multiply(one: CelValue, other: CelValue) -> CelValue:
    """``one * other``."""
    if not same_numbers(one, other):
        raise _refused("_*_", one, known=is_number(one))
    return checked(one * other, one) if is_int(one) else one * other


def divide(one: CelValue, other: CelValue) -> CelValue:
    """``one / other``; integers are cut towards zero."""
    if not same_numbers(one, other):
        raise _refused("_/_", one, known=is_number(one))
    if is_int(one):
        if other == 0:
            raise EvaluationError("division by zero")
        quotient = abs(one) // abs(other)
        return checked(quotient if (one < 0) == (other < 0) else -quotient, one)
    if other == 0:
        return math.nan if one == 0 else math.copysign(math.inf, one) * math.copysign(1, other)
    return one / other


def modulo(one: CelValue, other: CelValue) -> CelValue:
    """``one % other``; the sign is that of *one*."""
    if not (same_numbers(one, other) and is_int(one)):
        raise _refused("_%_", one, known=is_int(one))
    if other == 0:
        raise EvaluationError("modulus by zero")
    return checked(int(math.copysign(1, one)) * (abs(one) % abs(other)), one)


def negate(value: CelValue) -> CelValue:
    """``-value``."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, Uint) or not is_number(value):
        raise _refused("-_", value, known=False)
    return checked(-value, 0) if is_int(value) else -value


def not_(value: CelValue) -> bool:
    """``!value``."""
    if not isinstance(value, bool):
        raise no_overload()
    return not value


def ordered(operator: str, holds: Callable[[int], bool]) -> Callable[[CelValue, CelValue], bool]:
    """Return the comparison *operator*, which holds for some of -1, 0 and 1."""

    def compared(one: CelValue, other: CelValue) -> bool:
        comparable = isinstance(one, bool | bytes) or is_number(one)
        if not comparable and not isinstance(one, str | datetime | timedelta):
            raise _refused(operator, one, known=False)
        return holds(compare(one, other))

    return compared


def in_(value: CelValue, container: CelValue) -> bool:
    """``value in container``; of a map the keys count."""
    if isinstance(container, dict):
        found = find(container, value)
        return found.present and value in container
    if isinstance(container, list):
        return any(equals(value, item) for item in container)
    raise no_overload()


def size(value: CelValue) -> int:
    """The number of characters, bytes, elements or keys."""
    if isinstance(value, str | bytes | list | dict):
        return len(value)
    raise _refused("size", value, known=False)


# Conversions between types, and the parts of times.


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
