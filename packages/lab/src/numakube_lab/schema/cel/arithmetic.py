"""Operators: arithmetic, negation, membership and access."""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from numakube_lab.schema.cel.cel_errors import EvaluationError
from numakube_lab.schema.cel.values import Uint, checked, equal, is_number, no_overload, type_name

if TYPE_CHECKING:
    from numakube_lab.schema.cel.values import CelValue


def is_int(value: object) -> bool:
    """Tell whether *value* is an int or uint."""
    return isinstance(value, int) and not isinstance(value, bool)


def same_numbers(one: object, other: object) -> bool:
    """Tell whether both are numbers of one type."""
    return is_number(one) and is_number(other) and type(one) is type(other)


def add(one: CelValue, other: CelValue) -> CelValue:
    """``one + other``."""
    if same_numbers(one, other):
        return checked(one + other, one) if is_int(one) else one + other
    if type(one) is type(other) and type(one) in (str, bytes, list):
        return one + other
    match one, other:
        case (datetime(), timedelta()) | (timedelta(), datetime() | timedelta()):
            return one + other
        case _:
            raise no_overload()


def subtract(one: CelValue, other: CelValue) -> CelValue:
    """``one - other``."""
    if same_numbers(one, other):
        return checked(one - other, one) if is_int(one) else one - other
    match one, other:
        case (datetime(), datetime() | timedelta()) | (timedelta(), timedelta()):
            return one - other
        case _:
            raise no_overload()


def multiply(one: CelValue, other: CelValue) -> CelValue:
    """``one * other``."""
    if not same_numbers(one, other):
        raise no_overload()
    return checked(one * other, one) if is_int(one) else one * other


def divide(one: CelValue, other: CelValue) -> CelValue:
    """``one / other``; integers are cut towards zero."""
    if not same_numbers(one, other):
        raise no_overload()
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
        raise no_overload()
    if other == 0:
        raise EvaluationError("modulus by zero")
    return checked(int(math.copysign(1, one)) * (abs(one) % abs(other)), one)


def negate(value: CelValue) -> CelValue:
    """``-value``."""
    if isinstance(value, Uint) or not is_number(value):
        raise no_overload()
    return checked(-value, 0) if is_int(value) else -value


def not_(value: CelValue) -> bool:
    """``!value``."""
    if not isinstance(value, bool):
        raise no_overload()
    return not value


def in_(value: CelValue, container: CelValue) -> bool:
    """``value in container``; of a map the keys count."""
    if isinstance(container, list | dict):
        return any(equal(value, item) for item in container)
    raise no_overload()


def index(container: CelValue, key: CelValue) -> CelValue:
    """``container[key]``."""
    if isinstance(container, list):
        if not is_number(key) or key != int(key):
            raise EvaluationError(f"unsupported index type '{type_name(key)}' in list")
        if not 0 <= key < len(container):
            raise EvaluationError(f"index out of bounds: {int(key)}")
        return container[int(key)]
    if isinstance(container, dict):
        for known, value in container.items():
            if equal(known, key):
                return value
        raise EvaluationError(f"no such key: {key}")
    raise no_overload()


def size(value: CelValue) -> int:
    """The number of characters, bytes, elements or keys."""
    if isinstance(value, str | bytes | list | dict):
        return len(value)
    raise no_overload()
