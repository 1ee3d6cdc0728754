"""The rules of ``x-kubernetes-validations``: compiled once, applied to objects.

A rule that mentions ``oldSelf`` is about a transition: it is only applied where an update replaces
a value that can be told. What an update leaves as it was is not held against it.

What an expression sees of a custom resource: types and values by its schema. Fields whose names
are no identifiers, or words of the language, are seen under an escaped name: ``a-b`` as
``a__dash__b``, ``namespace`` as ``__namespace__``.
"""

from __future__ import annotations

import re
from base64 import b64decode
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kube_lab_server.schema.custom.structural import Structural
from kube_lab_server.schema.custom.value_validation import (
    UNKNOWN,
    Unknown,
    is_unchanged,
    old_item,
    old_member,
)
from numakube.api.field_errors import OMIT, FieldError, duplicate, forbidden, invalid, required
from numakube.cel import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    RESERVED,
    STRING,
    TIMESTAMP,
    CelType,
    CelValue,
    CompileError,
    CostLimitExceeded,
    EvaluationError,
    EvaluationStopped,
    Meter,
    ObjectType,
    Optional,
    Program,
    compile_expression,
    list_of,
    map_of,
    optional_of,
    parse_duration,
    parse_timestamp,
)
from numakube.errors import NumakubeError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kube_lab_server.schema.types import JsonValue


_WORDS: Final = RESERVED | {"true", "false", "null", "in"}
_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ESCAPES: Final = (
    ("__", "__underscores__"),
    (".", "__dot__"),
    ("-", "__dash__"),
    ("/", "__slash__"),
)
_STRING_FORMATS: Final = {
    "byte": BYTES,
    "date": TIMESTAMP,
    "date-time": TIMESTAMP,
    "datetime": TIMESTAMP,
    "duration": DURATION,
}
_TEXT: Final = Structural({"type": "string"}, type="string")
_METADATA: Final = Structural({}, type="object", properties={"name": _TEXT, "generateName": _TEXT})
_META_PROPERTIES: Final = {"apiVersion": _TEXT, "kind": _TEXT, "metadata": _METADATA}


def escaped(name: str) -> str | None:
    """Return the name under which the field is seen; None if there is none."""
    if name in _WORDS:
        return f"__{name}__"
    for text, replacement in _ESCAPES:
        name = name.replace(text, replacement)
    return name if _IDENTIFIER.fullmatch(name) else None


def as_object(schema: Structural) -> Structural:
    """Return *schema* with kind and metadata, as a whole object has them."""
    metadata = schema.properties.get("metadata")
    known = metadata.properties if metadata is not None else {}
    own = {name: known[name] for name in ("name", "generateName") if name in known}
    merged = Structural(_METADATA.source, type="object", properties={**_METADATA.properties, **own})
    return Structural(
        source=schema.source,
        type=schema.type,
        properties={**_META_PROPERTIES, **schema.properties, "metadata": merged},
        additional=schema.additional,
        rules=schema.rules,
    )


def type_of(schema: Structural) -> CelType:
    """Return the type of values of *schema*."""
    if schema.int_or_string:
        return DYN
    if schema.embedded:
        schema = as_object(schema)
    match schema.type:
        case "object":
            return _object_type(schema)
        case "array":
            return list_of(type_of(schema.items) if schema.items is not None else DYN)
        case "string":
            return _STRING_FORMATS.get(str(schema.source.get("format")), STRING)
        case "integer":
            return INT
        case "number":
            return DOUBLE
        case "boolean":
            return BOOL
        case _:
            return DYN


def _object_type(schema: Structural) -> CelType:
    if schema.additional is not None and not schema.properties:
        return map_of(STRING, type_of(schema.additional))
    fields = {
        name: type_of(child)
        for key, child in schema.properties.items()
        if (name := escaped(key)) is not None
    }
    return ObjectType("object", fields=fields)


def value_of(value: JsonValue, schema: Structural | None) -> CelValue:
    """Return *value* as an expression sees it."""
    if schema is None or value is None or schema.int_or_string:
        return value
    if schema.embedded:
        schema = as_object(schema)
    match value:
        case dict():
            return _object_value(value, schema)
        case list():
            return [value_of(item, schema.items) for item in value]
        case str():
            return _text_value(value, schema)
        case int() | float() if not isinstance(value, bool):
            return float(value) if schema.type == "number" else int(value)
        case _:
            return value


def _object_value(value: dict[str, JsonValue], schema: Structural) -> dict[str, CelValue]:
    if schema.additional is not None and not schema.properties:
        return {key: value_of(item, schema.additional) for key, item in value.items()}
    seen = {}
    for key, item in value.items():
        name = escaped(key)
        if name is not None and key in schema.properties:
            seen[name] = value_of(item, schema.properties[key])
    return seen


def _text_value(text: str, schema: Structural) -> CelValue:
    kind = (
        _STRING_FORMATS.get(str(schema.source.get("format"))) if schema.type == "string" else None
    )
    try:
        if kind is TIMESTAMP:
            return parse_timestamp(text if "T" in text else f"{text}T00:00:00Z")
        if kind is DURATION:
            return parse_duration(text)
        return b64decode(text, validate=True) if kind is BYTES else text
    except (EvaluationError, ValueError):
        # Not of its format: the schema itself complains about that.
        return text


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
class CelRule:
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


def compile_rule(source: Mapping[str, Any], schema: Structural, *, root: bool) -> CelRule:
    """Compile one rule of *schema*; raise `CompileError` if it cannot be used."""
    variables = rule_variables(source, schema, root=root)
    program = compile_expression(str(source["rule"]).strip(), variables)
    message = source.get("messageExpression")
    return CelRule(
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
        self._rules: dict[int, list[CelRule]] = {}
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


def _usable(source: Mapping[str, Any], schema: Structural, *, root: bool) -> CelRule | None:
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
    rule: CelRule, schema: Structural, value: JsonValue, old: JsonValue, path: str, budget: _Budget
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


def _failure_text(error: EvaluationError, rule: CelRule) -> str:
    if str(error).startswith("no such overload"):
        return (
            f"'{error}': call arguments did not match a supported operator, function or macro "
            f"signature for rule: {rule.summary}"
        )
    return f"{error} evaluating rule: {rule.summary}"


def _cost_text(error: CostLimitExceeded, rule: CelRule) -> str:
    return (
        f"'{error}': no further validation rules will be run due to call cost exceeds limit for "
        f"rule: {rule.summary}"
    )


def _message(rule: CelRule, bindings: dict[str, Any], budget: _Budget) -> str:
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


def _place(rule: CelRule, path: str) -> str:
    below = normalized_path(str(rule.source.get("fieldPath") or ""))
    return ".".join(part for part in (path, below) if part) or "<nil>"


def normalized_path(field_path: str) -> str:
    """Return a ``fieldPath`` (``.a['b']``) as errors show it."""
    found = _FIELD_PATH.finditer(field_path)
    return ".".join(match[1] or re.sub(r"\\(.)", r"\1", match[2]) for match in found)


def _error(rule: CelRule, path: str, value: JsonValue, detail: str) -> FieldError:
    match rule.source.get("reason"):
        case "FieldValueForbidden":
            return forbidden(path, detail)
        case "FieldValueRequired":
            return required(path, detail)
        case "FieldValueDuplicate":
            return duplicate(path, value)
        case _:
            return invalid(path, value, detail)
