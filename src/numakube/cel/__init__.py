"""CEL, the Common Expression Language, as Kubernetes uses it: parser, checker, evaluator and cost.

    program = compile_expression("self.n > 0", {"self": kind})
    program.evaluate({"self": {"n": 1}})

Supported are the language of cel-go 0.29 with its macros and optional types, the extensions that
Kubernetes 1.37 enables (strings, lists, sets, bindings, comprehensions with two variables), and
Kubernetes' own libraries except for authorisation. An evaluation counts what cel-go would charge
for it and can be stopped at a limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from numakube.cel.attributes import Frame
from numakube.cel.cel_errors import (
    CompileError,
    CostLimitExceeded,
    EvaluationError,
    InstantiationError,
    Issue,
)
from numakube.cel.checker import Checker
from numakube.cel.literal_checks import literal_issues
from numakube.cel.parser import parse
from numakube.cel.planner import Planner
from numakube.cel.syntax import Expr, Ident, children

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numakube.cel.attributes import Step
    from numakube.cel.value_types import CelType
    from numakube.cel.values import CelValue

__all__ = [
    "CompileError",
    "CostLimitExceeded",
    "EvaluationError",
    "InstantiationError",
    "Issue",
    "Program",
    "compile_expression",
]

_UNLIMITED: Final = 2**64


@dataclass(frozen=True, slots=True)
class Program:
    """An expression that was found usable."""

    text: str
    tree: Expr
    result: CelType
    step: Step

    def evaluate(self, bindings: Mapping[str, Any], *, limit: int = _UNLIMITED) -> CelValue:
        """Return its value; raise `EvaluationError` if it has none, or if it costs too much."""
        return self.measure(bindings, limit=limit)[0]

    def measure(
        self, bindings: Mapping[str, Any], *, limit: int = _UNLIMITED
    ) -> tuple[CelValue, int]:
        """Return its value and what computing it cost."""
        frame = Frame(dict(bindings), limit)
        value = self.step(frame)
        return value, frame.cost

    def mentions(self, name: str) -> bool:
        """Tell whether the variable *name* occurs in it."""
        return any(isinstance(node, Ident) and node.name == name for node in _nodes(self.tree))


def compile_expression(text: str, variables: Mapping[str, CelType]) -> Program:
    """Read and check *text*; raise `CompileError` or `InstantiationError` if it cannot be used."""
    tree = parse(text)
    checker = Checker(variables)
    result = checker.type_of(tree)
    issues = checker.issues or list(literal_issues(tree, checker))
    if issues:
        raise CompileError(text, sorted(issues, key=lambda issue: issue.offset))
    try:
        step = Planner(checker).plan(tree)
    except EvaluationError as error:
        raise InstantiationError(str(error)) from None
    return Program(text, tree, result, step)


def _nodes(tree: Expr) -> Iterator[Expr]:
    yield tree
    for child in children(tree):
        yield from _nodes(child)
