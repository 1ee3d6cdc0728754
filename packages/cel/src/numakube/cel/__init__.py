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
from typing import TYPE_CHECKING, Any

from numakube.cel.cel_errors import (
    CompileError,
    CostLimitExceeded,
    EvaluationError,
    EvaluationStopped,
    InstantiationError,
    Issue,
    TimeLimitExceeded,
)
from numakube.cel.checker import Checker, literal_issues
from numakube.cel.costs import MOST_WORK, UNLIMITED, Meter
from numakube.cel.parser import RESERVED, parse
from numakube.cel.planner import Frame, Planner
from numakube.cel.string_functions import compiled
from numakube.cel.syntax import Expr, Ident, children
from numakube.cel.value_types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    CelType,
    ObjectType,
    list_of,
    map_of,
    optional_of,
)
from numakube.cel.values import CelValue, Optional, parse_duration, parse_timestamp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numakube.cel.planner import Step

__all__ = [
    "BOOL",
    "BYTES",
    "DOUBLE",
    "DURATION",
    "DYN",
    "INT",
    "RESERVED",
    "STRING",
    "TIMESTAMP",
    "CelType",
    "CelValue",
    "CompileError",
    "CostLimitExceeded",
    "EvaluationError",
    "EvaluationStopped",
    "InstantiationError",
    "Issue",
    "Meter",
    "ObjectType",
    "Optional",
    "Program",
    "TimeLimitExceeded",
    "compile_expression",
    "compiled",
    "list_of",
    "map_of",
    "optional_of",
    "parse_duration",
    "parse_timestamp",
]


@dataclass(frozen=True, slots=True)
class Program:
    """An expression that was found usable."""

    text: str
    tree: Expr
    result: CelType
    step: Step

    def evaluate(
        self,
        bindings: Mapping[str, Any],
        *,
        limit: int = UNLIMITED,
        most: int = MOST_WORK,
        expired: Callable[[], bool] | None = None,
    ) -> CelValue:
        """Return its value.

        *limit* is on the cost as cel-go reckons it, *most* on all that is done; *expired* tells now
        and then whether the caller has no more time.

        Raises:
            EvaluationError: it has no value.
            EvaluationStopped: a limit was reached, or time is over.
        """
        return self.run(bindings, Meter(limit, most, expired))

    def measure(
        self,
        bindings: Mapping[str, Any],
        *,
        limit: int = UNLIMITED,
        most: int = MOST_WORK,
        expired: Callable[[], bool] | None = None,
    ) -> tuple[CelValue, int]:
        """Return its value and what computing it cost."""
        meter = Meter(limit, most, expired)
        return self.run(bindings, meter), meter.cost

    def run(self, bindings: Mapping[str, Any], meter: Meter) -> CelValue:
        """Return its value; *meter* counts what computing it takes, and stops it."""
        try:
            return self.step(Frame(dict(bindings), meter))
        except RecursionError:
            raise EvaluationError("expression is nested too deeply") from None
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            # A function that did not foresee these operands: an error of this expression alone.
            raise EvaluationError(f"cannot be evaluated: {error}") from error

    def mentions(self, name: str) -> bool:
        """Tell whether the variable *name* occurs in it."""
        return any(isinstance(node, Ident) and node.name == name for node in _nodes(self.tree))


def compile_expression(text: str, variables: Mapping[str, CelType]) -> Program:
    """Read and check *text*; raise `CompileError` or `InstantiationError` if it cannot be used."""
    tree = parse(text)
    checker = Checker(variables)
    try:
        result = checker.type_of(tree)
        issues = checker.issues or list(literal_issues(tree, checker))
        if issues:
            raise CompileError(text, sorted(issues, key=lambda issue: issue.offset))
        step = Planner(checker).plan(tree)
    except EvaluationError as error:
        raise InstantiationError(str(error)) from None
    except RecursionError:
        raise InstantiationError("expression is nested too deeply") from None
    return Program(text, tree, result, step)


def _nodes(tree: Expr) -> Iterator[Expr]:
    yield tree
    for child in children(tree):
        yield from _nodes(child)
