"""Whether an object that was deployed has come to work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numakube.kube.resources import Document


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
