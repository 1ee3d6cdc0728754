"""The schema of a custom resource, read once into a form that is quick to walk.

A structural schema says of every field what it is, so that objects can be pruned, defaulted and
merged by it. What it says about values (``minimum``, ``pattern``, ``anyOf``...) stays in the JSON
it came from, which `value_validation` reads.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from numakube_lab.schema.types import (
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

if TYPE_CHECKING:
    from collections.abc import Mapping

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
