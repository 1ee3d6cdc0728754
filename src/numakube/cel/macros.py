"""Macros: calls that stand for a loop, a binding or a test, and are replaced when they are read.

Follows cel-go 0.29: the standard macros, those with two variables, ``cel.bind``, ``sortBy``,
``optMap`` and ``optFlatMap``. What they become decides what an evaluation costs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.cel.cel_errors import Issue
from numakube.cel.syntax import (
    ACCUMULATOR,
    Call,
    Expr,
    Fold,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    Select,
)
from numakube.errors import NumakubeError

if TYPE_CHECKING:
    from collections.abc import Callable

_SORTED: Final = "@__sortBy_input__"


class MacroError(NumakubeError):
    """A macro that was written wrongly."""

    def __init__(self, offset: int, message: str) -> None:
        super().__init__(message)
        self.issue = Issue(offset, message)


def expand(offset: int, name: str, target: Expr, args: tuple[Expr, ...]) -> Expr | None:
    """Return what ``target.name(args)`` stands for; None if it is an ordinary call."""
    if name == "bind" and isinstance(target, Ident) and target.name == "cel" and len(args) == 3:
        return _bind(offset, _name(args[0]), args[1], args[2])
    macro = _MACROS.get((name, len(args)))
    return None if macro is None else macro(offset, target, args)


def expand_has(offset: int, args: tuple[Expr, ...]) -> Expr:
    """Return what ``has(a.b)`` stands for."""
    if len(args) != 1 or not isinstance(args[0], Select):
        raise MacroError(args[0].offset if args else offset, "invalid argument to has() macro")
    return Select(offset, args[0].operand, args[0].field, test=True)


def _name(expr: Expr) -> str:
    if not isinstance(expr, Ident) or expr.name == ACCUMULATOR:
        raise MacroError(expr.offset, "argument must be a simple name")
    return expr.name


def _names(one: Expr, other: Expr) -> tuple[str, str]:
    first, second = _name(one), _name(other)
    if first == second:
        raise MacroError(other.offset, f"duplicate variable name: {first}")
    return first, second


def _bind(offset: int, name: str, value: Expr, body: Expr) -> Fold:
    nothing, no = ListLiteral(offset, ()), Literal(offset, False)
    return Fold(offset, nothing, "#unused", None, name, value, no, Ident(offset, name), body)


def _all(offset: int, body: Expr) -> tuple[Expr, Expr, Expr, Expr]:
    so_far = Ident(offset, ACCUMULATOR)
    go_on = Call(offset, "@not_strictly_false", (so_far,))
    return Literal(offset, True), go_on, Call(offset, "_&&_", (so_far, body)), so_far


def _exists(offset: int, body: Expr) -> tuple[Expr, Expr, Expr, Expr]:
    so_far = Ident(offset, ACCUMULATOR)
    go_on = Call(offset, "@not_strictly_false", (Call(offset, "!_", (so_far,)),))
    return Literal(offset, False), go_on, Call(offset, "_||_", (so_far, body)), so_far


def _exists_one(offset: int, body: Expr) -> tuple[Expr, Expr, Expr, Expr]:
    so_far, one = Ident(offset, ACCUMULATOR), Literal(offset, 1)
    step = Call(offset, "_?_:_", (body, Call(offset, "_+_", (so_far, one)), so_far))
    return Literal(offset, 0), Literal(offset, True), step, Call(offset, "_==_", (so_far, one))


def _collect(
    offset: int, start: Expr, step: Expr, condition: Expr | None
) -> tuple[Expr, Expr, Expr, Expr]:
    so_far = Ident(offset, ACCUMULATOR)
    if condition is not None:
        step = Call(offset, "_?_:_", (condition, step, so_far))
    return start, Literal(offset, True), step, so_far


def _appended(offset: int, item: Expr) -> Expr:
    return Call(offset, "_+_", (Ident(offset, ACCUMULATOR), ListLiteral(offset, (item,))))


def _one_variable(
    loop: Callable[[int, Expr], tuple[Expr, Expr, Expr, Expr]],
) -> Callable[[int, Expr, tuple[Expr, ...]], Expr]:
    def expanded(offset: int, target: Expr, args: tuple[Expr, ...]) -> Expr:
        start, condition, step, result = loop(offset, args[1])
        name = _name(args[0])
        return Fold(offset, target, name, None, ACCUMULATOR, start, condition, step, result)

    return expanded


def _two_variables(
    loop: Callable[[int, Expr], tuple[Expr, Expr, Expr, Expr]],
) -> Callable[[int, Expr, tuple[Expr, ...]], Expr]:
    def expanded(offset: int, target: Expr, args: tuple[Expr, ...]) -> Expr:
        start, condition, step, result = loop(offset, args[2])
        first, second = _names(args[0], args[1])
        return Fold(offset, target, first, second, ACCUMULATOR, start, condition, step, result)

    return expanded


def _map(offset: int, target: Expr, args: tuple[Expr, ...]) -> Expr:
    condition = args[1] if len(args) == 3 else None
    parts = _collect(offset, ListLiteral(offset, ()), _appended(offset, args[-1]), condition)
    return Fold(offset, target, _name(args[0]), None, ACCUMULATOR, *parts)


def _filter(offset: int, target: Expr, args: tuple[Expr, ...]) -> Expr:
    name = _name(args[0])
    kept = _appended(offset, Ident(args[0].offset, name))
    parts = _collect(offset, ListLiteral(offset, ()), kept, args[1])
    return Fold(offset, target, name, None, ACCUMULATOR, *parts)


def _transform_list(offset: int, target: Expr, args: tuple[Expr, ...]) -> Expr:
    first, second = _names(args[0], args[1])
    condition = args[2] if len(args) == 4 else None
    parts = _collect(offset, ListLiteral(offset, ()), _appended(offset, args[-1]), condition)
    return Fold(offset, target, first, second, ACCUMULATOR, *parts)


def _transform_map(offset: int, target: Expr, args: tuple[Expr, ...]) -> Expr:
    first, second = _names(args[0], args[1])
    condition = args[2] if len(args) == 4 else None
    inserted = (Ident(offset, ACCUMULATOR), Ident(offset, first), args[-1])
    step = Call(offset, "cel.@mapInsert", inserted)
    parts = _collect(offset, MapLiteral(offset, ()), step, condition)
    return Fold(offset, target, first, second, ACCUMULATOR, *parts)


def _transform_entry(offset: int, target: Expr, args: tuple[Expr, ...]) -> Expr:
    first, second = _names(args[0], args[1])
    condition = args[2] if len(args) == 4 else None
    step = Call(offset, "cel.@mapInsert", (Ident(offset, ACCUMULATOR), args[-1]))
    parts = _collect(offset, MapLiteral(offset, ()), step, condition)
    return Fold(offset, target, first, second, ACCUMULATOR, *parts)


def _sort_by(offset: int, target: Expr, args: tuple[Expr, ...]) -> Expr:
    if isinstance(target, Literal | MapLiteral):
        message = "sortBy can only be applied to a list, identifier, comprehension, call or select expression"  # noqa: E501
        raise MacroError(target.offset, message)
    items = Ident(offset, _SORTED)
    keys = _map(offset, items, args)
    return _bind(offset, _SORTED, target, Call(offset, "@sortByAssociatedKeys", (keys,), items))


def _opt_map(offset: int, target: Expr, args: tuple[Expr, ...]) -> Expr:
    return _if_present(offset, target, args, lambda value: Call(offset, "optional.of", (value,)))


def _opt_flat_map(offset: int, target: Expr, args: tuple[Expr, ...]) -> Expr:
    return _if_present(offset, target, args, lambda value: value)


def _if_present(
    offset: int, target: Expr, args: tuple[Expr, ...], then: Callable[[Expr], Expr]
) -> Expr:
    bound = _bind(offset, _name(args[0]), Call(offset, "value", (), target), args[1])
    present = Call(offset, "hasValue", (), target)
    return Call(offset, "_?_:_", (present, then(bound), Call(offset, "optional.none", ())))


_MACROS: Final[dict[tuple[str, int], Callable[[int, Expr, tuple[Expr, ...]], Expr]]] = {
    ("all", 2): _one_variable(_all),
    ("exists", 2): _one_variable(_exists),
    ("exists_one", 2): _one_variable(_exists_one),
    ("existsOne", 2): _one_variable(_exists_one),
    ("map", 2): _map,
    ("map", 3): _map,
    ("filter", 2): _filter,
    ("all", 3): _two_variables(_all),
    ("exists", 3): _two_variables(_exists),
    ("exists_one", 3): _two_variables(_exists_one),
    ("existsOne", 3): _two_variables(_exists_one),
    ("transformList", 3): _transform_list,
    ("transformList", 4): _transform_list,
    ("transformMap", 3): _transform_map,
    ("transformMap", 4): _transform_map,
    ("transformMapEntry", 3): _transform_entry,
    ("transformMapEntry", 4): _transform_entry,
    ("sortBy", 2): _sort_by,
    ("optMap", 2): _opt_map,
    ("optFlatMap", 2): _opt_flat_map,
}
