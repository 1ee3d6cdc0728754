"""Schemas of built-in types, as OpenAPI writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from numakube_lab.schema.builtin_types import BUILTIN, OBJECT_META, struct
from numakube_lab.schema.types import (
    Field,
    ListType,
    MapType,
    Relation,
    Scalar,
    ScalarKind,
    Struct,
    Type,
    Union,
    Untyped,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numakube_lab.kinds import GVK

_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1"
_QUANTITY: Final = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_INT_OR_STRING: Final = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"

# Scalars with schemas of their own, which fields refer to.
_NAMED_SCALARS: Final[dict[str, dict[str, Any]]] = {
    _QUANTITY: {"oneOf": [{"type": "string"}, {"type": "number"}]},
    _INT_OR_STRING: {
        "format": "int-or-string",
        "oneOf": [{"type": "integer"}, {"type": "string"}],
    },
    f"{_META}.Time": {"type": "string", "format": "date-time"},
    f"{_META}.MicroTime": {"type": "string", "format": "date-time"},
}
_SCALAR_NAMES: Final = {
    ScalarKind.QUANTITY: _QUANTITY,
    ScalarKind.INT_OR_STRING: _INT_OR_STRING,
    ScalarKind.TIME: f"{_META}.Time",
    ScalarKind.MICRO_TIME: f"{_META}.MicroTime",
}
_SCALARS: Final[dict[ScalarKind, dict[str, Any]]] = {
    ScalarKind.STRING: {"type": "string"},
    ScalarKind.BOOLEAN: {"type": "boolean"},
    ScalarKind.INT32: {"type": "integer", "format": "int32"},
    ScalarKind.INT64: {"type": "integer", "format": "int64"},
    ScalarKind.FLOAT: {"type": "number", "format": "double"},
    ScalarKind.NUMBER: {"type": "number"},
    ScalarKind.BYTES: {"type": "string", "format": "byte"},
}


def reference(name: str) -> dict[str, str]:
    """Return a reference to the schema called *name*."""
    return {"$ref": f"#/components/schemas/{name}"}


def builtin_schemas(kinds: Iterable[GVK]) -> dict[str, Any]:
    """Return the schemas of built-in *kinds*, of their lists, and all that they refer to."""
    found: dict[str, Any] = {}
    for gvk in kinds:
        info = BUILTIN.get(gvk)
        if info is not None:
            _collect(info.root, found)
            mark = _group_version_kind(gvk)
            found[info.root.openapi]["x-kubernetes-group-version-kind"] = [mark]
            found[f"{info.root.openapi}List"] = list_schema(gvk, info.root.openapi)
    if found:
        _collect(struct("meta.v1", "ListMeta"), found)
    return dict(sorted((found | _named_scalars(found)).items()))


def metadata_schemas() -> dict[str, Any]:
    """Return the schemas of metadata, which those of custom resources refer to."""
    found: dict[str, Any] = {}
    _collect(OBJECT_META, found)
    _collect(struct("meta.v1", "ListMeta"), found)
    return found | _named_scalars(found)


def list_schema(gvk: GVK, name: str) -> dict[str, Any]:
    """Return the schema of lists of the kind whose schema is called *name*."""
    return {
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"},
            "items": {"type": "array", "items": reference(name)},
            "kind": {"type": "string"},
            "metadata": reference(f"{_META}.ListMeta"),
        },
        "x-kubernetes-group-version-kind": [
            {**_group_version_kind(gvk), "kind": f"{gvk.kind}List"}
        ],
    }


def _group_version_kind(gvk: GVK) -> dict[str, str]:
    return {"group": gvk.group, "version": gvk.version, "kind": gvk.kind}


def _named_scalars(found: dict[str, Any]) -> dict[str, Any]:
    text = str(found)
    return {name: dict(schema) for name, schema in _NAMED_SCALARS.items() if name in text}


def _collect(root: Struct, found: dict[str, Any]) -> None:
    """Add the schemas of *root* and of every struct below, each once."""
    if root.openapi in found:
        return
    found[root.openapi] = _struct_schema(root)
    for field in root.fields.values():
        for inner in _structs(field.type):
            _collect(inner, found)


def _structs(kind: Type) -> Iterator[Struct]:
    match kind:
        case Struct():
            yield kind
        case ListType() | MapType():
            yield from _structs(kind.element)
        case Union():
            yield kind.struct
        case Scalar() | Untyped():
            return


def _struct_schema(root: Struct) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object"}
    required = [field.name for field in root.fields.values() if field.required]
    if required:
        schema["required"] = sorted(required)
    if root.fields:
        schema["properties"] = {name: _field_schema(f) for name, f in sorted(root.fields.items())}
    if root.atomic:
        schema["x-kubernetes-map-type"] = "atomic"
    return schema


def _field_schema(field: Field) -> dict[str, Any]:
    schema = _type_schema(field.type)
    extras: dict[str, Any] = {}
    if field.default is not None:
        extras["default"] = field.default
    strategies = [
        name
        for name, given in (
            ("merge", field.patch.merge),
            ("retainKeys", field.patch.retain_keys),
            ("replace", field.patch.replace),
        )
        if given
    ]
    if strategies:
        extras["x-kubernetes-patch-strategy"] = ",".join(strategies)
    if field.patch.key:
        extras["x-kubernetes-patch-merge-key"] = field.patch.key
    if extras and "$ref" in schema:
        return {"allOf": [schema], **extras}
    return {**schema, **extras}


def _type_schema(kind: Type) -> dict[str, Any]:
    match kind:
        case Struct():
            return reference(kind.openapi)
        case ListType():
            return _list_type_schema(kind)
        case MapType():
            schema = {"type": "object", "additionalProperties": _type_schema(kind.element)}
            return {**schema, "x-kubernetes-map-type": "atomic"} if kind.atomic else schema
        case Scalar():
            name = _SCALAR_NAMES.get(kind.kind)
            return dict(reference(name)) if name else dict(_SCALARS[kind.kind])
        case Union():
            return {}
        case Untyped():
            return {"type": "object"} if kind.go == "runtime.RawExtension" else {}


def _list_type_schema(kind: ListType) -> dict[str, Any]:
    schema: dict[str, Any] = {
        "type": "array",
        "items": _type_schema(kind.element),
        "x-kubernetes-list-type": kind.relation.value,
    }
    if kind.relation is Relation.MAP:
        schema["x-kubernetes-list-map-keys"] = list(kind.keys)
    return schema
