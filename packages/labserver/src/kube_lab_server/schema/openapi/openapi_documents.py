"""Documents of OpenAPI v3: one for each group and version, and the index of all.

A document says of each path which verbs it has and for which kind; that is how kubectl finds out
that the server checks fields by itself, and which schema to explain.

Schemas of built-in types, as OpenAPI writes them.

Schemas of custom kinds, as OpenAPI writes them.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kube_lab_server.schema.builtin_types import BUILTIN, OBJECT_META, struct
from kube_lab_server.schema.types import (
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
    from collections.abc import Iterable, Iterator, Mapping

    from kube_lab_server.kind_names import GVK


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


_TEXT: Final = {"type": "string"}
_META_DESCRIPTIONS: Final = {
    "apiVersion": "Which group and version of the API the object is written in.",
    "kind": "Which kind of object this is.",
    "metadata": "Name, labels and the like.",
}


def custom_schemas(kinds: Mapping[GVK, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the schemas of custom kinds (*kinds* has their ``openAPIV3Schema``) and lists."""
    found = metadata_schemas()
    for gvk, source in kinds.items():
        name = component_name(gvk)
        found[name] = _schema(gvk, source)
        found[f"{name}List"] = list_schema(gvk, name)
    return dict(sorted(found.items()))


def component_name(gvk: GVK) -> str:
    """Return the name of the kind's schema: ``com.example.v1.Widget``."""
    return ".".join((*reversed(gvk.group.split(".")), gvk.version, gvk.kind))


def _schema(gvk: GVK, source: Mapping[str, Any]) -> dict[str, Any]:
    own = {
        "apiVersion": {**_TEXT, "description": _META_DESCRIPTIONS["apiVersion"]},
        "kind": {**_TEXT, "description": _META_DESCRIPTIONS["kind"]},
        "metadata": {
            "allOf": [reference(OBJECT_META.openapi)],
            "description": _META_DESCRIPTIONS["metadata"],
        },
    }
    mark = {"group": gvk.group, "version": gvk.version, "kind": gvk.kind}
    return {
        **source,
        "type": "object",
        "properties": {**(source.get("properties") or {}), **own},
        "x-kubernetes-group-version-kind": [mark],
    }


_TITLE: Final = "Kubernetes"
_VERSION: Final = "v1.35.7"
_JSON: Final = "application/json"
_PATCH_TYPES: Final = (
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
)
# kubectl looks here for how it may patch a kind; custom kinds have no strategic merge.
_STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
_WRITE_PARAMETERS: Final = ("dryRun", "fieldManager", "fieldValidation")
_COLLECTION_VERBS: Final = {"list": "get", "create": "post", "deletecollection": "delete"}
_ITEM_VERBS: Final = {"get": "get", "update": "put", "patch": "patch", "delete": "delete"}
_ACTIONS: Final = {"create": "post", "update": "put"}


@dataclass(frozen=True, slots=True)
class Route:
    """A resource as the paths know it; *subresources* are names with their kinds and verbs."""

    kind: GVK
    plural: str
    namespaced: bool
    verbs: tuple[str, ...]
    subresources: tuple[tuple[str, GVK, tuple[str, ...]], ...] = ()
    custom: bool = False


def document_path(group: str, version: str) -> str:
    """Return the name of a document in the index: ``api/v1``, ``apis/apps/v1``."""
    return f"apis/{group}/{version}" if group else f"api/{version}"


def openapi_index(digests: Mapping[str, str]) -> dict[str, Any]:
    """Return the index of documents, given by name with their digests."""
    return {
        "paths": {
            name: {"serverRelativeURL": f"/openapi/v3/{name}?hash={digests[name]}"}
            for name in sorted(digests)
        }
    }


def digest(document: Mapping[str, Any]) -> str:
    """Return a text that changes when the document does."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return hashlib.sha512(text.encode()).hexdigest().upper()


def openapi_document(routes: Iterable[Route], schemas: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document of one group and version."""
    paths: dict[str, Any] = {}
    for route in routes:
        paths.update(_paths(route))
    return {
        "openapi": "3.0.0",
        "info": {"title": _TITLE, "version": _VERSION},
        "paths": dict(sorted(paths.items())),
        "components": {"schemas": dict(schemas)},
    }


def _paths(route: Route) -> dict[str, Any]:
    base = f"/{document_path(route.kind.group, route.kind.version)}"
    home = f"{base}/namespaces/{{namespace}}" if route.namespaced else base
    collection, item = f"{home}/{route.plural}", f"{home}/{route.plural}/{{name}}"
    paths = {
        collection: _operations(route.kind, route.verbs, _COLLECTION_VERBS, route),
        item: _operations(route.kind, route.verbs, _ITEM_VERBS, route),
    }
    if route.namespaced:
        everywhere = {"list": "get"}
        paths[f"{base}/{route.plural}"] = _operations(route.kind, route.verbs, everywhere, route)
    for name, kind, verbs in route.subresources:
        all_verbs = {**_ITEM_VERBS, "create": "post"}
        paths[f"{item}/{name}"] = _operations(kind, verbs, all_verbs, route)
    return {
        path: {**operations, "parameters": _path_parameters(path)}
        for path, operations in paths.items()
        if operations
    }


def _path_parameters(path: str) -> list[dict[str, Any]]:
    return [
        _parameter(name, place="path", required=True)
        for name in ("name", "namespace")
        if f"{{{name}}}" in path
    ]


def _parameter(name: str, *, place: str = "query", required: bool = False) -> dict[str, Any]:
    parameter: dict[str, Any] = {
        "name": name,
        "in": place,
        "schema": {"type": "boolean" if name == "force" else "string", "uniqueItems": True},
    }
    return {**parameter, "required": True} if required else parameter


def _operations(
    kind: GVK, verbs: tuple[str, ...], methods: Mapping[str, str], route: Route
) -> dict[str, Any]:
    return {
        method: _operation(kind, verb, route) for verb, method in methods.items() if verb in verbs
    }


def _operation(kind: GVK, verb: str, route: Route) -> dict[str, Any]:
    schema = reference(_schema_name(kind, route))
    answer = reference(f"{_schema_name(kind, route)}List") if verb == "list" else schema
    operation: dict[str, Any] = {
        "tags": [f"{kind.group.partition('.')[0] or 'core'}_{kind.version}"],
        "operationId": f"{verb}_{route.plural}_{kind.kind}",
        "responses": {"200": {"description": "OK", "content": {_JSON: {"schema": answer}}}},
        "x-kubernetes-action": _ACTIONS.get(verb, verb),
        "x-kubernetes-group-version-kind": {
            "group": kind.group,
            "version": kind.version,
            "kind": kind.kind,
        },
    }
    if verb in ("create", "update", "patch"):
        extra = ("force",) if verb == "patch" else ()
        operation["parameters"] = [_parameter(name) for name in (*_WRITE_PARAMETERS, *extra)]
        operation["requestBody"] = {"required": True, "content": _contents(verb, schema, route)}
    return operation


def _contents(verb: str, schema: Mapping[str, Any], route: Route) -> dict[str, Any]:
    if verb != "patch":
        return {_JSON: {"schema": schema}}
    types = _PATCH_TYPES if route.custom else (*_PATCH_TYPES, _STRATEGIC_PATCH)
    return {kind: {"schema": {"type": "object"}} for kind in types}


def _schema_name(kind: GVK, route: Route) -> str:
    if kind in BUILTIN:
        return BUILTIN[kind].root.openapi
    return component_name(route.kind)
