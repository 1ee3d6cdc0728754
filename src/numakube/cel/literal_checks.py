"""Checks of constants in an expression that is right otherwise (Kubernetes' AST validators).

Durations, timestamps, regular expressions and templates that are constants have to be readable,
and the elements of a literal have to be of exactly one type.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.cel.call_work import PATTERN_FUNCTIONS
from numakube.cel.cel_errors import EvaluationError, Issue
from numakube.cel.regular_expressions import compiled, compiled_size
from numakube.cel.string_format import Clause, template_pieces
from numakube.cel.syntax import Call, ListLiteral, Literal, MapLiteral, children
from numakube.cel.type_conversions import to_duration, to_timestamp
from numakube.cel.value_types import is_dyn
from numakube.errors import InvalidValue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numakube.cel.checker import Checker
    from numakube.cel.syntax import Expr
    from numakube.cel.value_types import CelType

_CHECKED: Final[dict[str, tuple[int, Callable[[str], object]]]] = {
    "duration": (0, to_duration),
    "timestamp": (0, to_timestamp),
    "matches": (0, compiled),
}
"""Which argument of a function is checked how."""

_MIXED_ALLOWED: Final = "format"
_MOST_INSTRUCTIONS: Final = 25_000
"""Instructions that all constant regular expressions of an expression may be compiled to."""


def literal_issues(tree: Expr, checker: Checker) -> Iterator[Issue]:
    """Yield what is wrong with constants in *tree*."""
    too_large = _too_large(tree)
    if too_large is not None:
        yield too_large
        return
    yield from _issues(tree, checker, mixed=False)


def _too_large(tree: Expr) -> Issue | None:
    """Return the place from which on there is too much to be compiled."""
    left, rest = _MOST_INSTRUCTIONS, [tree]
    while rest:
        node = rest.pop()
        rest.extend(reversed(children(node)))
        if isinstance(node, Call) and node.function in PATTERN_FUNCTIONS:
            pattern = next(iter(node.args[node.target is None :]), None)
            if isinstance(pattern, Literal) and isinstance(pattern.value, str):
                left -= compiled_size(pattern.value)
                if left < 0:
                    return Issue(pattern.offset, f"invalid {node.function} argument")
    return None


def _issues(tree: Expr, checker: Checker, *, mixed: bool) -> Iterator[Issue]:
    if isinstance(tree, Call):
        yield from _argument_issues(tree)
        yield from _template_issues(tree, checker)
        mixed = mixed or tree.function == _MIXED_ALLOWED
    elif isinstance(tree, ListLiteral) and not mixed:
        yield from _mixture(tree.items, tree.optional, checker)
    elif isinstance(tree, MapLiteral) and not mixed:
        yield from _mixture(tuple(key for key, _ in tree.entries), frozenset(), checker)
        yield from _mixture(tuple(value for _, value in tree.entries), tree.optional, checker)
    for child in children(tree):
        yield from _issues(child, checker, mixed=mixed)


def _argument_issues(call: Call) -> Iterator[Issue]:
    if call.function not in _CHECKED:
        return
    index, check = _CHECKED[call.function]
    argument = call.args[index] if len(call.args) > index else None
    if not isinstance(argument, Literal) or not isinstance(argument.value, str):
        return
    try:
        check(argument.value)
    except (EvaluationError, InvalidValue):
        yield Issue(argument.offset, f"invalid {call.function} argument")


def _template_issues(call: Call, checker: Checker) -> Iterator[Issue]:
    """Yield what is wrong with a constant template whose arguments are written beside it."""
    template, args = call.target, call.args[0] if call.args else None
    if call.function != _MIXED_ALLOWED or not isinstance(args, ListLiteral):
        return
    if not isinstance(template, Literal) or not isinstance(template.value, str):
        return
    used = 0
    try:
        for piece in template_pieces(template.value, len(args.items)):
            if isinstance(piece, Clause):
                yield from _clause_issues(piece, args.items[used], checker)
                used += 1
    except EvaluationError as error:
        yield Issue(call.offset, str(error))
        return
    if used < len(args.items):
        problem = (
            f"too many arguments supplied to string.format (expected {used}, got {len(args.items)})"
        )
        yield Issue(call.offset, problem)


def _clause_issues(clause: Clause, arg: Expr, checker: Checker) -> Iterator[Issue]:
    kind = checker.checked_type(arg)
    if kind.name == "dyn":
        return
    if kind.name not in _PRINTABLE[clause.letter.lower()]:
        yield Issue(arg.offset, f"error during formatting: clause cannot be used on {kind}")
    elif clause.letter == "s" and isinstance(arg, ListLiteral | MapLiteral):
        for child in children(arg):
            yield from _clause_issues(clause, child, checker)


_INTEGERS: Final = frozenset({"int", "uint"})
_PRINTABLE: Final = {
    "s": _INTEGERS
    | {"bool", "bytes", "double", "duration", "list", "map", "null", "string", "timestamp", "type"},
    "d": _INTEGERS,
    "f": frozenset({"double", "string"}),
    "e": frozenset({"double", "string"}),
    "b": _INTEGERS | {"bool"},
    "x": _INTEGERS | {"string", "bytes"},
    "o": _INTEGERS,
}
"""Which types each clause prints."""


def _mixture(
    items: tuple[Expr, ...], optional: frozenset[int], checker: Checker
) -> Iterator[Issue]:
    wanted: CelType | None = None
    for index, item in enumerate(items):
        kind = checker.checked_type(item)
        if index in optional and kind.params:
            kind = kind.params[0]
        if wanted is None:
            wanted = kind
        elif not _equivalent(wanted, kind):
            yield Issue(item.offset, f"expected type '{wanted}' but found '{kind}'")
            return


def _equivalent(one: CelType, other: CelType) -> bool:
    if one.name != other.name or len(one.params) != len(other.params):
        return False
    return all(map(_equivalent, one.params, other.params)) or (is_dyn(one) and is_dyn(other))
