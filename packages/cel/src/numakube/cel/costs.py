"""What an evaluation costs and does, and the meter that ends it.

There are two counts. The *cost* is what Kubernetes' cost estimator and cel-go's cost tracker (0.29)
charge; the *work* is what calls do besides. The meter has the reasons.
"""

from __future__ import annotations

import ipaddress
import math
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from numakube.cel.cel_errors import CostLimitExceeded, EvaluationError, TimeLimitExceeded
from numakube.cel.function_table import MAX_RANGE
from numakube.cel.kubernetes_types import NamedFormat, Network
from numakube.cel.string_functions import (
    PrintedArgument,
    compiled_size,
    repeats_of,
    template_pieces,
)
from numakube.cel.values import CelValue, Growing, Optional

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numakube.cel.value_types import CelType


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


def _copy_cost(args: list[Any]) -> int:
    return _allocating(1, size_of(args[0]))


def _sliced(args: list[Any]) -> int:
    items, start, end = args
    fails = not isinstance(items, list) or not 0 <= start <= end <= len(items)
    return _allocating(1, 1 if fails else end - start)


def _range_cost(args: list[Any]) -> int:
    count = args[0]
    fails = not isinstance(count, int) or not 0 <= count <= MAX_RANGE
    return _allocating(1, 1 if fails else count)


def _join_cost(args: list[Any]) -> int:
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
    ("lists.range", "int"): _range_cost,
    ("reverse", "list(T)."): _copy_cost,
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
    "join": _join_cost,
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


# What calls do besides what they cost: elements visited and made, and text made.
#
# Every function whose work may exceed its cost has a line here. The work is told from the operands
# before the call, at most what is left of the evaluation's limit: telling it is cheap, too.


Work: TypeAlias = "Callable[[Sequence[Any], int], int]"
"""Returns the work of a call from its operands; need not be right beyond a limit."""

_TEXT: Final = 64
"""Characters that are made as fast as one element is visited."""
_COMPARED: Final = 3
_PRINTED: Final = 8
_STEPS: Final = 32
"""Instructions of a regular expression that are done in that time."""
_COMPILED: Final = 3
_LONGEST_NUMBER: Final = 400
"""Characters of a number that is printed without a precision."""


def work_of(function: str, kinds: Iterable[CelType]) -> Work | None:
    """Return what tells the work of *function* for operands of those types; None if it is small."""
    if function in _SMALL_WITH and any(kind.name in _SMALL_WITH[function] for kind in kinds):
        return None
    return _WORK.get(function)


def weight(value: CelValue, most: int) -> int:
    """Return how many elements *value* has, deep, and its text; beyond *most* it is not counted."""
    total, rest = 0, [value]
    while rest and total <= most:
        one = rest.pop()
        total += 1
        if isinstance(one, str | bytes):
            total += len(one) // _TEXT
        elif isinstance(one, list):
            total += len(one)
            rest.extend(one[: max(most - total, 0) + 1])
        elif isinstance(one, dict):
            total += 2 * len(one)
            rest.extend([*one.keys(), *one.values()][: max(most - total, 0) + 1])
        elif isinstance(one, Optional):
            rest.append(one.value)
    return total


def _size(value: CelValue) -> int:
    return len(value) if isinstance(value, str | bytes | list | dict) else 0


def _adding(args: Sequence[Any], most: int) -> int:
    one, other = args
    if isinstance(one, list):
        # What a loop collects grows in place.
        return (0 if isinstance(one, Growing) else _size(one) // 4) + _size(other) // 4
    return (_size(one) + _size(other)) // _TEXT


def _equal(args: Sequence[Any], most: int) -> int:
    # Two values are compared until one of them ends.
    if not isinstance(args[0], list | dict | Optional):
        return 0
    return min(_comparing(one, most) for one in args)


def _comparing(value: CelValue, most: int) -> int:
    return weight(value, most // _COMPARED) * _COMPARED


def _searched(args: Sequence[Any], most: int) -> int:
    """``list.indexOf(x)``: each element is compared."""
    target, part = args[0], args[1]
    if isinstance(target, list):
        return _comparing(target, most)
    # Python looks for the last occurrence of a text with less care than for the first.
    return _size(target) * _size(part) // 1024 + (_size(target) + _size(part)) // 6


def _contained(args: Sequence[Any], most: int) -> int:
    """``x in list``."""
    return _comparing(args[1], most) if isinstance(args[1], list) else 0


def _pairs(args: Sequence[Any], most: int) -> int:
    """Each element of one list is compared with each of the other."""
    one, other = args[0], args[-1]
    times = max(_size(one), 1)
    return times * _comparing(other, most // times + 1)


def _both_ways(args: Sequence[Any], most: int) -> int:
    one, other = args
    return _pairs((one, other), most) + _pairs((other, one), most)


def _sorting(args: Sequence[Any], most: int) -> int:
    keys = args[-1]
    return _comparing(keys, most) * max(_size(keys).bit_length(), 1)


def _visited(args: Sequence[Any], most: int) -> int:
    return _comparing(args[0], most)


def _copy_work(args: Sequence[Any], most: int) -> int:
    return _size(args[0]) // 4


def _flattened(args: Sequence[Any], most: int) -> int:
    return weight(args[0], most)


def _range_work(args: Sequence[Any], most: int) -> int:
    count: CelValue = args[0]
    return count if isinstance(count, int) and 0 < count <= MAX_RANGE else 0


def _text_made(args: Sequence[Any], most: int) -> int:
    """Text as long as the first operand is made, a character at a time."""
    return _size(args[0])


def _split(args: Sequence[Any], most: int) -> int:
    text, separator = args[0], args[1]
    if not isinstance(text, str) or not isinstance(separator, str):
        return 0
    return len(text) // _TEXT + (text.count(separator) if separator else len(text))


def _replaced(args: Sequence[Any], most: int) -> int:
    text, old, new = args[:3]
    if not isinstance(text, str) or not isinstance(old, str) or not isinstance(new, str):
        return 0
    times = text.count(old)
    return (len(text) + times * len(new)) // _TEXT + times // 4


def _join_work(args: Sequence[Any], most: int) -> int:
    items = args[0]
    if not isinstance(items, list):
        return 0
    between = _size(args[1]) if len(args) > 1 else 0
    return len(items) + (sum(map(_size, items)) + between * len(items)) // _TEXT


def _formatted(args: Sequence[Any], most: int) -> int:
    template, items = args
    if not isinstance(template, str) or not isinstance(items, list):
        return 0
    precise = 0
    try:
        for piece in template_pieces(template, len(items)):
            if isinstance(piece, PrintedArgument):
                precise += _LONGEST_NUMBER + (piece.precision or 0)
    except EvaluationError:
        return len(template)
    return len(template) + precise // _TEXT + weight(items, most) * _PRINTED


def matching(pattern: CelValue) -> Work:
    """Return the work of a call with a *pattern* that is a constant."""
    size = compiled_size(pattern) if isinstance(pattern, str) else 0
    reading = _COMPILED * size + _size(pattern)
    return lambda args, most: reading + _size(args[0]) * size // _STEPS


def _matching(args: Sequence[Any], most: int) -> int:
    text, pattern = args[0], args[1]
    if not isinstance(text, str) or not isinstance(pattern, str):
        return 0
    reading = len(pattern) + repeats_of(pattern)
    if reading > most:
        return reading
    size = compiled_size(pattern)
    return reading + _COMPILED * size + len(text) * size // _STEPS


PATTERN_FUNCTIONS: Final = ("matches", "find", "findAll")
_NUMBERS: Final = frozenset({"int", "uint", "double", "timestamp", "duration"})
_SCALARS: Final = _NUMBERS | {"bool", "string", "bytes", "null"}
_SMALL_WITH: Final = {"_+_": _NUMBERS, "_==_": _SCALARS, "_!=_": _SCALARS}
"""Functions that are no work at all if one operand is of such a type."""

_WORK: Final[Mapping[str, Work]] = {
    "_+_": _adding,
    **dict.fromkeys(PATTERN_FUNCTIONS, _matching),
    **dict.fromkeys(("_==_", "_!=_"), _equal),
    "@in": _contained,
    **dict.fromkeys(("indexOf", "lastIndexOf", "includes"), _searched),
    "distinct": lambda args, most: _pairs((args[0], args[0]), most),
    **dict.fromkeys(("sets.contains", "sets.intersects"), _pairs),
    "sets.equivalent": _both_ways,
    **dict.fromkeys(("sort", "@sortByAssociatedKeys"), _sorting),
    **dict.fromkeys(("isSorted", "sum", "min", "max", "optional.unwrap", "unwrapOpt"), _visited),
    **dict.fromkeys(("slice", "reverse"), _copy_work),
    "flatten": _flattened,
    "lists.range": _range_work,
    **dict.fromkeys(("lowerAscii", "upperAscii", "strings.quote", "validate"), _text_made),
    "split": _split,
    "replace": _replaced,
    "join": _join_work,
    "format": _formatted,
}


# What an evaluation has cost and done so far, and what ends it.
#
# There are two counts. The *cost* is what cel-go would charge; Kubernetes limits it, and the limit
# is told in its words. The *work* is what calls do that their cost does not say, such as printing a
# list of a hundred thousand elements, which costs one. A unit of either is about 0.2 us or 64 bytes
# here. Both are charged before they are done. Their sum is limited as well, so that any evaluation
# ends soon, whatever it is made of; and now and then the caller is asked whether time is over.


UNLIMITED: Final = 2**64
MOST_WORK: Final = 150_000
"""Cost and work of an evaluation unless told otherwise: some 30 ms, and 10 MB."""
ERROR_WORK: Final = 20
"""What it takes to absorb an error."""
LOOK_EVERY: Final = 2_000
"""Cost and work between two looks at the clock."""


class Meter:
    """Counts cost and work.

    Attributes:
        used: cost and work so far.
    """

    __slots__ = ("_cost_limit", "_due", "_expired", "_most", "_work", "used")

    def __init__(
        self, cost_limit: int, most: int, expired: Callable[[], bool] | None = None
    ) -> None:
        self.used = 0
        self._work = 0
        self._cost_limit = cost_limit
        self._most = most
        self._expired = expired
        self._due = LOOK_EVERY if cost_limit > LOOK_EVERY < most else min(cost_limit, most)

    @property
    def cost(self) -> int:
        """What cel-go would have charged so far."""
        return self.used - self._work

    @property
    def left(self) -> int:
        """How much cost and work is still allowed."""
        return self._most - self.used

    def charge(self, cost: int) -> None:
        """Add to the cost; raise `EvaluationStopped` once a limit is reached."""
        self.used += cost
        if self.used > self._due:
            self._look()

    def spend(self, work: int) -> None:
        """Add to the work; raise `EvaluationStopped` once a limit is reached."""
        self._work += work
        self.used += work
        if self.used > self._due:
            self._look()

    def _look(self) -> None:
        if self.cost > self._cost_limit or self.used > self._most:
            raise CostLimitExceeded
        if self._expired is not None and self._expired():
            raise TimeLimitExceeded
        self._due = min(self.used + LOOK_EVERY, self._cost_limit + self._work, self._most)
