"""Documents of OpenAPI v3: one for each group and version, and the index of all.

A document says of each path which verbs it has and for which kind; that is how kubectl finds out
that the server checks fields by itself, and which schema to explain.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from numakube_lab.schema.builtin_types import BUILTIN
from numakube_lab.schema.openapi.custom_schemas import component_name
from numakube_lab.schema.openapi.openapi_schemas import reference

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numakube_lab.kinds import GVK

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
