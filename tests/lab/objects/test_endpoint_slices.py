"""Changes of endpoint slices."""

from __future__ import annotations

from typing import Any

from numakube_lab import objects
from numakube_lab.kinds import GVK, Json

SLICE = GVK("discovery.k8s.io", "v1", "EndpointSlice")


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
        changed = objects.prepare_update(SLICE, new, old)
        assert changed["metadata"]["generation"] == generation
