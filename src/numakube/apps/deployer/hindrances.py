"""What keeps the pods of a workload from running: what they mount, or what they say themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from numakube.errors import ApiError, NotFound
from numakube.kube.catalog import CONFIG_MAPS, PODS, SECRETS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.kube.client import Client
    from numakube.kube.resources import Document

_HARMLESS: Final = ("ContainerCreating", "PodInitializing")


async def hindrance(client: Client, live: Document) -> str:
    """Return why pods of the workload *live* do not come to run; empty if nothing is known."""
    if "template" not in live.get("spec", {}):
        return ""
    try:
        return await _missing(client, live) or await _told(client, live)
    except ApiError:
        return ""  # who may not look gets no reason


async def _missing(client: Client, live: Document) -> str:
    namespace = live["metadata"]["namespace"]
    for volume in live["spec"]["template"]["spec"].get("volumes") or ():
        for resource, field, key in (
            (SECRETS, "secret", "secretName"),
            (CONFIG_MAPS, "configMap", "name"),
        ):
            source = volume.get(field) or {}
            if not source or source.get("optional"):
                continue
            try:
                await client.get(resource, source[key], namespace=namespace)
            except NotFound:
                return f"the {resource.kind} {source[key]} in {namespace} does not exist"
    return ""


async def _told(client: Client, live: Document) -> str:
    labels = live["spec"]["selector"].get("matchLabels") or {}
    selector = ",".join(f"{name}={value}" for name, value in labels.items())
    found = await client.list(PODS.raw, namespace=live["metadata"]["namespace"], labels=selector)
    words = (word for pod in found.items for word in _words(pod))
    return next(words, "")


def _words(pod: dict[str, Any]) -> Iterator[str]:
    """Yield what a pod says about why it does not run."""
    status = pod.get("status") or {}
    for one in status.get("containerStatuses") or ():
        waiting = (one.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") and waiting["reason"] not in _HARMLESS:
            message = f" ({waiting['message']})" if waiting.get("message") else ""
            yield f"{pod['metadata']['name']}: {waiting['reason']}{message}"
    for one in status.get("conditions") or ():
        if one["type"] == "PodScheduled" and one["status"] == "False":
            yield f"{pod['metadata']['name']}: {one.get('message') or one.get('reason')}"
