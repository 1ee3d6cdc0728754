"""Whether a workload that was deployed runs, and if not, what keeps its pods from running."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from numakube.errors import ApiError, NotFound
from numakube.kube.catalog import CONFIG_MAPS, PODS, SECRETS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.kube.client import Client
    from numakube.kube.resource_types import Document

_HARMLESS: Final = ("ContainerCreating", "PodInitializing")


def waits_for(document: Document, live: Document | None) -> str:
    """Return what an object waits for; empty if it is as it should be."""
    kind, name = document["kind"], document["metadata"]["name"]
    if live is None:
        return f"{kind.lower()}/{name} is not there yet"
    match kind:
        case "CustomResourceDefinition":
            return "" if _holds(live, "Established") else f"kind {name} is not served yet"
        case "DaemonSet":
            return _daemon_set(name, live)
        case "Deployment":
            return _deployment(name, live)
        case _:
            return ""


def _daemon_set(name: str, live: Document) -> str:
    status: dict[str, Any] = live.get("status", {})
    wanted = status.get("desiredNumberScheduled", 0)
    if _is_unseen(live, status):
        return f"daemonset/{name} has not been looked at yet"
    if status.get("updatedNumberScheduled", 0) < wanted:
        return f"daemonset/{name}: {status.get('updatedNumberScheduled', 0)} of {wanted} updated"
    if status.get("numberReady", 0) < wanted:
        return f"daemonset/{name}: {status.get('numberReady', 0)} of {wanted} ready"
    return ""


def _deployment(name: str, live: Document) -> str:
    status: dict[str, Any] = live.get("status", {})
    wanted = live["spec"].get("replicas", 1)
    if _is_unseen(live, status):
        return f"deployment/{name} has not been looked at yet"
    for count, word in (("updatedReplicas", "updated"), ("availableReplicas", "available")):
        if status.get(count, 0) < wanted:
            return f"deployment/{name}: {status.get(count, 0)} of {wanted} {word}"
    if status.get("replicas", 0) > wanted:
        return f"deployment/{name}: {status['replicas'] - wanted} old ones still run"
    return ""


def _is_unseen(live: Document, status: dict[str, Any]) -> bool:
    generation: int = live["metadata"].get("generation", 0)
    return bool(status.get("observedGeneration", 0) < generation)


def _holds(live: Document, type_: str) -> bool:
    conditions = live.get("status", {}).get("conditions", [])
    return any(one["type"] == type_ and one["status"] == "True" for one in conditions)


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
