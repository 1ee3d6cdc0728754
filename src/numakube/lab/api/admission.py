"""Admission: what the server adds to or refuses of writes, looking at other objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.lab.api.object_meta import metadata_of
from numakube.lab.api.refusals import Refusal, forbidden, not_found, target
from numakube.lab.api.store import Key

if TYPE_CHECKING:
    from numakube.lab.api.call import Call
    from numakube.lab.api.state import State
    from numakube.lab.kinds import Json

_IMMORTAL: Final = frozenset({"default", "kube-system", "kube-public"})


class Admission:
    """The admission chain."""

    def admit_create(self, state: State, call: Call, obj: Json) -> Json:
        """Return a new object with what admission adds; refuse what may not be created."""
        if call.resource.namespaced:
            _check_namespace(state, call, obj)
        return obj

    def validate_create(self, state: State, call: Call, obj: Json) -> None:
        """Refuse a complete new object that may not be stored."""

    def admit_update(self, state: State, call: Call, obj: Json, old: Json) -> Json:
        """Return a changed object with what admission adds."""
        del state, call, old
        return obj

    def validate_update(self, state: State, call: Call, obj: Json, old: Json) -> None:
        """Refuse a complete changed object that may not be stored."""

    def validate_delete(self, state: State, call: Call, obj: Json) -> None:
        """Refuse a deletion."""

    def authorize_create(self, state: State, call: Call) -> None:
        """Refuse to a user without the right to create that an update creates."""


def _check_namespace(state: State, call: Call, obj: Json) -> None:
    """Refuse objects in a namespace that does not exist or is going away."""
    namespace = state.store.get(Key("namespaces", "", call.namespace))
    if namespace is None:
        raise not_found("", "namespaces", call.namespace)
    if not metadata_of(namespace.obj).get("deletionTimestamp"):
        return
    if call.resource.plural == "localsubjectaccessreviews":
        return
    raise _terminating(call, metadata_of(obj).get("name") or "")


def _terminating(call: Call, name: str) -> Refusal:
    resource = call.resource
    refusal = forbidden(
        resource.group,
        resource.plural,
        name,
        f"unable to create new content in namespace {call.namespace} "
        "because it is being terminated",
    )
    cause = {
        "reason": "NamespaceTerminating",
        "message": f"namespace {call.namespace} is being terminated",
        "field": "metadata.namespace",
    }
    refusal.status["details"] = {**target(resource.group, resource.plural, name), "causes": [cause]}
    return refusal


def check_namespace_deletion(name: str) -> None:
    """Refuse to delete a namespace that the cluster cannot be without."""
    if name in _IMMORTAL:
        raise forbidden("", "namespaces", name, "this namespace may not be deleted")
