"""Whether the schema of a custom resource definition can be used.

What is wrong is reported as kube-apiserver 1.35 reports it. Not checked is the estimated cost of
rules: a rule that a real server would refuse as too expensive is accepted here.

Whether a schema is structural: every field's type is given once, outside of combinations. Inside
``allOf``, ``anyOf``, ``oneOf`` and ``not`` only values may be restricted, and only of fields that
the schema specifies outside of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from kube_lab_server.schema.custom.cel_rules import RuleBook, normalized_path, rule_variables
from kube_lab_server.schema.custom.custom_type import prune_value
from kube_lab_server.schema.custom.structural import (
    Structural,
    check_embedded,
    check_list_types,
    read_schema,
)
from kube_lab_server.schema.custom.value_validation import is_known, pattern_problem, validate_value
from numakube.api.field_errors import (
    FieldError,
    Verbatim,
    forbidden,
    invalid,
    not_supported,
    required,
)
from numakube.cel import CompileError, compile_expression
from numakube.values.gotext import go_quote

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


_X_PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
_X_EMBEDDED: Final = "x-kubernetes-embedded-resource"
_X_INT_OR_STRING: Final = "x-kubernetes-int-or-string"
_INT_OR_STRING: Final = [{"type": "integer"}, {"type": "string"}]

_ROOT: Final = "at the root"
_ITEM: Final = "for specified array items"
_FIELD: Final = "for specified object fields"

# Must not stand inside a combination, and why not.
_FORBIDDEN_INSIDE: Final = (
    ("type", "must be empty to be structural"),
    ("additionalProperties", "must be undefined to be structural"),
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    (_X_PRESERVE, "must be false to be structural"),
    (_X_EMBEDDED, "must be false to be structural"),
    (_X_INT_OR_STRING, "must be false to be structural"),
    ("x-kubernetes-list-map-keys", "must be empty to be structural"),
    ("x-kubernetes-list-type", "must be undefined to be structural"),
    ("x-kubernetes-map-type", "must be undefined to be structural"),
    ("x-kubernetes-validations", "must be empty to be structural"),
)


def check_structural(schema: Schema, path: str) -> list[FieldError]:
    """Return why *schema* is not structural, sorted by message."""
    errors = [*_check_node(schema, _ROOT, path), *_check_completeness(schema, path)]
    return sorted(errors, key=str)


def _check_node(schema: Schema, level: str, path: str) -> Iterator[FieldError]:
    yield from _check_children(schema, level, path)
    for member in (_X_PRESERVE, _X_EMBEDDED):
        if schema.get(_X_INT_OR_STRING) and schema.get(member):
            detail = f"must be false if {_X_INT_OR_STRING} is true"
            yield invalid(f"{path}.{member}", True, detail)
    yield from _check_combinations(schema, path, outside=True)
    yield from _check_type(schema, level, path)
    yield from _check_meta_fields(schema, level, path)
    if schema.get(_X_EMBEDDED) and not schema.get(_X_PRESERVE) and not schema.get("properties"):
        detail = f"must not be empty if {_X_EMBEDDED} is true without {_X_PRESERVE}"
        yield required(f"{path}.properties", detail)


def _check_children(schema: Schema, level: str, path: str) -> Iterator[FieldError]:
    items, additional = schema.get("items"), schema.get("additionalProperties")
    if schema.get("type") == "array" and items is None:
        yield required(f"{path}.items", "must be specified")
    if isinstance(items, dict):
        yield from _check_node(items, _ITEM, f"{path}.items")
    for name, child in (schema.get("properties") or {}).items():
        yield from _check_node(child, _FIELD, f"{path}.properties[{name}]")
    if additional is not None and level == _ROOT:
        yield forbidden(f"{path}.additionalProperties", "must not be used at the root")
    if isinstance(additional, dict):
        yield from _check_node(additional, _FIELD, f"{path}.additionalProperties")


def _check_type(schema: Schema, level: str, path: str) -> Iterator[FieldError]:
    kind = schema.get("type") or ""
    if schema.get(_X_EMBEDDED) and kind != "object":
        detail = f"must be object if {_X_EMBEDDED} is true"
        yield invalid(f"{path}.type", kind, detail) if kind else required(f"{path}.type", detail)
    elif not kind and not schema.get(_X_INT_OR_STRING) and not schema.get(_X_PRESERVE):
        yield required(f"{path}.type", f"must not be empty {level}")
    if schema.get(_X_EMBEDDED) and schema.get("additionalProperties") is not None:
        detail = f"must not be used if {_X_EMBEDDED} is set"
        yield forbidden(f"{path}.additionalProperties", detail)
    if level == _ROOT and kind not in ("", "object"):
        yield invalid(f"{path}.type", kind, "must be object at the root")


def _check_meta_fields(schema: Schema, level: str, path: str) -> Iterator[FieldError]:
    properties = schema.get("properties") or {}
    if level != _ROOT and not schema.get(_X_EMBEDDED):
        return
    for name, wanted in (("kind", "string"), ("apiVersion", "string"), ("metadata", "object")):
        kind = properties.get(name, {}).get("type") or ""
        if name in properties and kind != wanted:
            place = f"{path}.properties[{name}].type"
            yield invalid(place, kind, f"must be {wanted}")
    if level == _ROOT and not _says_only_names(properties.get("metadata") or {}):
        detail = (
            "must not specify anything other than name and generateName, "
            "but metadata is implicitly specified"
        )
        yield forbidden(f"{path}.properties[metadata]", detail)


def _says_only_names(metadata: Schema) -> bool:
    said = {name for name in metadata if name not in ("type", "default")}
    names = (metadata.get("properties") or {}).keys()
    return said <= {"properties"} and names <= {"name", "generateName"}


def _check_combinations(schema: Schema, path: str, *, outside: bool) -> Iterator[FieldError]:
    any_of, all_of = schema.get("anyOf") or [], schema.get("allOf") or []
    if not (outside and any_of == _INT_OR_STRING):
        yield from _check_parts(any_of, f"{path}.anyOf")
    first_is_pattern = outside and bool(all_of) and all_of[0].get("anyOf") == _INT_OR_STRING
    for index, part in enumerate(all_of):
        place = f"{path}.allOf[{index}]"
        rest = {k: v for k, v in part.items() if k != "anyOf"}
        yield from _check_inside(rest if first_is_pattern and index == 0 else part, place)
    yield from _check_parts(schema.get("oneOf") or [], f"{path}.oneOf")
    if isinstance(schema.get("not"), dict):
        yield from _check_inside(schema["not"], f"{path}.not")
    if (pattern := schema.get("pattern")) and (problem := pattern_problem(pattern)):
        detail = f"must be a valid regular expression, but isn't: {problem}"
        yield invalid(f"{path}.pattern", pattern, detail)


def _check_parts(parts: list[Schema], path: str) -> Iterator[FieldError]:
    for index, part in enumerate(parts):
        yield from _check_inside(part, f"{path}[{index}]")


def _check_inside(schema: Schema, path: str) -> Iterator[FieldError]:
    yield from _check_combinations(schema, path, outside=False)
    if isinstance(schema.get("items"), dict):
        yield from _check_inside(schema["items"], f"{path}.items")
    properties = schema.get("properties") or {}
    for name, child in properties.items():
        yield from _check_inside(child, f"{path}.properties[{name}]")
    for member, detail in _FORBIDDEN_INSIDE:
        if schema.get(member) or (member == "default" and schema.get(member) is not None):
            yield forbidden(f"{path}.{member}", detail)
    if "metadata" in properties:
        detail = "must not be specified in a nested context"
        yield forbidden(f"{path}.properties[metadata]", detail)


def _check_completeness(schema: Schema, path: str) -> Iterator[FieldError]:
    for place, part in _parts(schema, path):
        yield from _check_specified(part, schema, place, path)
    for name, child in (schema.get("properties") or {}).items():
        yield from _check_completeness(child, f"{path}.properties[{name}]")
    for member in ("items", "additionalProperties"):
        if isinstance(schema.get(member), dict):
            yield from _check_completeness(schema[member], f"{path}.{member}")


def _parts(schema: Mapping[str, Any], path: str) -> Iterator[tuple[str, Schema]]:
    for member in ("allOf", "anyOf", "oneOf"):
        for index, part in enumerate(schema.get(member) or []):
            yield f"{path}.{member}[{index}]", part
    if isinstance(schema.get("not"), dict):
        yield f"{path}.not", schema["not"]


def _check_specified(part: Schema, outside: Schema, place: str, path: str) -> Iterator[FieldError]:
    """Check that what *part* restricts is specified in *outside*."""
    specified = outside.get("properties") or {}
    for name, child in (part.get("properties") or {}).items():
        where = f"{place}.properties[{name}]"
        if name in specified:
            yield from _check_specified(child, specified[name], where, f"{path}.properties[{name}]")
        else:
            yield required(f"{path}.properties[{name}]", f"because it is defined in {where}")
    if isinstance(part.get("items"), dict):
        items = outside.get("items")
        if isinstance(items, dict):
            yield from _check_specified(part["items"], items, f"{place}.items", f"{path}.items")
        else:
            yield required(f"{path}.items", f"because it is defined in {place}.items")
    for deeper, nested in _parts(part, place):
        yield from _check_specified(nested, outside, deeper, path)


Schema = dict[str, Any]

_TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
_REASONS: Final = (
    "FieldValueDuplicate",
    "FieldValueForbidden",
    "FieldValueInvalid",
    "FieldValueRequired",
)
_META_FIELDS: Final = frozenset({"metadata", "kind", "apiVersion"})
_UNSUPPORTED: Final = (
    "id",
    "additionalItems",
    "patternProperties",
    "definitions",
    "dependencies",
    "$ref",
)
# Go's names of what may stand at the root next to a status subresource, by their names in JSON.
_ALLOWED_AT_ROOT: Final = {
    "description": "Description",
    "type": "Type",
    "format": "Format",
    "title": "Title",
    "maximum": "Maximum",
    "exclusiveMaximum": "ExclusiveMaximum",
    "minimum": "Minimum",
    "exclusiveMinimum": "ExclusiveMinimum",
    "maxLength": "MaxLength",
    "minLength": "MinLength",
    "pattern": "Pattern",
    "maxItems": "MaxItems",
    "minItems": "MinItems",
    "uniqueItems": "UniqueItems",
    "multipleOf": "MultipleOf",
    "required": "Required",
    "items": "Items",
    "properties": "Properties",
    "externalDocs": "ExternalDocs",
    "example": "Example",
    "x-kubernetes-preserve-unknown-fields": "XPreserveUnknownFields",
    "x-kubernetes-validations": "XValidations",
}
_LINE_BREAK: Final = re.compile(r"[\n\r]")


@dataclass(frozen=True, slots=True)
class _Place:
    """What is to be known of where a part of the schema stands.

    Attributes:
        structural: the same part as a structural schema, if rules can be compiled against it.
        no_defaults: why there may be no default here; empty if there may.
        inside_meta: whether this is the kind or the metadata of an object.
        uncorrelated: the path of the list or map from which on old values cannot be told.
    """

    path: str
    structural: Structural | None
    root: bool = False
    no_defaults: str = ""
    inside_meta: bool = False
    uncorrelated: str = ""


def check_schema(schema: Schema, path: str, *, status: bool) -> Iterator[FieldError]:
    """Check a schema; *status* tells whether objects have a status of their own."""
    if status:
        yield from _check_root(schema, path)
    if schema.get("nullable"):
        yield forbidden(f"{path}.nullable", "nullable cannot be true at the root")
    structural = read_schema(schema)
    problems = check_structural(schema, path) or list(check_defaults(structural, path))
    yield from problems
    place = _Place(path, None if problems else structural, root=True)
    schema_errors: list[FieldError] = []
    rule_errors: list[FieldError] = []
    _check(schema, place, schema_errors, rule_errors)
    yield from (*schema_errors, *rule_errors)


def unrecognized_formats(schema: Schema) -> list[str]:
    """Return the formats of strings in *schema* that are not known, hence never checked."""
    name = str(schema.get("format") or "")
    unknown = name and schema.get("type") == "string" and not is_known(name)
    found = [name] if unknown else []
    place = _Place("", None)
    return found + [
        more for child, _ in _children(schema, place) for more in unrecognized_formats(child)
    ]


def _check_root(schema: Schema, path: str) -> Iterator[FieldError]:
    if schema.get("type") not in (None, "", "object"):
        detail = (
            'only "object" is allowed as the type at the root of the schema '
            "if the status subresource is enabled"
        )
        yield invalid(f"{path}.type", schema["type"], detail)
    elif any(value and name not in _ALLOWED_AT_ROOT for name, value in schema.items()):
        detail = (
            f"only [{' '.join(_ALLOWED_AT_ROOT.values())}] fields are allowed at the root of the "
            "schema if the status subresource is enabled"
        )
        yield invalid(path, Verbatim("apiextensions.JSONSchemaProps{...}"), detail)


def _check(
    schema: Schema, place: _Place, errors: list[FieldError], rule_errors: list[FieldError]
) -> None:
    """Check one part of the schema and everything in it."""
    before = len(errors)
    errors += _check_supported(schema, place)
    if schema.get("uniqueItems"):
        detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        errors.append(forbidden(f"{place.path}.uniqueItems", detail))
    if schema.get("properties") and isinstance(schema.get("additionalProperties"), dict):
        detail = "additionalProperties and properties are mutual exclusive"
        errors.append(forbidden(f"{place.path}.additionalProperties", detail))
    for child, below in _children(schema, place):
        _check(child, below, errors, rule_errors)
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        name = f"{place.path}.x-kubernetes-preserve-unknown-fields"
        errors.append(invalid(name, False, "must be true or undefined"))
    errors += check_list_types(schema, place.path)
    rules = schema.get("x-kubernetes-validations") or []
    for index, rule in enumerate(rules):
        errors += _check_rule_form(rule, f"{place.path}.x-kubernetes-validations[{index}]", place)
    if len(errors) == before and place.structural is not None:
        for index, rule in enumerate(rules):
            where = f"{place.path}.x-kubernetes-validations[{index}]"
            rule_errors += _check_rule(rule, where, place)


def _check_supported(schema: Schema, place: _Place) -> Iterator[FieldError]:
    path, kind = place.path, schema.get("type") or ""
    if kind and kind not in _TYPES:
        yield not_supported(f"{path}.type", kind, _TYPES)
    if schema.get("default") is not None and place.no_defaults:
        yield forbidden(f"{path}.default", f"must not be set {place.no_defaults}")
    for name in _UNSUPPORTED:
        if schema.get(name):
            yield forbidden(f"{path}.{name}", f"{name} is not supported")
    if kind == "null":
        detail = "type cannot be set to null, use nullable as an alternative"
        yield forbidden(f"{path}.type", detail)
    if isinstance(schema.get("items"), list):
        yield forbidden(f"{path}.items", "items must be a schema object and not an array")
    if place.inside_meta and schema.get("x-kubernetes-embedded-resource"):
        detail = "must not be used inside of resource meta"
        yield forbidden(f"{path}.x-kubernetes-embedded-resource", detail)


def _children(schema: Schema, place: _Place) -> Iterator[tuple[Schema, _Place]]:
    """Yield the parts below, in the order in which they are reported."""
    path, structural = place.path, place.structural
    below = replace(place, root=False)
    additional = schema.get("additionalProperties")
    if isinstance(additional, dict):
        reason = "inside additionalProperties applying to object metadata"
        yield (
            additional,
            replace(
                below,
                path=f"{path}.additionalProperties",
                structural=structural.additional if structural else None,
                no_defaults=reason if place.inside_meta else place.no_defaults,
            ),
        )
    for name, child in sorted((schema.get("properties") or {}).items()):
        yield child, _property_place(name, schema, place, below)
    for member in ("not", "allOf", "oneOf", "anyOf"):
        parts = schema.get(member)
        if isinstance(parts, dict):
            yield parts, replace(below, path=f"{path}.{member}", structural=None)
        for index, part in enumerate(parts if isinstance(parts, list) else ()):
            yield part, replace(below, path=f"{path}.{member}[{index}]", structural=None)
    if isinstance(schema.get("items"), dict):
        keyed = schema.get("x-kubernetes-list-type") == "map"
        yield (
            schema["items"],
            replace(
                below,
                path=f"{path}.items",
                structural=structural.items if structural else None,
                uncorrelated=place.uncorrelated or ("" if keyed else path),
            ),
        )


def _property_place(name: str, schema: Schema, place: _Place, below: _Place) -> _Place:
    atomic = schema.get("x-kubernetes-map-type") == "atomic"
    meta = (place.root or schema.get("x-kubernetes-embedded-resource")) and name in _META_FIELDS
    return replace(
        below,
        path=f"{place.path}.properties[{name}]",
        structural=place.structural.properties.get(name) if place.structural else None,
        uncorrelated=place.uncorrelated or (place.path if atomic else ""),
        inside_meta=place.inside_meta or bool(meta),
        no_defaults=f"in top-level {name}" if meta and place.root else place.no_defaults,
    )


def _check_rule_form(rule: Schema, path: str, place: _Place) -> Iterator[FieldError]:
    text, message = str(rule.get("rule") or ""), str(rule.get("message") or "")
    if not text.strip():
        yield required(f"{path}.rule", "rule is not specified")
    elif message and not message.strip():
        yield invalid(f"{path}.message", message, "must be non-empty if specified")
    elif _LINE_BREAK.search(message.strip()):
        yield invalid(f"{path}.message", message, "must not contain line breaks")
    elif _LINE_BREAK.search(text.strip()) and not message.strip():
        detail = "message must be specified if rule contains line breaks"
        yield required(f"{path}.message", detail)
    expression = str(rule.get("messageExpression") or "")
    if expression and not expression.strip():
        detail = "messageExpression must be non-empty if specified"
        yield required(f"{path}.messageExpression", detail)
    reason = rule.get("reason")
    if reason is not None and reason not in _REASONS:
        yield not_supported(f"{path}.reason", reason, _REASONS)
    yield from _check_field_path(str(rule.get("fieldPath") or ""), f"{path}.fieldPath", place)


def _check_field_path(text: str, path: str, place: _Place) -> Iterator[FieldError]:
    if text and not text.strip():
        yield invalid(path, text, "must be non-empty if specified")
    if _LINE_BREAK.search(text):
        yield invalid(path, text, "must not contain line breaks")
    if text and place.structural is not None and not _is_field(text, place.structural):
        yield invalid(path, text, "must be a valid path")


def _is_field(text: str, schema: Structural) -> bool:
    """Tell whether *text* leads to a field of *schema*."""
    here: Structural | None = schema
    for name in normalized_path(text).split("."):
        if here is None:
            return False
        here = here.properties.get(name) if here.properties else here.additional
    return here is not None and text[:1] in (".", "[")


def _check_rule(rule: Schema, path: str, place: _Place) -> Iterator[FieldError]:
    assert place.structural is not None  # noqa: S101 - the caller has looked
    variables = rule_variables(rule, place.structural, root=place.root)
    dump = Verbatim(_dump(rule))
    try:
        program = compile_expression(str(rule["rule"]).strip(), variables)
    except CompileError as error:
        yield invalid(f"{path}.rule", dump, f"compilation failed: {error}")
        return
    if program.result.name not in ("bool", "dyn"):
        yield invalid(f"{path}.rule", dump, "cel expression must evaluate to a bool")
    yield from _check_message(rule, path, dump, place)
    if program.mentions("oldSelf"):
        if place.uncorrelated:
            detail = (
                "oldSelf cannot be used on the uncorrelatable portion of the schema within "
                f"{place.uncorrelated}"
            )
            yield invalid(f"{path}.rule", rule["rule"], detail)
    elif rule.get("optionalOldSelf") is not None:
        detail = "may not be set if oldSelf is not used in rule"
        yield invalid(f"{path}.optionalOldSelf", rule["optionalOldSelf"], detail)


def _check_message(rule: Schema, path: str, dump: Verbatim, place: _Place) -> Iterator[FieldError]:
    assert place.structural is not None  # noqa: S101 - the caller has looked
    expression = rule.get("messageExpression")
    if not expression:
        return
    variables = rule_variables(rule, place.structural, root=place.root)
    try:
        program = compile_expression(str(expression).strip(), variables)
    except CompileError as error:
        detail = f"messageExpression compilation failed: {error}"
        yield invalid(f"{path}.messageExpression", dump, detail)
        return
    if program.result.name not in ("string", "dyn"):
        detail = "messageExpression must evaluate to a string"
        yield invalid(f"{path}.messageExpression", dump, detail)


def _dump(rule: Schema) -> str:
    """Return *rule* as Go prints the struct that it reads it into."""
    texts = ("rule", "Rule"), ("message", "Message"), ("messageExpression", "MessageExpression")
    shown = [f"{go}:{go_quote(str(rule.get(name) or ''))}" for name, go in texts]
    shown += [
        "Reason:(*apiextensions.FieldValueErrorReason)(nil)",
        f"FieldPath:{go_quote(str(rule.get('fieldPath') or ''))}",
        "OptionalOldSelf:(*bool)(nil)",
    ]
    return f"apiextensions.ValidationRule{{{', '.join(shown)}}}"


def check_defaults(schema: Structural, path: str) -> Iterator[FieldError]:
    """Yield what is wrong with the defaults in *schema* and below."""
    default = schema.default
    if default is not None:
        yield from _check_default(schema, path)
    if schema.items is not None:
        yield from check_defaults(schema.items, f"{path}.items")
    for name, child in schema.properties.items():
        yield from check_defaults(child, f"{path}.properties[{name}]")


def _check_default(schema: Structural, path: str) -> list[FieldError]:
    place, default = f"{path}.default", schema.default
    _, dropped = prune_value(default, schema)
    errors = [invalid(place, default, "must not have unknown fields")] if dropped else []
    problems = check_embedded(default, schema, place) or [
        _moved(error, place) for error in validate_value(schema.source, default)
    ]
    if not problems and schema.has_rules and isinstance(default, dict):
        problems = [_moved(error, place) for error in RuleBook(schema).apply(default, None)]
    return errors + problems


def _moved(error: FieldError, place: str) -> FieldError:
    """The default is checked by itself: put its place before the paths of what was found."""
    below = error.field.removeprefix("<nil>")
    separator = "." if below and not below.startswith("[") else ""
    return replace(error, field=f"{place}{separator}{below}")
