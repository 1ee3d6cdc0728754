"""Operators: arithmetic, negation, membership and size.

An operator that the type of its first operand does not have at all is named in the error; one that
it has, but not for the second operand, is not (cel-go 0.29).
"""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from numakube.cel.cel_errors import EvaluationError
from numakube.cel.values import (
    Growing,
    Uint,
    checked,
    compare,
    equals,
    find,
    is_number,
    no_overload,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from numakube.cel.values import CelValue


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
