"""What a path asks for."""

from __future__ import annotations

import pytest

from kube_lab_server.wire.request_options import parse_request


@pytest.mark.parametrize(
    ("method", "path", "query", "expected"),
    [
        ("GET", "/api/v1/pods", {}, ("list", "", "pods", "", "")),
        ("GET", "/api/v1/pods", {"watch": "1"}, ("watch", "", "pods", "", "")),
        ("GET", "/api/v1/pods", {"watch": "false"}, ("list", "", "pods", "", "")),
        ("GET", "/api/v1/namespaces/n/pods/p", {}, ("get", "n", "pods", "p", "")),
        ("GET", "/api/v1/namespaces/n/pods/p/log", {}, ("get", "n", "pods", "p", "log")),
        ("DELETE", "/api/v1/namespaces/n/pods", {}, ("deletecollection", "n", "pods", "", "")),
        ("GET", "/api/v1/namespaces/n", {}, ("get", "n", "namespaces", "n", "")),
        (
            "PUT",
            "/api/v1/namespaces/n/finalize",
            {},
            ("update", "n", "namespaces", "n", "finalize"),
        ),
        ("GET", "/api/v1/namespaces", {}, ("list", "", "namespaces", "", "")),
        (
            "PATCH",
            "/apis/apps/v1/namespaces/n/deployments/d",
            {},
            ("patch", "n", "deployments", "d", ""),
        ),
        ("GET", "/api/v1/watch/namespaces/n/pods", {}, ("watch", "n", "pods", "", "")),
        (
            "GET",
            "/api/v1/pods",
            {"fieldSelector": "spec.nodeName=x,metadata.name=p"},
            ("list", "", "pods", "p", ""),
        ),
    ],
)
def test_requests_for_resources_are_taken_apart(
    method: str, path: str, query: dict[str, str], expected: tuple[str, ...]
) -> None:
    """Verb, namespace, resource, name and subresource are found."""
    info = parse_request(method, path, query)

    assert info.is_resource
    assert (info.verb, info.namespace, info.resource, info.name, info.subresource) == expected


@pytest.mark.parametrize("path", ["/healthz", "/api", "/api/v1", "/apis/apps/v1", "/api/v1/"])
def test_other_paths_are_no_resources(path: str) -> None:
    """Their verb is the method's name."""
    info = parse_request("GET", path, {})

    assert (info.is_resource, info.verb) == (False, "get")
