"""What a fresh server holds before anybody asks for anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube_lab.api.access.authorization import RBAC_GROUP
from numakube_lab.api.access.bootstrap_roles import cluster_role_bindings, cluster_roles
from numakube_lab.api.handling.object_meta import new_uid, timestamp
from numakube_lab.api.store.store import Key

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube_lab.api.handling.server_state import State
    from numakube_lab.kinds import Json

_NAMESPACES: Final = ("kube-system", "kube-public", "kube-node-lease", "default")


def bootstrap(state: State) -> None:
    """Create what is missing of the objects that every cluster has."""
    for name in _NAMESPACES:
        _ensure(state, "namespaces", _namespace(name))
    for role in cluster_roles():
        _ensure(state, f"{RBAC_GROUP}/clusterroles", role)
    for binding in cluster_role_bindings():
        _ensure(state, f"{RBAC_GROUP}/clusterrolebindings", binding)
    for priority_class in _priority_classes():
        _ensure(state, "scheduling.k8s.io/priorityclasses", priority_class)


def _namespace(name: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    }


def _priority_classes() -> Iterator[Json]:
    described = (
        (
            "system-node-critical",
            2000001000,
            "Used for system critical pods that must not be moved from their current node.",
        ),
        (
            "system-cluster-critical",
            2000000000,
            "Used for system critical pods that must run in the cluster, but can be moved to "
            "another node if necessary.",
        ),
    )
    for name, value, description in described:
        yield {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name, "generation": 1},
            "value": value,
            "preemptionPolicy": "PreemptLowerPriority",
            "description": description,
        }


def _ensure(state: State, shelf: str, obj: Json) -> None:
    key = Key(shelf, "", obj["metadata"]["name"])
    if state.store.get(key) is not None:
        return
    metadata = {
        **obj["metadata"],
        "uid": new_uid(state.rng),
        "creationTimestamp": timestamp(state.now()),
    }
    state.store.put(key, {**obj, "metadata": metadata})
