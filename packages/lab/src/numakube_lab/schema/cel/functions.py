"""Every function and operator by name, and those of quantities and addresses."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from numakube.errors import InvalidValue
from numakube.values.quantity import Quantity, parse_quantity
from numakube_lab.schema.cel.arithmetic import (
    add,
    divide,
    in_,
    index,
    modulo,
    multiply,
    negate,
    not_,
    size,
    subtract,
)
from numakube_lab.schema.cel.cel_errors import EvaluationError
from numakube_lab.schema.cel.conversions import (
    clock,
    fitting,
    to_bool,
    to_bytes,
    to_double,
    to_duration,
    to_int,
    to_string,
    to_timestamp,
    to_uint,
)
from numakube_lab.schema.cel.texts import (
    char_at,
    contains,
    ends_with,
    extreme,
    find_match,
    find_matches,
    index_of,
    is_sorted,
    last_index_of,
    matches,
    on_ascii,
    replace_text,
    require_text,
    split_text,
    starts_with,
    substring,
    total,
    trim,
)
from numakube_lab.schema.cel.values import INT_RANGE, Optional, compare, equal, type_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numakube_lab.schema.cel.values import CelValue


def _quantity(text: CelValue) -> Quantity:
    require_text(text)
    try:
        return parse_quantity(text)
    except InvalidValue as error:
        raise EvaluationError(str(error)) from None


def _succeeds(act: Callable[[str], object]) -> Callable[[Any], bool]:
    def check(text: CelValue) -> bool:
        require_text(text)
        try:
            act(text)
        except (ValueError, EvaluationError):
            return False
        return True

    return check


def _as_quantity(value: CelValue) -> Quantity:
    return value if isinstance(value, Quantity) else parse_quantity(value)


def _quantity_float(value: Quantity) -> float:
    return float(value.milli_value()) / 1000


def _parse_url(text: str) -> None:
    parts = urlsplit(text)
    if not parts.scheme and not text.startswith("/"):
        raise ValueError(text)


def _parse_cidr(text: str) -> None:
    if "/" not in text:
        raise ValueError(text)
    ipaddress.ip_network(text, strict=False)


def _value(optional: Optional) -> CelValue:
    if not optional.present:
        raise EvaluationError("optional.none() dereference")
    return optional.value


FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "_+_": add,
    "_-_": subtract,
    "_*_": multiply,
    "_/_": divide,
    "_%_": modulo,
    "-_": negate,
    "!_": not_,
    "@in": in_,
    "_[_]": index,
    "_==_": equal,
    "_!=_": lambda one, other: not equal(one, other),
    "_<_": lambda one, other: compare(one, other) < 0,
    "_<=_": lambda one, other: compare(one, other) <= 0,
    "_>_": lambda one, other: compare(one, other) > 0,
    "_>=_": lambda one, other: compare(one, other) >= 0,
    "size": size,
    "contains": contains,
    "startsWith": starts_with,
    "endsWith": ends_with,
    "matches": matches,
    "int": to_int,
    "uint": to_uint,
    "double": to_double,
    "string": to_string,
    "bytes": to_bytes,
    "bool": to_bool,
    "timestamp": to_timestamp,
    "duration": to_duration,
    "dyn": lambda value: value,
    "type": type_name,
    "getFullYear": clock(lambda t: t.year),
    "getMonth": clock(lambda t: t.month - 1),
    "getDate": clock(lambda t: t.day),
    "getDayOfMonth": clock(lambda t: t.day - 1),
    "getDayOfWeek": clock(lambda t: t.isoweekday() % 7),
    "getDayOfYear": clock(lambda t: t.timetuple().tm_yday - 1),
    "getHours": clock(lambda t: t.hour, lambda d: int(d.total_seconds() // 3600)),
    "getMinutes": clock(lambda t: t.minute, lambda d: int(d.total_seconds() // 60)),
    "getSeconds": clock(lambda t: t.second, lambda d: int(d.total_seconds())),
    "getMilliseconds": clock(
        lambda t: t.microsecond // 1000, lambda d: int(d.total_seconds() * 1000)
    ),
    "charAt": char_at,
    "indexOf": index_of,
    "lastIndexOf": last_index_of,
    "lowerAscii": on_ascii(str.lower),
    "upperAscii": on_ascii(str.upper),
    "trim": trim,
    "replace": replace_text,
    "split": split_text,
    "substring": substring,
    "join": lambda items, separator="": separator.join(items),
    "find": find_match,
    "findAll": find_matches,
    "isSorted": is_sorted,
    "sum": total,
    "min": lambda items: extreme(items, -1),
    "max": lambda items: extreme(items, 1),
    "isQuantity": _succeeds(_quantity),
    "quantity": _quantity,
    "asInteger": lambda quantity: fitting(quantity.value(), INT_RANGE),
    "asApproximateFloat": _quantity_float,
    "isInteger": lambda quantity: quantity.value() in INT_RANGE,
    "isGreaterThan": lambda one, other: one > other,
    "isLessThan": lambda one, other: one < other,
    "compareTo": lambda one, other: int(one > other) - int(one < other),
    "sign": lambda quantity: int(quantity > parse_quantity(0)) - int(quantity < parse_quantity(0)),
    "add": lambda one, other: one + _as_quantity(other),
    "sub": lambda one, other: one - _as_quantity(other),
    "isURL": _succeeds(_parse_url),
    "isIP": _succeeds(ipaddress.ip_address),
    "isCIDR": _succeeds(_parse_cidr),
    "hasValue": lambda optional: optional.present,
    "value": _value,
    "orValue": lambda optional, other: optional.value if optional.present else other,
}
