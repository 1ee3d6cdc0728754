"""OpenAPI documents: complete in themselves, and with what kubectl looks for."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from kube_lab_server import GVK
from kube_lab_server.schema.builtin_types import BUILTIN
from kube_lab_server.schema.openapi import (
    Route,
    builtin_schemas,
    custom_schemas,
    digest,
    document_path,
    openapi_document,
    openapi_index,
)

_VERBS = ("create", "delete", "get", "list", "patch", "update", "watch")
_POD = GVK("", "v1", "Pod")
_WIDGET = GVK("example.com", "v1", "Widget")
_SCALE = GVK("autoscaling", "v1", "Scale")


def _references(document: Any) -> set[str]:
    return set(re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(document)))


def _pods() -> dict[str, Any]:
    route = Route(_POD, "pods", True, _VERBS, (("status", _POD, ("get", "patch")),))
    return openapi_document([route], builtin_schemas([_POD]))


def _widgets() -> dict[str, Any]:
    schema = {"type": "object", "properties": {"spec": {"type": "object", "description": "Wish."}}}
    scale = (("scale", _SCALE, ("get", "update")),)
    route = Route(_WIDGET, "widgets", False, _VERBS, scale, custom=True)
    schemas = {**builtin_schemas([_SCALE]), **custom_schemas({_WIDGET: schema})}
    return openapi_document([route], schemas)


@pytest.mark.parametrize("gvk", sorted(BUILTIN), ids=lambda gvk: f"{gvk.group}-{gvk.kind}")
def test_the_schemas_of_a_kind_refer_only_to_each_other(gvk: GVK) -> None:
    """Nothing is missing."""
    schemas = builtin_schemas([gvk])
    assert _references(schemas) <= schemas.keys()
    assert BUILTIN[gvk].root.openapi in schemas


@pytest.mark.parametrize("document", [_pods(), _widgets()])
def test_a_document_refers_only_to_what_it_has(document: dict[str, Any]) -> None:
    """Paths included."""
    assert _references(document) <= document["components"]["schemas"].keys()


def test_kubectl_learns_that_the_server_checks_fields() -> None:
    """From the parameters of PATCH and the kind that it is for."""
    item = _pods()["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]
    patch = item["patch"]
    assert patch["x-kubernetes-group-version-kind"] == {"group": "", "version": "v1", "kind": "Pod"}
    assert "fieldValidation" in [p["name"] for p in patch["parameters"] if p["in"] == "query"]
    assert "force" in [p["name"] for p in patch["parameters"]]
    assert [p["name"] for p in item["parameters"]] == ["name", "namespace"]


def test_every_path_of_a_resource_is_there() -> None:
    """Collections, items and subresources."""
    assert {
        path: sorted(ops.keys() - {"parameters"}) for path, ops in _pods()["paths"].items()
    } == {
        "/api/v1/namespaces/{namespace}/pods": ["get", "post"],
        "/api/v1/namespaces/{namespace}/pods/{name}": ["delete", "get", "patch", "put"],
        "/api/v1/namespaces/{namespace}/pods/{name}/status": ["get", "patch"],
        "/api/v1/pods": ["get"],
    }
    assert set(_widgets()["paths"]) == {
        "/apis/example.com/v1/widgets",
        "/apis/example.com/v1/widgets/{name}",
        "/apis/example.com/v1/widgets/{name}/scale",
    }


def test_schemas_say_how_lists_merge() -> None:
    """So that clients make the patches that the server understands."""
    schemas = builtin_schemas([_POD])
    containers = schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]
    assert containers == {
        "type": "array",
        "items": {"$ref": "#/components/schemas/io.k8s.api.core.v1.Container"},
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "x-kubernetes-patch-strategy": "merge",
        "x-kubernetes-patch-merge-key": "name",
    }
    assert schemas["io.k8s.api.core.v1.PodSpec"]["required"] == ["containers"]
    assert schemas["io.k8s.api.core.v1.Pod"]["x-kubernetes-group-version-kind"] == [
        {"group": "", "version": "v1", "kind": "Pod"}
    ]


def test_a_custom_kind_keeps_its_own_descriptions() -> None:
    """They are what ``kubectl explain`` shows."""
    widget = _widgets()["components"]["schemas"]["com.example.v1.Widget"]
    assert widget["properties"]["spec"]["description"] == "Wish."
    assert set(widget["properties"]) == {"apiVersion", "kind", "metadata", "spec"}


def test_the_index_names_documents_by_group_and_version() -> None:
    """With a digest, so that clients can keep them."""
    names = [document_path("", "v1"), document_path("apps", "v1")]
    index = openapi_index(dict.fromkeys(names, "X"))
    assert index["paths"] == {
        "api/v1": {"serverRelativeURL": "/openapi/v3/api/v1?hash=X"},
        "apis/apps/v1": {"serverRelativeURL": "/openapi/v3/apis/apps/v1?hash=X"},
    }
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1}) != digest({"a": 2})
