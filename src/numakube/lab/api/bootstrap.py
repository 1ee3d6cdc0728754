"""What a fresh server holds before anybody asks for anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.lab.api.object_meta import new_uid, timestamp
from numakube.lab.api.store import Key

if TYPE_CHECKING:
    from numakube.lab.api.state import State
    from numakube.lab.kinds import Json

_NAMESPACES: Final = ("kube-system", "kube-public", "kube-node-lease", "default")


def bootstrap(state: State) -> None:
    """Create what is missing of the objects that every cluster has."""
    for name in _NAMESPACES:
        _ensure(state, Key("namespaces", "", name), _namespace(name))


def _namespace(name: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"labels": {"kubernetes.io/metadata.name": name}},
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    }


def _ensure(state: State, key: Key, obj: Json) -> None:
    if state.store.get(key) is not None:
        return
    metadata = {
        **obj["metadata"],
        "name": key.name,
        "uid": new_uid(state.rng),
        "creationTimestamp": timestamp(state.now()),
    }
    if key.namespace:
        metadata["namespace"] = key.namespace
    state.store.put(key, {**obj, "metadata": metadata})
