"""What calls do besides what they cost: elements visited and made, and text made.

Every function whose work may exceed its cost has a line here. The work is told from the operands
before the call, at most what is left of the evaluation's limit: telling it is cheap, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from numakube.cel.cel_errors import EvaluationError
from numakube.cel.list_functions import MAX_RANGE
from numakube.cel.regular_expressions import compiled_size, repeats_of
from numakube.cel.string_format import Clause, template_pieces
from numakube.cel.values import CelValue, Growing, Optional

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numakube.cel.value_types import CelType

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


def _copied(args: Sequence[Any], most: int) -> int:
    return _size(args[0]) // 4


def _flattened(args: Sequence[Any], most: int) -> int:
    return weight(args[0], most)


def _ranged(args: Sequence[Any], most: int) -> int:
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


def _joined(args: Sequence[Any], most: int) -> int:
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
            if isinstance(piece, Clause):
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
    **dict.fromkeys(("slice", "reverse"), _copied),
    "flatten": _flattened,
    "lists.range": _ranged,
    **dict.fromkeys(("lowerAscii", "upperAscii", "strings.quote", "validate"), _text_made),
    "split": _split,
    "replace": _replaced,
    "join": _joined,
    "format": _formatted,
}
