"""The tree of an expression. Every node knows the offset that mistakes in it are reported at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True, eq=False)
class Literal:
    """A constant."""

    offset: int
    value: Any


@dataclass(frozen=True, slots=True, eq=False)
class Ident:
    """A name."""

    offset: int
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Select:
    """``operand.field``, or with *test* whether there is such a field."""

    offset: int
    operand: Expr
    field: str
    test: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class FunctionCall:
    """A function, an operator (``_+_``), or a method of *target*.

    ``&&`` and ``||`` have as many arguments as are joined by them.
    """

    offset: int
    function: str
    args: tuple[Expr, ...]
    target: Expr | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ListLiteral:
    """``[a, ?b]``; *optional* has the positions of elements that may be missing."""

    offset: int
    items: tuple[Expr, ...]
    optional: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class MapLiteral:
    """``{a: b, ?c: d}``; *optional* has the positions of entries that may be missing."""

    offset: int
    entries: tuple[tuple[Expr, Expr], ...]
    optional: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class Fold:
    """What every macro over a list or map becomes: a loop with an accumulator.

    *second* is the other variable of a macro with two: the value beside the key or index.
    """

    offset: int
    range: Expr
    variable: str
    second: str | None
    accumulator: str
    start: Expr
    condition: Expr
    step: Expr
    result: Expr


Expr = Literal | Ident | Select | FunctionCall | ListLiteral | MapLiteral | Fold

ACCUMULATOR: Final = "@result"
"""The name of the accumulator, which no expression can spell."""


def children(tree: Expr) -> tuple[Expr, ...]:
    """Return the expressions that *tree* is directly made of."""
    match tree:
        case Select():
            return (tree.operand,)
        case FunctionCall():
            return (*((tree.target,) if tree.target else ()), *tree.args)
        case ListLiteral():
            return tree.items
        case MapLiteral():
            return tuple(part for entry in tree.entries for part in entry)
        case Fold():
            return (tree.range, tree.start, tree.condition, tree.step, tree.result)
        case Literal() | Ident():
            return ()


def qualified_name(tree: Expr) -> str | None:
    """Return ``a.b.c`` if *tree* is nothing but names joined by dots."""
    match tree:
        case Ident():
            return tree.name
        case Select(test=False):
            inner = qualified_name(tree.operand)
            return None if inner is None else f"{inner}.{tree.field}"
        case _:
            return None
