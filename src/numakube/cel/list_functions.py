"""Functions of lists and sets, of cel-go's extensions (lists version 3) and of Kubernetes."""

from __future__ import annotations

from functools import cmp_to_key
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from numakube.cel.arithmetic import add, in_
from numakube.cel.cel_errors import EvaluationError
from numakube.cel.values import (
    NONE,
    GrowingMap,
    Optional,
    compare,
    equals,
    find,
    type_name,
)

if TYPE_CHECKING:
    from numakube.cel.values import CelValue

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
