"""What calls cost, as Kubernetes' cost estimator and cel-go's cost tracker (0.29) reckon."""

from __future__ import annotations

import ipaddress
import math
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from numakube.cel.kubernetes_types import Network
from numakube.cel.list_functions import MAX_RANGE
from numakube.cel.named_formats import NamedFormat
from numakube.cel.values import CelValue, Optional

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Cost: TypeAlias = "Callable[[list[Any]], int]"
"""Returns the cost of a call from its operands; some of them may be errors."""

_STRING: Final = 0.1
_REGEX: Final = 0.25
_LIST: Final = 10


def call_cost(function: str, overload: str) -> Cost:
    """Return what a call of *function* costs; *overload* is empty if several were possible."""
    return (
        _BY_OVERLOAD.get((function, overload))
        or _BY_FUNCTION.get(function)
        or _BUILT_IN.get((function, overload))
        or (_equality if function in ("_==_", "_!=_") else _one)
    )


def _one(args: list[Any]) -> int:
    return 1


def size_of(value: CelValue) -> int:
    """Return the size of *value* that costs are reckoned with."""
    if isinstance(value, str | bytes | list | dict):
        return len(value)
    if isinstance(value, Optional) and value.present:
        return size_of(value.value)
    if isinstance(value, ipaddress.IPv4Address | ipaddress.IPv6Address):
        return value.max_prefixlen // 8
    return math.ceil(value.bits / 8) if isinstance(value, Network) else 1


def _traversal(value: CelValue) -> int:
    match value:
        case str():
            return int(len(value.encode()) * _STRING)
        case bytes():
            return int(len(value) * _STRING)
        case list():
            return sum(map(_traversal, value))
        case dict():
            return sum(_traversal(key) + _traversal(item) for key, item in value.items())
        case _:
            return 1


def _of_size(index: int, factor: float = _STRING) -> Cost:
    return lambda args: math.ceil(size_of(args[index]) * factor)


def _regex(args: list[Any]) -> int:
    text = math.ceil((1.0 + size_of(args[0])) * _STRING)
    return text * math.ceil(size_of(args[1]) * _REGEX)


def _equality(args: list[Any]) -> int:
    return math.ceil(min(size_of(args[0]), size_of(args[1])) * _STRING)


def _contains(args: list[Any]) -> int:
    return math.ceil(size_of(args[0]) * _STRING) * math.ceil(size_of(args[1]) * _STRING)


def _sum(args: list[Any]) -> int:
    return math.ceil((size_of(args[0]) + size_of(args[1])) * _STRING)


def _validate(args: list[Any]) -> int:
    text = math.ceil((1.0 + size_of(args[1])) * _STRING)
    pattern_size = args[0].pattern_size if isinstance(args[0], NamedFormat) else 1
    return int(text * math.ceil(pattern_size * _REGEX))


def _contains_ip(args: list[Any]) -> int:
    cost = math.ceil(2 * size_of(args[0]) * _STRING)
    return cost + (math.ceil(size_of(args[1]) * _STRING) if isinstance(args[1], str) else 0)


def _contains_cidr(args: list[Any]) -> int:
    return _contains_ip(args) + math.ceil(size_of(args[0]) * _STRING) + 1


def _ip(args: list[Any]) -> int:
    return 1 if isinstance(args[0], Network) else math.ceil(size_of(args[0]) * _STRING)


def _allocating(factor: float, size: int) -> int:
    return int(size * factor) + 1 + _LIST


def _copied(args: list[Any]) -> int:
    return _allocating(1, size_of(args[0]))


def _sliced(args: list[Any]) -> int:
    items, start, end = args
    fails = not isinstance(items, list) or not 0 <= start <= end <= len(items)
    return _allocating(1, 1 if fails else end - start)


def _ranged(args: list[Any]) -> int:
    count = args[0]
    fails = not isinstance(count, int) or not 0 <= count <= MAX_RANGE
    return _allocating(1, 1 if fails else count)


def _joined(args: list[Any]) -> int:
    items, between = args[0], size_of(args[1]) if len(args) > 1 else 0
    if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
        return 1
    size = sum(map(len, items)) + between * max(len(items) - 1, 0)
    return math.ceil(size * 2 * _STRING)


def _flatten(args: list[Any]) -> int:
    depth = args[1] if len(args) == 2 and isinstance(args[1], int) else 1
    return _allocating(depth, size_of(args[0]))


def _self_compared(index: int) -> Cost:
    def cost(args: list[Any]) -> int:
        items = args[index]
        if not items or not isinstance(items, list):
            return _allocating(2, 0)
        factor = 2 + _STRING if isinstance(items[0], str | bytes) else 2
        return _allocating(factor, len(items) ** 2)

    return cost


def _sets(factor: int) -> Cost:
    return lambda args: 1 + size_of(args[0]) * size_of(args[1]) * factor


_COMPARABLE: Final = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
_ORDERS: Final = ("_<_", "_<=_", "_>_", "_>=_")

_BY_OVERLOAD: Final[Mapping[tuple[str, str], Cost]] = {
    ("slice", "list(T).int,int"): _sliced,
    ("flatten", "list(list(T))."): _flatten,
    ("flatten", "list(dyn).int"): _flatten,
    ("lists.range", "int"): _ranged,
    ("reverse", "list(T)."): _copied,
    ("distinct", "list(T)."): _self_compared(0),
    **{("sort", f"list({kind})."): _self_compared(0) for kind in _COMPARABLE},
    **{
        ("@sortByAssociatedKeys", f"list(T).list({kind})"): _self_compared(1)
        for kind in _COMPARABLE
    },
    ("sets.contains", "list(T),list(T)"): _sets(1),
    ("sets.intersects", "list(T),list(T)"): _sets(1),
    ("sets.equivalent", "list(T),list(T)"): _sets(2),
}
_BY_FUNCTION: Final[Mapping[str, Cost]] = {
    **dict.fromkeys(
        ("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf", "includes"),
        lambda args: _traversal(args[0]),
    ),
    **dict.fromkeys(("url", "lowerAscii", "upperAscii", "substring", "trim"), _of_size(0)),
    **dict.fromkeys(("replace", "split"), _of_size(0, 2 * _STRING)),
    "join": _joined,
    **dict.fromkeys(("find", "findAll"), _regex),
    **dict.fromkeys(("cidr", "isIP", "isCIDR"), _of_size(0)),
    "ip": _ip,
    "ip.isCanonical": _of_size(0, 2 * _STRING),
    "containsIP": _contains_ip,
    "containsCIDR": _contains_cidr,
    **dict.fromkeys(("quantity", "isQuantity", "semver", "isSemver"), _of_size(0)),
    "validate": _validate,
}
_BUILT_IN: Final[Mapping[tuple[str, str], Cost]] = {
    ("startsWith", "string.string"): _of_size(1),
    ("endsWith", "string.string"): _of_size(1),
    ("bytes", "string"): _of_size(0),
    ("string", "bytes"): _of_size(0),
    ("strings.quote", "string"): _of_size(0),
    ("format", "string.list(dyn)"): _of_size(0),
    ("@in", "A,list(A)"): lambda args: size_of(args[1]),
    **{(order, f"{kind},{kind}"): _equality for order in _ORDERS for kind in ("string", "bytes")},
    ("_+_", "string,string"): _sum,
    ("_+_", "bytes,bytes"): _sum,
    ("matches", "string,string"): _regex,
    ("matches", "string.string"): _regex,
    ("contains", "string.string"): _contains,
}
