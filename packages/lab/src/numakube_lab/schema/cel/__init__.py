"""CEL, the language of ``x-kubernetes-validations``: parser, checker and evaluator.

    program = compile_expression("self.n > 0", {"self": kind})
    program.evaluate({"self": {"n": 1}})

An expression that uses anything that is not supported is refused when it is compiled; whatever
compiles is evaluated as cel-go would. Supported are the standard definitions, the string, list,
regular-expression and quantity functions of Kubernetes, ``isURL``, ``isIP`` and ``isCIDR``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from numakube_lab.schema.cel.cel_errors import CompileError, EvaluationError, Issue
from numakube_lab.schema.cel.checker import Checker
from numakube_lab.schema.cel.evaluator import evaluate
from numakube_lab.schema.cel.parser import parse
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

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numakube_lab.schema.cel.value_types import CelType
    from numakube_lab.schema.cel.values import CelValue

__all__ = ["CompileError", "EvaluationError", "Issue", "Program", "compile_expression"]


@dataclass(frozen=True, slots=True)
class Program:
    """An expression that was found usable."""

    text: str
    tree: Expr
    result: CelType

    def evaluate(self, bindings: Mapping[str, Any]) -> CelValue:
        """Return its value; raise `EvaluationError` if it has none."""
        return evaluate(self.tree, bindings)

    def mentions(self, name: str) -> bool:
        """Tell whether the variable *name* occurs in it."""
        return any(isinstance(node, Ident) and node.name == name for node in _nodes(self.tree))


def compile_expression(text: str, variables: Mapping[str, CelType]) -> Program:
    """Read and check *text*; raise `CompileError` if it cannot be used."""
    tree = parse(text)
    checker = Checker(variables)
    result = checker.type_of(tree)
    if checker.issues:
        raise CompileError(text, sorted(checker.issues, key=lambda issue: issue.offset))
    return Program(text, tree, result)


def _nodes(tree: Expr) -> Iterator[Expr]:
    yield tree
    for child in _children(tree):
        yield from _nodes(child)


def _children(tree: Expr) -> tuple[Expr, ...]:
    match tree:
        case Select():
            return (tree.operand,)
        case Call():
            return (*((tree.target,) if tree.target else ()), *tree.args)
        case ListLiteral():
            return tree.items
        case MapLiteral():
            return tuple(part for entry in tree.entries for part in entry)
        case Macro():
            condition = () if tree.condition is None else (tree.condition,)
            return (tree.range, *condition, tree.body)
        case Literal() | Ident():
            return ()
