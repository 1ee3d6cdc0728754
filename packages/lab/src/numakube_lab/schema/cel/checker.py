"""Checks an expression against the types of its variables, before there are any values.

What is found here is what a user finds when creating a definition: names and fields that do not
exist, operators and functions for which the operands have the wrong type.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube_lab.schema.cel.cel_errors import Issue
from numakube_lab.schema.cel.signatures import OVERLOADS, Overload
from numakube_lab.schema.cel.syntax import (
    Call,
    Expr,
    Ident,
    ListLiteral,
    Literal,
    Macro,
    MapLiteral,
    Select,
)
from numakube_lab.schema.cel.value_types import (
    BOOL,
    BYTES,
    DOUBLE,
    DYN,
    INT,
    NULL,
    STRING,
    UINT,
    CelType,
    ObjectType,
    fits,
    is_dyn,
    list_of,
    map_of,
    substituted,
)
from numakube_lab.schema.cel.values import Uint

if TYPE_CHECKING:
    from collections.abc import Mapping

_TYPE_NAMES: Final = frozenset(
    {"bool", "bytes", "double", "int", "list", "map", "null_type", "string", "type", "uint"}
)


class Checker:
    """Works out the type of an expression and collects what is wrong with it."""

    def __init__(self, variables: Mapping[str, CelType]) -> None:
        self._variables = dict(variables)
        self.issues: list[Issue] = []

    def type_of(self, expr: Expr) -> CelType:
        """Return the type of *expr*; dynamic where that is not known or does not exist."""
        match expr:
            case Literal():
                return _literal_type(expr.value)
            case Ident():
                return self._ident(expr)
            case Select():
                return self._select(expr)
            case Call():
                return self._call(expr)
            case ListLiteral():
                return list_of(_common([self.type_of(item) for item in expr.items]))
            case MapLiteral():
                keys = _common([self.type_of(key) for key, _ in expr.entries])
                return map_of(keys, _common([self.type_of(value) for _, value in expr.entries]))
            case Macro():
                return self._macro(expr)

    def _issue(self, offset: int, message: str) -> CelType:
        self.issues.append(Issue(offset, message))
        return DYN

    def _ident(self, expr: Ident) -> CelType:
        if expr.name in self._variables:
            return self._variables[expr.name]
        if expr.name in _TYPE_NAMES:
            return CelType("type")
        return self._undeclared(expr.offset, expr.name)

    def _undeclared(self, offset: int, name: str) -> CelType:
        return self._issue(offset, f"undeclared reference to '{name}' (in container '')")

    def _select(self, expr: Select) -> CelType:
        operand = self.type_of(expr.operand)
        found = self._field(operand, expr)
        return BOOL if expr.test else found

    def _field(self, operand: CelType, expr: Select) -> CelType:
        if is_dyn(operand):
            return DYN
        if isinstance(operand, ObjectType):
            known = operand.fields.get(expr.field)
            return known or self._issue(expr.offset, f"undefined field '{expr.field}'")
        if operand.name == "map":
            return operand.params[1]
        return self._issue(expr.offset, f"type '{operand}' does not support field selection")

    def _call(self, expr: Call) -> CelType:
        target = self.type_of(expr.target) if expr.target is not None else None
        args = [self.type_of(arg) for arg in expr.args]
        overloads = OVERLOADS.get(expr.function)
        if overloads is None:
            return self._undeclared(expr.offset, expr.function)
        found = [result for one in overloads if (result := _result(one, target, args)) is not None]
        if not found:
            return self._issue(expr.offset, _no_overload(expr.function, target, args))
        return found[0] if all(result == found[0] for result in found) else DYN

    def _macro(self, expr: Macro) -> CelType:
        element = self._element(expr)
        outer = self._variables.get(expr.variable)
        self._variables[expr.variable] = element
        if expr.condition is not None:
            self._require_bool(expr.condition)
        if expr.name == "map":
            result = list_of(self.type_of(expr.body))
        else:
            self._require_bool(expr.body)
            result = list_of(element) if expr.name == "filter" else BOOL
        del self._variables[expr.variable]
        if outer is not None:
            self._variables[expr.variable] = outer
        return result

    def _element(self, expr: Macro) -> CelType:
        ranged = self.type_of(expr.range)
        if ranged.name in ("list", "map"):
            return ranged.params[0]
        if not is_dyn(ranged):
            self._issue(
                expr.range.offset,
                f"expression of type '{ranged}' cannot be range of a comprehension "
                "(must be list, map, or dynamic)",
            )
        return DYN

    def _require_bool(self, expr: Expr) -> None:
        found = self.type_of(expr)
        if found.name not in ("bool", "dyn"):
            self._issue(expr.offset, f"expected type 'bool' but found '{found}'")


def _literal_type(value: object) -> CelType:
    kinds = (
        (bool, BOOL),
        (Uint, UINT),
        (int, INT),
        (float, DOUBLE),
        (str, STRING),
        (bytes, BYTES),
    )
    return next((kind for python, kind in kinds if isinstance(value, python)), NULL)


def _common(kinds: list[CelType]) -> CelType:
    """Return the one type of all, or the dynamic one if they differ or there are none."""
    if kinds and all(kind == kinds[0] for kind in kinds):
        return kinds[0]
    return DYN


def _result(overload: Overload, target: CelType | None, args: list[CelType]) -> CelType | None:
    """Return the type of the call if the overload takes these operands."""
    if (overload.target is None) != (target is None) or len(overload.args) != len(args):
        return None
    bound: dict[str, CelType] = {}
    if (
        overload.target is not None
        and target is not None
        and not fits(overload.target, target, bound)
    ):
        return None
    if not all(
        fits(wanted, given, bound) for wanted, given in zip(overload.args, args, strict=True)
    ):
        return None
    return substituted(overload.result, bound)


def _no_overload(function: str, target: CelType | None, args: list[CelType]) -> str:
    listed = f"({', '.join(map(str, args))})"
    applied = listed if target is None else f"{target}.{listed}"
    return f"found no matching overload for '{function}' applied to '{applied}'"
