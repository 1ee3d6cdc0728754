"""Values of expressions, and what CEL does with all of them: names of types, equality, order.

Integers are int64 (or uint64 as `Uint`), doubles are floats, lists and maps those of Python;
timestamps are aware datetimes, durations timedeltas. Kubernetes' own types are in modules of their
own, and register here how they are called.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeAlias

from numakube.cel.cel_errors import EvaluationError
from numakube.errors import InvalidValue
from numakube.values.quantity import Quantity
from numakube.values.times import parse_time

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
