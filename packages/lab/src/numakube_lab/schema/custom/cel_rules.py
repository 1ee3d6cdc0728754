"""The rules of ``x-kubernetes-validations``: compiled once, applied to objects.

A rule that mentions ``oldSelf`` is about a transition: it is only applied where an update replaces
a value that can be told. What an update leaves as it was is not held against it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from numakube.api.field_errors import OMIT, FieldError, duplicate, forbidden, invalid, required
from numakube.cel import (
    CompileError,
    CostLimitExceeded,
    EvaluationError,
    EvaluationStopped,
    Meter,
    Program,
    compile_expression,
)
from numakube.cel.value_types import optional_of
from numakube.cel.values import Optional
from numakube.errors import NumakubeError
from numakube_lab.schema.custom.cel_types import as_object, type_of, value_of
from numakube_lab.schema.custom.correlation import (
    UNKNOWN,
    Unknown,
    is_unchanged,
    old_item,
    old_member,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numakube.cel.value_types import CelType
    from numakube.cel.values import CelValue
    from numakube_lab.schema.custom.structural import Structural
    from numakube_lab.schema.types import JsonValue

_MAX_MESSAGE_BYTES: Final = 5 * 1024
_CALL_COST: Final = 1_000_000
"""What one rule may cost for one value, as on a real server."""
_OBJECT_WORK: Final = 2_000_000
"""Cost and other work of all rules for one object: about half a second.

A real server allows ten million of cost; it is faster, and has more than one thread.
"""
_NO_BUDGET: Final = (
    "validation failed due to running out of cost budget, no further validation rules will be run"
)
_FIELD_PATH: Final = re.compile(r"\.([^.\[\]]+)|\['((?:\\.|[^'\\])*)'\]")


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule that can be applied."""

    source: Mapping[str, Any]
    program: Program
    message: Program | None
    is_transition: bool

    @property
    def summary(self) -> str:
        """How the rule is named in errors about itself."""
        return str(self.source.get("message") or self.source["rule"]).strip()

    @property
    def optional_old(self) -> bool:
        """Whether the rule wants to be applied also if there is no old value."""
        return bool(self.source.get("optionalOldSelf"))


def compile_rule(source: Mapping[str, Any], schema: Structural, *, root: bool) -> Rule:
    """Compile one rule of *schema*; raise `CompileError` if it cannot be used."""
    variables = rule_variables(source, schema, root=root)
    program = compile_expression(str(source["rule"]).strip(), variables)
    message = source.get("messageExpression")
    return Rule(
        source=source,
        program=program,
        message=compile_expression(str(message).strip(), variables) if message else None,
        is_transition=program.mentions("oldSelf"),
    )


def rule_variables(
    source: Mapping[str, Any], schema: Structural, *, root: bool
) -> dict[str, CelType]:
    """Return the types of what a rule of *schema* can refer to."""
    self_type = type_of(as_object(schema) if root else schema)
    optional = bool(source.get("optionalOldSelf"))
    return {"self": self_type, "oldSelf": optional_of(self_type) if optional else self_type}


class RuleBook:
    """All rules of a schema, ready to be applied."""

    def __init__(self, schema: Structural) -> None:
        self._schema = schema
        self._rules: dict[int, list[Rule]] = {}
        for node, root in _nodes(schema, root=True):
            if node.rules:
                self._rules[id(node)] = [
                    rule for source in node.rules if (rule := _usable(source, node, root=root))
                ]

    def apply(self, obj: dict[str, Any], old: dict[str, Any] | None) -> list[FieldError]:
        """Return which rules *obj* breaks; *old* is what it replaces."""
        before = UNKNOWN if old is None else old
        budget = _Budget()
        errors: list[FieldError] = []
        try:
            errors.extend(self._check(self._schema, obj, before, "", budget))
        except _OutOfBudget as stop:
            return [*budget.errors, stop.error]
        return errors

    def _check(
        self, schema: Structural, value: JsonValue, old: JsonValue, path: str, budget: _Budget
    ) -> Iterator[FieldError]:
        if value is None or not schema.has_rules:
            return
        root = schema is self._schema
        for rule in self._rules.get(id(schema), ()):
            error = _apply(rule, as_object(schema) if root else schema, value, old, path, budget)
            if error is not None and (rule.is_transition or not is_unchanged(old, value)):
                budget.errors.append(error)
                yield error
        for child, item, before, step in _children(schema, value, old, path):
            yield from self._check(child, item, before, step, budget)


class _OutOfBudget(NumakubeError):
    """The rules cost too much; *error* says so of the object."""

    def __init__(self, error: FieldError) -> None:
        super().__init__("out of budget")
        self.error = error


class _Budget:
    """What the rules may still cost for one object.

    Attributes:
        errors: what was found wrong so far.
    """

    def __init__(self) -> None:
        self.errors: list[FieldError] = []
        self._left = _OBJECT_WORK

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left."""
        return self._left <= 0

    def evaluate(self, program: Program, bindings: Mapping[str, Any]) -> CelValue:
        """Return what *program* says, and pay for it."""
        meter = Meter(_CALL_COST, self._left)
        try:
            return program.run(bindings, meter)
        finally:
            self._left -= meter.used


def _nodes(schema: Structural, *, root: bool = False) -> Iterator[tuple[Structural, bool]]:
    yield schema, root
    for child in (*schema.properties.values(), schema.additional, schema.items):
        if child is not None:
            yield from _nodes(child)


def _usable(source: Mapping[str, Any], schema: Structural, *, root: bool) -> Rule | None:
    """Compile a rule of a stored definition, which was found usable when it was created."""
    try:
        return compile_rule(source, schema, root=root)
    except CompileError:
        return None


def _children(
    schema: Structural, value: JsonValue, old: JsonValue, path: str
) -> Iterator[tuple[Structural, JsonValue, JsonValue, str]]:
    if isinstance(value, list) and schema.items is not None:
        keys = schema.list_keys if schema.list_type == "map" else ()
        for index, item in enumerate(value):
            yield schema.items, item, old_item(old, item, keys), f"{path}[{index}]"
    elif isinstance(value, dict):
        # An atomic map is replaced as a whole: its old fields are not those of the new one.
        before = UNKNOWN if schema.atomic_map else old
        for name, item in value.items():
            if name in schema.properties:
                step = f"{path}.{name}" if path else name
                yield schema.properties[name], item, old_member(before, name), step
            elif schema.additional is not None:
                yield schema.additional, item, old_member(before, name), f"{path}[{name}]"


def _apply(
    rule: Rule, schema: Structural, value: JsonValue, old: JsonValue, path: str, budget: _Budget
) -> FieldError | None:
    has_old = not isinstance(old, Unknown) and old is not None
    if rule.is_transition and not has_old and not rule.optional_old:
        return None
    bindings = {"self": value_of(value, schema)}
    before = value_of(old, schema) if has_old else None
    bindings["oldSelf"] = Optional(has_old, before) if rule.optional_old else before
    try:
        if budget.evaluate(rule.program, bindings) is True:
            return None
    except EvaluationError as error:
        return invalid(path or "<nil>", schema.type, _failure_text(error, rule))
    except CostLimitExceeded as error:
        detail = _NO_BUDGET if budget.is_empty else _cost_text(error, rule)
        raise _OutOfBudget(invalid(path or "<nil>", schema.type, detail)) from None
    shown = OMIT if schema.type in ("object", "array") else value
    detail = _message(rule, bindings, budget)
    return _error(rule, _place(rule, path), shown, detail)


def _failure_text(error: EvaluationError, rule: Rule) -> str:
    if str(error).startswith("no such overload"):
        return (
            f"'{error}': call arguments did not match a supported operator, function or macro "
            f"signature for rule: {rule.summary}"
        )
    return f"{error} evaluating rule: {rule.summary}"


def _cost_text(error: CostLimitExceeded, rule: Rule) -> str:
    return (
        f"'{error}': no further validation rules will be run due to call cost exceeds limit for "
        f"rule: {rule.summary}"
    )


def _message(rule: Rule, bindings: dict[str, Any], budget: _Budget) -> str:
    if rule.message is not None:
        try:
            text = budget.evaluate(rule.message, bindings)
        except (EvaluationError, EvaluationStopped):
            text = None
        if isinstance(text, str) and _is_presentable(text.strip()):
            return text.strip()
    if rule.source.get("message"):
        return str(rule.source["message"]).strip()
    return f"failed rule: {rule.summary}"


def _is_presentable(text: str) -> bool:
    return bool(text) and "\n" not in text and len(text.encode()) <= _MAX_MESSAGE_BYTES


def _place(rule: Rule, path: str) -> str:
    below = normalized_path(str(rule.source.get("fieldPath") or ""))
    return ".".join(part for part in (path, below) if part) or "<nil>"


def normalized_path(field_path: str) -> str:
    """Return a ``fieldPath`` (``.a['b']``) as errors show it."""
    found = _FIELD_PATH.finditer(field_path)
    return ".".join(match[1] or re.sub(r"\\(.)", r"\1", match[2]) for match in found)


def _error(rule: Rule, path: str, value: JsonValue, detail: str) -> FieldError:
    match rule.source.get("reason"):
        case "FieldValueForbidden":
            return forbidden(path, detail)
        case "FieldValueRequired":
            return required(path, detail)
        case "FieldValueDuplicate":
            return duplicate(path, value)
        case _:
            return invalid(path, value, detail)
