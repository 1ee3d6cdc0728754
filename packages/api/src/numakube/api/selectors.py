"""Label selectors in a form that is compared, hashed and asked often.

A `Selector` is what a ``LabelSelector`` amounts to: requirements on single labels that must all
hold. Each requirement judges a value, or the absence of one, so that the same rule serves a map of
labels and a column of the values of all nodes. Semantics and refusals follow
k8s.io/apimachinery/pkg/labels, 1.35.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from numakube.errors import InvalidValue
from numakube.values import names

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from numakube.api.meta import LabelSelector

IN: Final = "In"
NOT_IN: Final = "NotIn"
EXISTS: Final = "Exists"
DOES_NOT_EXIST: Final = "DoesNotExist"
GREATER: Final = "Gt"
LESS: Final = "Lt"

_LABEL_OPERATORS: Final = frozenset({IN, NOT_IN, EXISTS, DOES_NOT_EXIST})
_INTEGER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
_INT64: Final = range(-(1 << 63), 1 << 63)


@dataclass(frozen=True, slots=True)
class Requirement:
    """What the value of one label must be.

    Attributes:
        operator: one of those of objects (``In``), or ``=``, ``==`` and ``!=`` of the text form,
            which mean the same as ``In`` and ``NotIn`` with one value.
        values: those that the operator is about; exactly one for ``Gt`` and ``Lt``.
    """

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def accepts(self, value: str | None) -> bool:
        """Tell whether a label with this *value*, or none, is all right."""
        return accepts(self.operator, self.values, value)


def accepts(operator: str, values: Collection[str], value: str | None) -> bool:
    """Tell whether a label with this *value*, or none, fulfils a requirement of any selector.

    One that Kubernetes would refuse is fulfilled by nothing.
    """
    match operator:
        case "In" | "=" | "==":
            return value is not None and value in values
        case "NotIn" | "!=":
            return value is None or value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return value is not None and len(values) == 1 and _compares(operator, values, value)
        case _:
            return False


def _compares(operator: str, values: Collection[str], value: str) -> bool:
    number, bound = as_int64(value), as_int64(next(iter(values)))
    if number is None or bound is None:
        return False
    return number > bound if operator == GREATER else number < bound


def as_int64(text: str) -> int | None:
    """Return the decimal integer that *text* is, or ``None``."""
    if not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if number in _INT64 else None


@dataclass(frozen=True, slots=True)
class Selector:
    """Requirements that must all hold; ``None`` instead of any matches nothing."""

    requirements: tuple[Requirement, ...] | None = ()

    @property
    def is_empty(self) -> bool:
        """Tell whether it matches everything for want of requirements."""
        return self.requirements == ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Tell whether *labels* fulfil every requirement."""
        if self.requirements is None:
            return False
        return all(one.accepts(labels.get(one.key)) for one in self.requirements)

    def also(self, other: Selector) -> Selector:
        """Return a selector for what both match; one that matches nothing adds nothing."""
        if self.requirements is None or not other.requirements:
            return self
        return Selector(_canonical((*self.requirements, *other.requirements)))


EVERYTHING: Final = Selector(())
NOTHING: Final = Selector(None)


def selector_of(selector: LabelSelector | None) -> Selector:
    """Return what *selector* amounts to; none at all matches nothing.

    Raises:
        InvalidValue: the selector has an operator or a value that Kubernetes refuses.
    """
    if selector is None:
        return NOTHING
    if not selector.match_labels and not selector.match_expressions:
        return EVERYTHING
    return _parsed(
        tuple(selector.match_labels.items()),
        tuple(
            (expression.key, expression.operator, expression.values)
            for expression in selector.match_expressions
        ),
    )


def selects(selector: LabelSelector, labels: Mapping[str, str]) -> bool:
    """Tell whether *selector*, which is not checked, selects *labels*; an empty one selects all."""
    wanted = selector.match_labels.items()
    return all(labels.get(key) == value for key, value in wanted) and all(
        accepts(expression.operator, expression.values, labels.get(expression.key))
        for expression in selector.match_expressions
    )


def exactly(labels: Mapping[str, str]) -> Selector:
    """Return a selector for everything that has all of *labels*."""
    return Selector(_canonical(Requirement(k, IN, frozenset({v})) for k, v in labels.items()))


def requirement(key: str, operator: str, values: tuple[str, ...]) -> Requirement:
    """Return one requirement of a label or node selector.

    Raises:
        InvalidValue: Kubernetes would refuse it.
    """
    problems = [*names.qualified_name(key), *_count_problems(operator, values)]
    for value in values:
        problems += names.label_value(value)
    if problems:
        raise InvalidValue(f"requirement on {key!r}: {problems[0]}", reason=problems[0])
    return Requirement(key, operator, frozenset(values))


def _count_problems(operator: str, values: tuple[str, ...]) -> list[str]:
    match operator:
        case "In" | "NotIn":
            return [] if values else ["for 'in', 'notin' operators, values set can't be empty"]
        case "Exists" | "DoesNotExist":
            return ["values set must be empty for exists and does not exist"] if values else []
        case "Gt" | "Lt":
            if len(values) != 1:
                return ["for 'Gt', 'Lt' operators, exactly one value is required"]
            if as_int64(values[0]) is None:
                return ["for 'Gt', 'Lt' operators, the value must be an integer"]
            return []
        case _:
            return [f"{operator!r} is not a valid selector operator"]


@lru_cache(maxsize=4096)
def _parsed(
    labels: tuple[tuple[str, str], ...], expressions: tuple[tuple[str, str, tuple[str, ...]], ...]
) -> Selector:
    for _, operator, _ in expressions:
        if operator not in _LABEL_OPERATORS:
            text = f'"{operator}" is not a valid label selector operator'
            raise InvalidValue(text, reason=text)
    wanted = [(key, IN, (value,)) for key, value in labels]
    return Selector(_canonical(requirement(*expression) for expression in (*wanted, *expressions)))


def _canonical(requirements: Iterable[Requirement]) -> tuple[Requirement, ...]:
    """Return *requirements* once each and in one order, so that equal selectors are equal."""
    return tuple(sorted(set(requirements), key=lambda r: (r.key, r.operator, sorted(r.values))))
