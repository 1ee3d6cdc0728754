"""Changes of endpoint slices."""

from __future__ import annotations

from typing import Any

from packages.labserver.tests.kinds.kind_rules import rules

from kube_lab_server import GVK, Json

SLICE = GVK("discovery.k8s.io", "v1", "EndpointSlice")
HOST = "kubernetes.io/hostname"


def endpoint_slice(*endpoints: Json, **metadata: Any) -> Json:
    """Return a slice."""
    meta = {"name": "s", "namespace": "n", "resourceVersion": "1", "generation": 1, **metadata}
    return {"metadata": meta, "addressType": "IPv4", "endpoints": list(endpoints)}


def test_labels_and_content_make_a_new_generation() -> None:
    """Labels and content make a new generation."""
    old = endpoint_slice({"addresses": ["10.0.0.1"]})
    for new, generation in (
        (endpoint_slice({"addresses": ["10.0.0.1"]}, annotations={"a": "b"}), 1),
        (endpoint_slice({"addresses": ["10.0.0.1"]}, labels={"a": "b"}), 2),
        (endpoint_slice({"addresses": ["10.0.0.2"]}), 2),
    ):
        changed = rules(SLICE).prepare_update(new, old)
        assert changed["metadata"]["generation"] == generation


def test_a_field_of_an_older_version_cannot_be_written() -> None:
    """A field of an older version cannot be written."""
    new = endpoint_slice({"addresses": ["10.0.0.1"], "deprecatedTopology": {HOST: "a"}})
    (endpoint,) = rules(SLICE).prepare_create(new)["endpoints"]
    assert endpoint == {"addresses": ["10.0.0.1"]}


def test_the_name_of_a_node_is_taken_from_where_it_was() -> None:
    """The name of a node is taken from where it was."""
    old = endpoint_slice({"addresses": ["10.0.0.1"], "deprecatedTopology": {HOST: "a"}})
    new = endpoint_slice({"addresses": ["10.0.0.2"], "deprecatedTopology": {HOST: "a"}})
    (endpoint,) = rules(SLICE).prepare_update(new, old)["endpoints"]
    assert endpoint == {"addresses": ["10.0.0.2"], "nodeName": "a"}
