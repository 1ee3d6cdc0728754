"""Parts of workloads: how containers are confined, where replicas go, and how they outlive drains.

And a digest of the configuration that pods read.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

from numakube.api.nodes import CONTROL_PLANE, MASTER

if TYPE_CHECKING:
    from collections.abc import Mapping

HASH: Final = "configmap.hash"
"""The annotation with the digest: pods start again when it changes."""


POD_SECURITY: Final = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
"""Of pods that have nothing to do with their host."""
CONTAINER_SECURITY: Final = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
"""Of every container."""


def budget(name: str, namespace: str, labels: Mapping[str, str]) -> dict[str, Any]:
    """Return the budget that makes drains stop the pods with *labels* one after the other."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": dict(labels)}},
    }


def spread(labels: Mapping[str, str], *, waits_for_closed_nodes: bool = False) -> dict[str, Any]:
    """Return what keeps the replicas with *labels* on different nodes.

    Nodes that a taint keeps them from do not count, so that a cluster of one worker has them all
    there, unless they are to wait for such nodes; nor do pods of an earlier rollout.
    """
    constraint = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        **({} if waits_for_closed_nodes else {"nodeTaintsPolicy": "Honor"}),
        "labelSelector": {"matchLabels": dict(labels)},
        "matchLabelKeys": ["pod-template-hash"],
    }
    return {"topologySpreadConstraints": [constraint]}


def on_control_plane() -> dict[str, Any]:
    """Return what makes pods prefer nodes of the control plane, and be let onto them."""
    term = {"matchExpressions": [{"key": CONTROL_PLANE, "operator": "Exists"}]}
    preferred = [{"weight": 1, "preference": term}]
    return {
        "tolerations": [
            {"key": key, "operator": "Exists", "effect": "NoSchedule"}
            for key in (CONTROL_PLANE, MASTER)
        ],
        "affinity": {
            "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}
        },
    }


def hash_of(data: dict[str, str]) -> str:
    """Return a digest of a ConfigMap's content."""
    text = "\0".join(f"{key}\0{data[key]}" for key in sorted(data))
    return f"SHA256:{hashlib.sha256(text.encode()).hexdigest()}"
