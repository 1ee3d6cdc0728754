"""What tests of real containers work with: a whole lab, and pods of numakube's image."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numakube.errors import BadRequest, NotFound
from numakube.kube.catalog import PODS
from numakube.kube.client import Client
from numakube.kube.resource_types import ObjectKey
from numakube.kube.subresources import read_log
from numakube.testing import until

IMAGE = "registry.example/tools/numakube:0.1"


def pod_document(name: str, *words: str, restart: str = "Always", **spec: Any) -> dict[str, Any]:
    """Return a pod with one container that runs *words*, bound to the first node."""
    container = {"name": "main", "image": IMAGE, "args": list(words)}
    container |= spec.pop("container", {})
    return {
        "metadata": {"name": name, "namespace": "default", "labels": {"app": name}},
        "spec": {
            "nodeName": "node-0",
            "restartPolicy": restart,
            "containers": [container],
            **spec,
        },
    }


async def pod_with(client: Client, name: str, holds: Callable[[Any], bool]) -> Any:
    """Return the pod as soon as *holds* for it."""
    return await until(
        lambda: client.get(PODS, name, namespace="default"),
        lambda pod: pod.status is not None and holds(pod),
    )


async def pod_in(client: Client, name: str, phase: str) -> Any:
    """Return the pod as soon as it is in *phase*."""
    return await pod_with(client, name, lambda pod: pod.status.phase == phase)


async def is_gone(client: Client, name: str) -> bool:
    """Tell whether there is no such pod."""
    try:
        await client.get(PODS, name, namespace="default")
    except NotFound:
        return True
    return False


async def log_with(client: Client, name: str, text: str, **options: Any) -> str:
    """Return a pod's log as soon as it contains *text*."""
    return await until(
        lambda: read_log(client, ObjectKey("default", name), **options),
        lambda log: text in log,
        despite=(NotFound, BadRequest),  # it waits to be started
    )
