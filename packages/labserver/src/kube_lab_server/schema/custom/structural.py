"""The schema of a custom resource, read once into a form that is quick to walk.

A structural schema says of every field what it is, so that objects can be pruned, defaulted and
merged by it. What it says about values (``minimum``, ``pattern``, ``anyOf``...) stays in the JSON
it came from, which `value_validation` reads.

Lists with keys, sets and embedded objects: in custom resources, and what schemas say of them.

Fields that objects of a custom kind can be selected by: whether they can.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from kube_lab_server.schema.builtin_types import OBJECT_META
from kube_lab_server.schema.go_decoding import check
from kube_lab_server.schema.metadata_checks import validate_metadata
from kube_lab_server.schema.types import (
    Field,
    ListType,
    MapType,
    Relation,
    Scalar,
    ScalarKind,
    Struct,
    Type,
    Untyped,
)
from numakube.api.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
    too_many,
)
from numakube.values.names import dns_1035_label, path_segment

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kube_lab_server.schema.types import JsonValue


_PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
_UNTYPED: Final = Untyped("interface {}")
_SCALARS: Final = {
    "string": Scalar(ScalarKind.STRING, "string"),
    "boolean": Scalar(ScalarKind.BOOLEAN, "bool"),
    "integer": Scalar(ScalarKind.INT64, "int64"),
    "number": Scalar(ScalarKind.NUMBER, "float64"),
}
_INT_OR_STRING: Final = Scalar(ScalarKind.INT_OR_STRING, "intstr.IntOrString")


@dataclass(frozen=True, eq=False)
class Structural:
    """One place of a schema.

    Attributes:
        source: the JSON that it was read from.
        type: ``object``, ``array``, a scalar's, or empty where anything or an int-or-string may be.
        properties: fields by name.
        additional: the schema of other keys; None if there are none or nothing is said of them.
        items: the schema of elements.
        preserves_unknown: whether unknown fields are kept here.
        embedded: whether this is a whole object, with kind and metadata.
    """

    source: Mapping[str, Any]
    type: str = ""
    properties: Mapping[str, Structural] = field(default_factory=dict)
    additional: Structural | None = None
    items: Structural | None = None
    preserves_unknown: bool = False
    embedded: bool = False
    int_or_string: bool = False
    nullable: bool = False
    list_type: str = ""
    list_keys: tuple[str, ...] = ()
    atomic_map: bool = False
    rules: tuple[Mapping[str, Any], ...] = ()

    @property
    def default(self) -> Any:  # noqa: ANN401 - JSON is anything
        """The default, or None if there is none."""
        return self.source.get("default")

    @cached_property
    def has_rules(self) -> bool:
        """Whether rules are declared here or anywhere below."""
        below = [*self.properties.values(), self.additional, self.items]
        return bool(self.rules) or any(child.has_rules for child in below if child is not None)


EMPTY: Final = Structural({})


def read_schema(source: Mapping[str, Any]) -> Structural:
    """Read an ``openAPIV3Schema``."""
    additional, items = source.get("additionalProperties"), source.get("items")
    return Structural(
        source=source,
        type=source.get("type") or "",
        properties={k: read_schema(v) for k, v in (source.get("properties") or {}).items()},
        additional=_read_additional(additional),
        items=read_schema(items) if isinstance(items, dict) else None,
        preserves_unknown=bool(source.get(_PRESERVE)),
        embedded=bool(source.get("x-kubernetes-embedded-resource")),
        int_or_string=bool(source.get("x-kubernetes-int-or-string")),
        nullable=bool(source.get("nullable")),
        list_type=source.get("x-kubernetes-list-type") or "",
        list_keys=tuple(source.get("x-kubernetes-list-map-keys") or ()),
        atomic_map=source.get("x-kubernetes-map-type") == "atomic",
        rules=tuple(source.get("x-kubernetes-validations") or ()),
    )


def _read_additional(additional: object) -> Structural | None:
    """``additionalProperties: true`` allows other keys, but specifies nothing below them."""
    if isinstance(additional, dict):
        return read_schema(additional)
    return EMPTY if additional is True else None


def struct_of(schema: Structural, *, name: str, metadata: Type) -> Struct:
    """Return the type of a kind's objects, for server-side apply."""
    root = _struct(schema, name=name, preserves=schema.preserves_unknown)
    root.fields.update(_meta_fields(metadata))
    return root


def _meta_fields(metadata: Type) -> dict[str, Field]:
    return {
        "apiVersion": Field("apiVersion", _SCALARS["string"]),
        "kind": Field("kind", _SCALARS["string"]),
        "metadata": Field("metadata", metadata),
    }


def _type_of(schema: Structural, *, preserves: bool) -> Type:
    """Return the type of values; *preserves* is inherited from above, as the server does it."""
    preserves = preserves or schema.preserves_unknown
    if schema.int_or_string:
        return _INT_OR_STRING
    match schema.type:
        case "object":
            return _object_type(schema, preserves=preserves)
        case "array":
            return _list_type(schema, preserves=preserves)
        case "string" | "boolean" | "integer" | "number":
            return _SCALARS[schema.type]
        case _:
            return _UNTYPED


def _object_type(schema: Structural, *, preserves: bool) -> Type:
    if schema.properties:
        return _struct(schema, name="", preserves=preserves)
    element = _type_of(schema.additional, preserves=preserves) if schema.additional else _UNTYPED
    return MapType(element, f"map[string]{element.go}", atomic=schema.atomic_map)


def _struct(schema: Structural, *, name: str, preserves: bool) -> Struct:
    unknown: Type | None = None
    if schema.additional is not None:
        unknown = _type_of(schema.additional, preserves=preserves)
    elif preserves or not schema.properties:
        unknown = _UNTYPED
    struct = Struct(name, name or "struct", atomic=schema.atomic_map, unknown=unknown)
    for key, child in schema.properties.items():
        kind = _type_of(child, preserves=preserves)
        struct.fields[key] = Field(key, kind, pointer=True, default=child.default)
    return struct


def _list_type(schema: Structural, *, preserves: bool) -> Type:
    element = _type_of(schema.items, preserves=preserves) if schema.items else _UNTYPED
    relation = {"set": Relation.SET, "map": Relation.MAP}.get(schema.list_type, Relation.ATOMIC)
    return ListType(element, f"[]{element.go}", relation, schema.list_keys)


def _children(
    value: JsonValue, schema: Structural, path: str
) -> Iterator[tuple[JsonValue, Structural, str]]:
    """Yield what is below *value* with its schema and path, as far as the schema knows it."""
    if isinstance(value, list) and schema.items is not None:
        for index, item in enumerate(value):
            yield item, schema.items, f"{path}[{index}]"
    elif isinstance(value, dict):
        for name, item in value.items():
            if name in schema.properties:
                yield item, schema.properties[name], f"{path}.{name}" if path else name
            elif schema.additional is not None:
                yield item, schema.additional, f"{path}[{name}]"


def check_lists(value: JsonValue, schema: Structural, path: str = "") -> list[FieldError]:
    """Return the elements of sets and keyed lists that repeat others."""
    errors: list[FieldError] = []
    if isinstance(value, list) and schema.list_type == "set":
        errors += [duplicate(f"{path}[{index}]", value[index]) for index in _repeated(value)]
    elif isinstance(value, list) and schema.list_type == "map":
        errors += _keyed(value, schema, path)
    for child in _children(value, schema, path):
        errors += check_lists(*child)
    return errors


def _keyed(value: list[JsonValue], schema: Structural, path: str) -> Iterator[FieldError]:
    for index, item in enumerate(value):
        if item is not None and not isinstance(item, dict):
            text = "must be an object for an array of list-type map"
            yield invalid(f"{path}[{index}]", item, text)
            return
    keys = [
        {k: item[k] for k in schema.list_keys if k in item} for item in (i or {} for i in value)
    ]
    for index in _repeated(keys):
        yield duplicate(f"{path}[{index}]", keys[index])


def _repeated(value: list[Any]) -> Iterator[int]:
    """Yield where each element that occurs again does so for the first time."""
    seen: dict[str, int] = {}
    for index, item in enumerate(value):
        text = json.dumps(item, sort_keys=True)
        seen[text] = seen.get(text, 0) + 1
        if seen[text] == 2:
            yield index


def check_embedded(value: JsonValue, schema: Structural, path: str = "") -> list[FieldError]:
    """Return what is wrong with kind and metadata of embedded objects."""
    errors: list[FieldError] = []
    if schema.embedded and isinstance(value, dict):
        errors += _object(value, f"{path}." if path else "")
    for child in _children(value, schema, path):
        errors += check_embedded(*child)
    return errors


def _object(value: dict[str, JsonValue], prefix: str) -> Iterator[FieldError]:
    for name in ("apiVersion", "kind"):
        if name not in value:
            yield required(f"{prefix}{name}")
        elif not isinstance(value[name], str):
            yield invalid(f"{prefix}{name}", value[name], "must be a string")
        elif not value[name]:
            yield invalid(f"{prefix}{name}", "", "must not be empty")
        else:
            yield from _type_name(name, value[name], f"{prefix}{name}")
    if "metadata" in value:
        yield from _metadata(value["metadata"], f"{prefix}metadata")


def _type_name(name: str, text: str, path: str) -> Iterator[FieldError]:
    if name == "apiVersion":
        if text.count("/") > 1:
            yield invalid(path, text, f"unexpected GroupVersion string: {text}")
    elif problems := dns_1035_label(text.lower()):
        detail = "may have mixed case, but should otherwise match: " + ",".join(problems)
        yield invalid(path, text, detail)


def _metadata(metadata: JsonValue, path: str) -> Iterator[FieldError]:
    if not isinstance(metadata, dict):
        return
    problems = check(metadata, OBJECT_META, strict=False)
    if problems.fatal:
        yield invalid(path, metadata, problems.fatal)
        return
    named = {"name": "fakename"} | {k: v for k, v in metadata.items() if v}
    namespaced = bool(named.get("namespace"))
    yield from validate_metadata(named, namespaced=namespaced, name=path_segment, path=path)


Schema = dict[str, Any]

_LIST_TYPE: Final = "x-kubernetes-list-type"
_MAP_TYPE: Final = "x-kubernetes-map-type"
_MAP_KEYS: Final = "x-kubernetes-list-map-keys"


def check_list_types(schema: Schema, path: str) -> Iterator[FieldError]:
    """Check what *schema* itself says; not what is below."""
    yield from _check_map_type(schema, path)
    yield from _check_list_type(schema, path)
    yield from _check_keys(schema, path)
    yield from _check_items(schema, path)


def _wrong_type(schema: Schema, path: str, wanted: str, member: str) -> Iterator[FieldError]:
    kind = schema.get("type") or ""
    detail = f"must be {wanted} if {member} is specified"
    if not kind:
        yield required(f"{path}.type", detail)
    elif kind != wanted:
        yield invalid(f"{path}.type", kind, detail)


def _check_map_type(schema: Schema, path: str) -> Iterator[FieldError]:
    map_type = schema.get(_MAP_TYPE)
    if map_type is None:
        return
    yield from _wrong_type(schema, path, "object", _MAP_TYPE)
    if map_type not in ("atomic", "granular"):
        yield not_supported(f"{path}.{_MAP_TYPE}", map_type, ("atomic", "granular"))


def _check_list_type(schema: Schema, path: str) -> Iterator[FieldError]:
    list_type = schema.get(_LIST_TYPE)
    if list_type is None:
        return
    yield from _wrong_type(schema, path, "array", _LIST_TYPE)
    items = schema.get("items")
    if schema.get("type") == "array" and list_type == "set" and isinstance(items, dict):
        yield from _check_set_items(items, f"{path}.items")
    if list_type not in ("atomic", "set", "map"):
        yield not_supported(f"{path}.{_LIST_TYPE}", list_type, ("atomic", "set", "map"))


def _check_set_items(items: Schema, path: str) -> Iterator[FieldError]:
    detail = f"must be atomic as item of a list with {_LIST_TYPE}=set"
    if items.get("type") == "array" and items.get(_LIST_TYPE) not in (None, "atomic"):
        yield invalid(f"{path}.{_LIST_TYPE}", items.get(_LIST_TYPE), detail)
    if items.get("type") == "object" and items.get(_MAP_TYPE) != "atomic":
        yield invalid(f"{path}.{_MAP_TYPE}", items.get(_LIST_TYPE), detail)


def _check_keys(schema: Schema, path: str) -> Iterator[FieldError]:
    keys, list_type = schema.get(_MAP_KEYS) or [], schema.get(_LIST_TYPE)
    if keys and list_type != "map":
        detail = f"must be map if {_MAP_KEYS} is non-empty"
        place = f"{path}.{_LIST_TYPE}"
        yield required(place, detail) if list_type is None else invalid(place, list_type, detail)
    if list_type != "map":
        return
    if not keys:
        yield required(f"{path}.{_MAP_KEYS}", f"must not be empty if {_LIST_TYPE} is map")
    items = schema.get("items")
    if items is None:
        yield required(f"{path}.items", f"must have a schema if {_LIST_TYPE} is map")
    elif not isinstance(items, dict):
        detail = f"must only have a single schema if {_LIST_TYPE} is map"
        yield invalid(f"{path}.items", items, detail)
    elif items.get("type") != "object":
        detail = f"must be object if parent array's {_LIST_TYPE} is map"
        yield invalid(f"{path}.items.type", items.get("type") or "", detail)
    else:
        yield from _check_key_names(keys, items, path)


def _check_key_names(keys: list[str], items: Schema, path: str) -> Iterator[FieldError]:
    properties = items.get("properties") or {}
    for index, key in enumerate(keys):
        if key not in properties:
            detail = "entries must all be names of item properties"
            yield invalid(f"{path}.{_MAP_KEYS}", keys, detail)
        elif properties[key].get("type") in ("array", "object"):
            detail = f"must be a scalar type if parent array's {_LIST_TYPE} is map"
            yield invalid(f"{path}.items.properties[{key}].type", "object", detail)
        if key in keys[:index]:
            yield invalid(f"{path}.{_MAP_KEYS}", keys, "must not contain duplicate entries")


def _check_items(schema: Schema, path: str) -> Iterator[FieldError]:
    items, list_type = schema.get("items"), schema.get(_LIST_TYPE)
    if not isinstance(items, dict) or list_type not in ("set", "map"):
        return
    if items.get("nullable"):
        detail = f"cannot be nullable when {_LIST_TYPE} is {list_type}"
        yield forbidden(f"{path}.items.nullable", detail)
    for key in schema.get(_MAP_KEYS) or () if list_type == "map" else ():
        child = (items.get("properties") or {}).get(key)
        if child is None:
            continue
        place = f"{path}.items.properties[{key}]"
        reason = f"this property is in {_MAP_KEYS}, so it"
        if key not in (items.get("required") or ()) and child.get("default") is None:
            yield required(
                f"{place}.default", f"{reason} must have a default or be a required property"
            )
        if child.get("nullable"):
            yield forbidden(f"{place}.nullable", f"{reason} cannot be nullable")


_MAX_FIELDS: Final = 8
_PART: Final = re.compile(r"[.\[\]]|[^.\[\]]+")


def check_selectable_fields(
    fields: list[dict[str, Any]], schema: Mapping[str, Any], path: str
) -> Iterator[FieldError]:
    """Yield why *fields*, given by their ``jsonPath``, cannot be selected by."""
    structural = read_schema(schema)
    seen: set[str] = set()
    for index, selectable in enumerate(fields):
        place, json_path = f"{path}[{index}].jsonPath", str(selectable.get("jsonPath") or "")
        if not json_path:
            yield required(place)
            continue
        found = _find(json_path, structural)
        if isinstance(found, str):
            yield invalid(place, json_path, f"is an invalid path: {found}")
            continue
        yield from _check_field(json_path, found, place)
        if json_path in seen:
            yield duplicate(place, json_path)
        seen.add(json_path)
    if len(seen) > _MAX_FIELDS:
        yield too_many(path, len(seen), _MAX_FIELDS)


def _check_field(json_path: str, schema: Structural, place: str) -> Iterator[FieldError]:
    if json_path.split(".")[1] == "metadata":
        yield invalid(place, json_path, "must not point to fields in metadata")
    if schema.type not in ("string", "boolean", "integer"):
        detail = (
            "must point to a field of type string, boolean or integer. "
            "Enum string fields and strings with formats are allowed."
        )
        yield invalid(place, json_path, detail)


def _find(json_path: str, schema: Structural) -> Structural | str:
    """Return what *json_path* leads to, or why it leads nowhere."""
    parts = iter(_PART.findall(json_path))
    here = schema
    for part in parts:
        if part == "[":
            return "array notation is not allowed"
        if part != ".":
            return f"expected [ or . but got: {part}"
        name = next(parts, None)
        if name is None:
            return "unexpected end of JSON path"
        child = here.properties.get(name) if here.properties else here.additional
        if child is None:
            return "does not refer to a valid field"
        here = child
    return here
