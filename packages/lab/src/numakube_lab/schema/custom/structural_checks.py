"""Whether a schema is structural: every field's type is given once, outside of combinations.

Inside ``allOf``, ``anyOf``, ``oneOf`` and ``not`` only values may be restricted, and only of fields
that the schema specifies outside of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from numakube.api.field_errors import FieldError, forbidden, invalid, required
from numakube_lab.schema.custom.value_validation import pattern_problem

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

Schema = dict[str, Any]


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
