"""Gives expressions their value."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from numakube_lab.schema.cel.cel_errors import EvaluationError
from numakube_lab.schema.cel.functions import FUNCTIONS
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
from numakube_lab.schema.cel.values import CelValue, no_overload

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

Bindings = dict[str, Any]


def evaluate(expr: Expr, bindings: Mapping[str, Any]) -> CelValue:
    """Return the value of *expr*; raise `EvaluationError` if it has none."""
    return _evaluate(expr, dict(bindings))


def _evaluate(expr: Expr, bindings: Bindings) -> CelValue:
    match expr:
        case Literal():
            return expr.value
        case Ident():
            # The only other names that pass the checker are those of types.
            return bindings.get(expr.name, expr.name)
        case Select():
            return _select(expr, bindings)
        case Call():
            return _call(expr, bindings)
        case ListLiteral():
            return [_evaluate(item, bindings) for item in expr.items]
        case MapLiteral():
            return {_evaluate(k, bindings): _evaluate(v, bindings) for k, v in expr.entries}
        case Macro():
            return _MACROS[expr.name](expr, bindings)


def _select(expr: Select, bindings: Bindings) -> CelValue:
    operand = _evaluate(expr.operand, bindings)
    if not isinstance(operand, dict):
        raise no_overload()
    if expr.test:
        return expr.field in operand
    if expr.field not in operand:
        raise EvaluationError(f"no such key: {expr.field}")
    return operand[expr.field]


def _call(expr: Call, bindings: Bindings) -> CelValue:
    if expr.function in ("_&&_", "_||_"):
        parts = (partial(_evaluate, arg, bindings) for arg in expr.args)
        return _decide(parts, stop=expr.function == "_||_")
    if expr.function == "_?_:_":
        condition, yes, no = expr.args
        return _evaluate(yes if _truth(_evaluate(condition, bindings)) else no, bindings)
    operands = [] if expr.target is None else [_evaluate(expr.target, bindings)]
    operands += [_evaluate(arg, bindings) for arg in expr.args]
    try:
        return FUNCTIONS[expr.function](*operands)
    except (TypeError, AttributeError):
        # Only where static checks had nothing to go by.
        raise no_overload() from None


def _truth(value: object) -> bool:
    if not isinstance(value, bool):
        raise no_overload()
    return value


def _decide(parts: Iterable[Callable[[], Any]], *, stop: bool) -> bool:
    """Return *stop* if any part is, else the opposite.

    A part without value matters only if no other decides.
    """
    failure: EvaluationError | None = None
    for part in parts:
        try:
            if _truth(part()) is stop:
                return stop
        except EvaluationError as error:
            failure = failure or error
    if failure:
        raise failure
    return not stop


def _elements(expr: Macro, bindings: Bindings) -> list[Any]:
    ranged = _evaluate(expr.range, bindings)
    if not isinstance(ranged, list | dict):
        raise no_overload()
    return list(ranged)


def _bodies(expr: Macro, bindings: Bindings) -> Iterable[Callable[[], Any]]:
    for item in _elements(expr, bindings):
        yield partial(_evaluate, expr.body, {**bindings, expr.variable: item})


def _exists_one(expr: Macro, bindings: Bindings) -> bool:
    return sum(_truth(body()) for body in _bodies(expr, bindings)) == 1


def _filter(expr: Macro, bindings: Bindings) -> list[Any]:
    return [
        item
        for item in _elements(expr, bindings)
        if _truth(_evaluate(expr.body, {**bindings, expr.variable: item}))
    ]


def _map(expr: Macro, bindings: Bindings) -> list[Any]:
    mapped = []
    for item in _elements(expr, bindings):
        inner = {**bindings, expr.variable: item}
        if expr.condition is None or _truth(_evaluate(expr.condition, inner)):
            mapped.append(_evaluate(expr.body, inner))
    return mapped


_MACROS: dict[str, Callable[[Macro, Bindings], Any]] = {
    "all": lambda expr, bindings: _decide(_bodies(expr, bindings), stop=False),
    "exists": lambda expr, bindings: _decide(_bodies(expr, bindings), stop=True),
    "exists_one": _exists_one,
    "filter": _filter,
    "map": _map,
}
