"""The kind of Koordinator's Device resources, and such resources."""

from __future__ import annotations

from typing import Any

from numakube.api.koordinator.devices import GROUP, KIND, PLURAL, V1ALPHA1


def device_definition() -> dict[str, Any]:
    """Return a definition that takes any Device."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Cluster",
            "names": {
                "plural": PLURAL,
                "singular": "device",
                "kind": KIND,
                "listKind": "DeviceList",
            },
            "versions": [
                {
                    "name": "v1alpha1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }


def device_document(node: str, *devices: dict[str, Any]) -> dict[str, Any]:
    """Return what a node publishes of its devices."""
    return {
        "apiVersion": V1ALPHA1,
        "kind": KIND,
        "metadata": {"name": node},
        "spec": {"devices": list(devices)},
    }
