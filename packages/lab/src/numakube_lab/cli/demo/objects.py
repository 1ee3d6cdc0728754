"""The objects that the demo creates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numakube.kube.catalog import resource_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numakube.kube.client import Client


def deployment(
    name: str, scheduler: str, *, replicas: int, cpu: str, gpu: str | None = None
) -> dict[str, Any]:
    """Return a deployment of guaranteed pods."""
    limits = {"cpu": cpu, "memory": "4Gi"}
    if gpu is not None:
        limits["vendor.example/gpu"] = gpu
    container = {
        "name": "main",
        "image": "registry.example/main:1",
        "resources": {"limits": limits},
    }
    labels = {"app": name}
    return {
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "schedulerName": scheduler,
                    "terminationGracePeriodSeconds": 0,
                    "containers": [container],
                },
            },
        },
    }


async def create_objects(client: Client, documents: Iterable[dict[str, Any]]) -> None:
    """Create *documents* one after the other."""
    for document in documents:
        namespace = document["metadata"].get("namespace", "")
        await client.create(resource_of(document), document, namespace=namespace)
