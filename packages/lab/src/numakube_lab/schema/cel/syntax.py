"""The tree of an expression. Every node knows the offset that mistakes in it are reported at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant."""

    offset: int
    value: Any


@dataclass(frozen=True, slots=True)
class Ident:
    """A name."""

    offset: int
    name: str


@dataclass(frozen=True, slots=True)
class Select:
    """``operand.field``, or with *test* whether there is such a field."""

    offset: int
    operand: Expr
    field: str
    test: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """A function, an operator (``_+_``), or a method of *target*."""

    offset: int
    function: str
    args: tuple[Expr, ...]
    target: Expr | None = None


@dataclass(frozen=True, slots=True)
class ListLiteral:
    """``[a, b]``."""

    offset: int
    items: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class MapLiteral:
    """``{a: b}``."""

    offset: int
    entries: tuple[tuple[Expr, Expr], ...]


@dataclass(frozen=True, slots=True)
class Macro:
    """``range.name(variable, body)``; a ``map`` can have a *condition* between the two."""

    offset: int
    name: str
    range: Expr
    variable: str
    body: Expr
    condition: Expr | None = None


Expr = Literal | Ident | Select | Call | ListLiteral | MapLiteral | Macro
