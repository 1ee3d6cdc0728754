"""Every function and operator by name, and how a call finds out whether its operands are right.

Functions of lists and sets are here as well; those of strings and of Kubernetes' types have modules
of their own.
"""

from __future__ import annotations

from functools import cmp_to_key
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from numakube.cel import kubernetes_types as kinds
from numakube.cel import string_functions as texts
from numakube.cel.cel_errors import EvaluationError
from numakube.cel.kubernetes_types import NAMED_FORMATS, named, validate
from numakube.cel.string_functions import formatted
from numakube.cel.value_types import OVERLOADS
from numakube.cel.values import (
    NONE,
    CelValue,
    GrowingMap,
    Optional,
    TypeValue,
    add,
    clock,
    compare,
    divide,
    equal,
    equals,
    find,
    in_,
    modulo,
    multiply,
    negate,
    no_overload,
    not_,
    ordered,
    size,
    subtract,
    to_bool,
    to_bytes,
    to_double,
    to_duration,
    to_int,
    to_string,
    to_timestamp,
    to_uint,
    type_name,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numakube.cel.planner import Frame, Step
    from numakube.cel.value_types import CelType, Overload


# Functions of lists and sets, of cel-go's extensions (lists version 3) and of Kubernetes.


MAX_RANGE: Final = 1_000_000


def extreme(items: list[CelValue], sign: int) -> CelValue:
    """The smallest element if *sign* is negative, else the greatest."""
    if not items:
        raise EvaluationError(
            "min called on empty list" if sign < 0 else "max called on empty list"
        )
    best = items[0]
    for item in items[1:]:
        if compare(item, best) == sign:
            best = item
    return best


def total(items: list[CelValue], zero: CelValue) -> CelValue:
    """The sum of *items*; that of none is *zero*."""
    result = zero
    for item in items:
        result = add(result, item)
    return result


def is_sorted(items: list[CelValue]) -> bool:
    """Tell whether no element is followed by a smaller one."""
    return all(compare(one, other) <= 0 for one, other in pairwise(items))


def list_index(items: list[CelValue], item: CelValue) -> int:
    """Where *item* first occurs; -1 if nowhere."""
    return next((i for i, one in enumerate(items) if equals(one, item)), -1)


def last_list_index(items: list[CelValue], item: CelValue) -> int:
    """Where *item* last occurs; -1 if nowhere."""
    return max((i for i, one in enumerate(items) if equals(one, item)), default=-1)


def includes(target: CelValue, item: CelValue) -> bool:
    """Tell whether *target* has the element *item*, or is it."""
    if isinstance(target, list):
        return any(equals(one, item) for one in target)
    return equals(target, item)


def slice_list(items: list[CelValue], start: int, end: int) -> list[CelValue]:
    """The elements from *start* to before *end*."""
    what = f"cannot slice({start}, {end}), "
    if start < 0 or end < 0:
        raise EvaluationError(f"{what}negative indexes not supported")
    if start > end:
        raise EvaluationError(f"{what}start index must be less than or equal to end index")
    if len(items) < end:
        raise EvaluationError(f"{what}list is length {len(items)}")
    return items[start:end]


def flatten(items: list[CelValue], depth: int = 1) -> list[CelValue]:
    """The elements of lists within *items*, down to *depth*."""
    if depth < 0:
        raise EvaluationError("level must be non-negative")
    flat: list[Any] = []
    for item in items:
        flat += flatten(item, depth - 1) if isinstance(item, list) and depth else [item]
    return flat


def number_range(count: int) -> list[int]:
    """The numbers from 0 to before *count*."""
    if count < 0:
        raise EvaluationError(f"lists.range: size must be non-negative, got {count}")
    if count > MAX_RANGE:
        raise EvaluationError(f"lists.range: size {count} exceeds maximum allowed ({MAX_RANGE})")
    return list(range(count))


def distinct(items: list[CelValue]) -> list[CelValue]:
    """The elements, each once."""
    unique: list[Any] = []
    for item in items:
        if not any(equals(item, other) for other in unique):
            unique.append(item)
    return unique


def sort_by(items: list[CelValue], keys: list[CelValue]) -> list[CelValue]:
    """The elements in the order of their *keys*, which are of one type."""
    if len({type_name(key) for key in keys}) > 1:
        raise EvaluationError("list elements must have the same type")
    by_key = cmp_to_key(compare)
    pairs = sorted(zip(keys, items, strict=True), key=lambda pair: by_key(pair[0]))
    return [item for _, item in pairs]


def set_contains(items: list[CelValue], others: list[CelValue]) -> bool:
    """Tell whether every one of *others* is among *items*."""
    return all(in_(item, items) for item in others)


def set_equivalent(items: list[CelValue], others: list[CelValue]) -> bool:
    """Tell whether both lists have the same elements."""
    return set_contains(items, others) and set_contains(others, items)


def set_intersects(items: list[CelValue], others: list[CelValue]) -> bool:
    """Tell whether the lists have an element in common."""
    return any(in_(item, others) for item in items)


def map_insert(target: dict[Any, Any], *given: CelValue) -> CelValue:
    """Add a key with its value, or all entries of another map."""
    result = target if isinstance(target, GrowingMap) else GrowingMap(target)
    entries = given[0] if len(given) == 1 else {given[0]: given[1]}
    for key, value in entries.items():
        if find(result, key).present:
            raise EvaluationError(f"insert failed: key {key} already exists")
        result[key] = value
    return result


def first(items: list[CelValue]) -> Optional:
    """The first element, if there is one."""
    return Optional(True, items[0]) if items else NONE


def last(items: list[CelValue]) -> Optional:
    """The last element, if there is one."""
    return Optional(True, items[-1]) if items else NONE


def unwrap(items: list[CelValue]) -> list[CelValue]:
    """The values of those optionals that have one."""
    for item in items:
        if not isinstance(item, Optional):
            raise EvaluationError(f"value {item} is not optional")
    return [item.value for item in items if item.present]


CONVERSIONS: Final = frozenset(
    {"bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"}
)
"""Functions that are computed beforehand if their argument is a constant."""

_UNGUARDED: Final = frozenset(
    {"_+_", "_-_", "_*_", "_/_", "_%_", "-_", "!_", "_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_"}
    | {"@in", "size", "type", "dyn", "contains", "startsWith", "endsWith", "matches", "flatten"}
    | {"cel.@mapInsert", "sort", "@sortByAssociatedKeys"}
)
"""Functions that look at their operands themselves."""

_RUNTIME_NAMES: Final = {
    "timestamp": "google.protobuf.Timestamp",
    "duration": "google.protobuf.Duration",
    "null": "null_type",
}


def function_of(name: str, overloads: Sequence[Overload]) -> Callable[..., Any]:
    """Return the function *name*; *overloads* are those that the checker found possible."""
    act = FUNCTIONS[name]
    if name in _UNGUARDED:
        return act
    # With several possibilities, cel-go tries all overloads of the function.
    candidates = overloads if len(overloads) == 1 else OVERLOADS[name]

    def guarded(*args: CelValue) -> CelValue:
        if not any(_matches(overload, args) for overload in candidates):
            shown = ", ".join(map(type_name, args))
            raise EvaluationError(f"no such overload: {name}({shown})")
        return act(*args)

    return guarded


def _matches(overload: Overload, args: tuple[CelValue, ...]) -> bool:
    """Tell whether *args* are of the types of *overload*; of lists the first element counts."""
    return len(overload.args) == len(args) and all(map(_is_of, args, overload.args))


def _is_of(value: CelValue, kind: CelType) -> bool:
    if kind.name == "dyn" or kind.name.startswith("$"):
        return True
    if type_name(value) != _RUNTIME_NAMES.get(kind.name, kind.name):
        return False
    if isinstance(value, list) and value:
        return _is_of(value[0], kind.params[0])
    if isinstance(value, dict) and value:
        return all(map(_is_of, next(iter(value.items())), kind.params))
    return True


def _value(optional: Optional) -> CelValue:
    if not optional.present:
        raise EvaluationError("optional.none() dereference")
    return optional.value


def _non_zero(value: CelValue) -> Optional:
    zero = value is None or (value is not True and value in (0, "", b"", [], {}, False))
    return NONE if zero else Optional(True, value)


def _index_of(target: CelValue, part: CelValue, *rest: CelValue) -> int:
    if isinstance(target, list):
        return list_index(target, part)
    return texts.index_of(target, part, *rest)


def _last_index_of(target: CelValue, part: CelValue, *rest: CelValue) -> int:
    if isinstance(target, list):
        return last_list_index(target, part)
    return texts.last_index_of(target, part, *rest)


def _flatten(items: CelValue, *depth: CelValue) -> CelValue:
    if not isinstance(items, list):
        shown = f"{type_name(items)}.flatten({', '.join(map(type_name, depth))})"
        raise EvaluationError(f"no such overload: {shown}")
    return flatten(items, *depth)


def _sorted(items: CelValue, keys: CelValue | None = None) -> CelValue:
    if not isinstance(items, list):
        raise EvaluationError("no such overload: sort")
    by = items if keys is None else keys
    if by and isinstance(by[0], list | dict | None):
        raise EvaluationError("list elements must be comparable")
    return sort_by(items, by)


def _sum(items: list[CelValue]) -> CelValue:
    # The type of an empty list's sum is that of the overload; integers are the first.
    return total(items[1:], items[0]) if items else 0


def _seconds(unit: int) -> Callable[[Any], int]:
    return lambda duration: int(duration.total_seconds() / unit)


FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "_+_": add,
    "_-_": subtract,
    "_*_": multiply,
    "_/_": divide,
    "_%_": modulo,
    "-_": negate,
    "!_": not_,
    "@in": in_,
    "_==_": equal,
    "_!=_": lambda one, other: not equals(one, other),
    "_<_": ordered("_<_", lambda sign: sign < 0),
    "_<=_": ordered("_<=_", lambda sign: sign <= 0),
    "_>_": ordered("_>_", lambda sign: sign > 0),
    "_>=_": ordered("_>=_", lambda sign: sign >= 0),
    "size": size,
    "contains": texts.contains,
    "startsWith": texts.starts_with,
    "endsWith": texts.ends_with,
    "matches": texts.matches,
    "int": to_int,
    "uint": to_uint,
    "double": to_double,
    "string": to_string,
    "bytes": to_bytes,
    "bool": to_bool,
    "timestamp": to_timestamp,
    "duration": to_duration,
    "dyn": lambda value: value,
    "type": lambda value: TypeValue(type_name(value)),
    "getFullYear": clock(lambda t: t.year),
    "getMonth": clock(lambda t: t.month - 1),
    "getDate": clock(lambda t: t.day),
    "getDayOfMonth": clock(lambda t: t.day - 1),
    "getDayOfWeek": clock(lambda t: t.isoweekday() % 7),
    "getDayOfYear": clock(lambda t: t.timetuple().tm_yday - 1),
    "getHours": clock(lambda t: t.hour, _seconds(3600)),
    "getMinutes": clock(lambda t: t.minute, _seconds(60)),
    "getSeconds": clock(lambda t: t.second, _seconds(1)),
    "getMilliseconds": clock(
        lambda t: t.microsecond // 1000, lambda d: int(d.total_seconds() * 1000)
    ),
    "charAt": texts.char_at,
    "indexOf": _index_of,
    "lastIndexOf": _last_index_of,
    "lowerAscii": texts.on_ascii(str.lower),
    "upperAscii": texts.on_ascii(str.upper),
    "trim": texts.trim,
    "replace": texts.replace_text,
    "split": texts.split_text,
    "substring": texts.substring,
    "join": texts.joined,
    "format": formatted,
    "strings.quote": texts.quoted,
    "find": texts.find_match,
    "findAll": texts.find_matches,
    "isSorted": is_sorted,
    "sum": _sum,
    "min": lambda items: extreme(items, -1),
    "max": lambda items: extreme(items, 1),
    "includes": includes,
    "slice": slice_list,
    "flatten": _flatten,
    "distinct": distinct,
    "reverse": lambda items: items[::-1],
    "sort": _sorted,
    "@sortByAssociatedKeys": _sorted,
    "lists.range": number_range,
    "sets.contains": set_contains,
    "sets.equivalent": set_equivalent,
    "sets.intersects": set_intersects,
    "cel.@mapInsert": map_insert,
    "optional.of": lambda value: Optional(True, value),
    "optional.ofNonZeroValue": _non_zero,
    "optional.none": lambda: NONE,
    "optional.unwrap": unwrap,
    "unwrapOpt": unwrap,
    "value": _value,
    "hasValue": lambda optional: optional.present,
    "first": first,
    "last": last,
    "quantity": kinds.to_quantity,
    "isQuantity": kinds.attempted(kinds.to_quantity),
    "sign": lambda q: int(q.unscaled > 0) - int(q.unscaled < 0),
    "isGreaterThan": lambda one, other: one > other,
    "isLessThan": lambda one, other: one < other,
    "compareTo": kinds.order,
    "asApproximateFloat": kinds.approximate,
    "asInteger": kinds.whole,
    "isInteger": kinds.is_whole,
    "add": kinds.quantity_sum,
    "sub": kinds.quantity_difference,
    "semver": kinds.to_semver,
    "isSemver": kinds.attempted(kinds.to_semver),
    "major": lambda version: version.major,
    "minor": lambda version: version.minor,
    "patch": lambda version: version.patch,
    "url": kinds.to_url,
    "isURL": kinds.is_url,
    "getScheme": lambda url: url.parts.scheme,
    "getHost": kinds.host,
    "getHostname": kinds.hostname,
    "getPort": kinds.port,
    "getEscapedPath": kinds.escaped_path,
    "getQuery": kinds.query,
    "ip": lambda one: one.address if isinstance(one, kinds.Network) else kinds.to_address(one),
    "isIP": kinds.attempted(kinds.to_address),
    "ip.isCanonical": kinds.is_canonical,
    "family": lambda address: address.version,
    "isUnspecified": lambda address: address.is_unspecified,
    "isLoopback": lambda address: address.is_loopback,
    "isLinkLocalMulticast": kinds.is_link_local_multicast,
    "isLinkLocalUnicast": lambda address: address.is_link_local,
    "isGlobalUnicast": kinds.is_global_unicast,
    "cidr": kinds.to_network,
    "isCIDR": kinds.attempted(kinds.to_network),
    "containsIP": kinds.network_contains_address,
    "containsCIDR": kinds.network_contains_network,
    "prefixLength": lambda network: network.bits,
    "masked": lambda network: network.masked,
    "validate": validate,
    "format.named": named,
    **{f"format.{name}": lambda form=form: form for name, form in NAMED_FORMATS.items()},
}


def _or(left: Step, right: Step) -> Step:
    def step(frame: Frame) -> CelValue:
        value = left(frame)
        if not isinstance(value, Optional):
            raise no_overload()
        return value if value.present else right(frame)

    return step


def _or_value(left: Step, right: Step) -> Step:
    def step(frame: Frame) -> CelValue:
        value = left(frame)
        if not isinstance(value, Optional):
            raise no_overload()
        return value.value if value.present else right(frame)

    return step


LAZY: Final[Mapping[str, Callable[..., Step]]] = {"or": _or, "orValue": _or_value}
"""Functions that evaluate their second operand only if they need it; they cost nothing."""
