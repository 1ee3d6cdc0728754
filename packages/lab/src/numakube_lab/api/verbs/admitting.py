"""Admission: what the server adds to or refuses of writes, looking at other objects.

The life cycle of namespaces comes first, then what each kind's objects ask for, and last what
policies of the cluster say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube_lab import objects
from numakube_lab.api.access.authorization import action_of, denied
from numakube_lab.api.catalogue.builtin_resources import RESOURCES
from numakube_lab.api.handling.object_meta import metadata_of
from numakube_lab.api.store.store import Key
from numakube_lab.api.verbs.admission_policies import check_policies
from numakube_lab.api.verbs.escalation import check_escalation
from numakube_lab.api.wire.refusals import Refusal, forbidden, invalid, not_found, target

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numakube_lab.api.handling.call import Call
    from numakube_lab.api.handling.server_state import State
    from numakube_lab.kinds import Json

_SYSTEM_PRIORITIES: Final = ("system-node-critical", "system-cluster-critical")
_IMMORTAL: Final = frozenset({"default", "kube-system", "kube-public"})


def admit_create(state: State, call: Call, obj: Json) -> Json:
    """Return a new object with what admission adds; refuse what may not be created."""
    if call.resource.namespaced:
        _check_namespace(state, call, obj)
    if call.served is not None and call.served.terminating:
        name = metadata_of(obj).get("name") or ""
        why = "create not allowed while custom resource definition is terminating"
        raise forbidden(call.resource.group, call.resource.plural, name, why)
    if call.resource.custom:
        return obj
    view = StoreView(state)
    admitted = _accepted(call, obj, objects.admit_create(call.resource.kind, obj, view))
    check_escalation(state, call, admitted)
    return admitted


def validate_create(state: State, call: Call, obj: Json) -> None:
    """Refuse a complete new object that may not be stored."""
    if not call.resource.custom:
        view = StoreView(state)
        _check(call, obj, objects.check_create(call.resource.kind, obj, view))
    check_policies(state, call, obj, None, "CREATE")


def admit_update(state: State, call: Call, obj: Json, old: Json) -> Json:
    """Return a changed object with what admission adds."""
    if call.resource.custom:
        return obj
    part = call.info.subresource
    admitted = objects.admit_update(
        call.resource.kind, obj, old, StoreView(state), subresource=part
    )
    accepted = _accepted(call, obj, admitted)
    if _content(accepted) != _content(old):
        check_escalation(state, call, accepted)
    return accepted


def validate_update(state: State, call: Call, obj: Json, old: Json) -> None:
    """Refuse a complete changed object that may not be stored."""
    if not call.resource.custom:
        part = call.info.subresource
        view = StoreView(state)
        refused = objects.check_update(call.resource.kind, obj, old, view, subresource=part)
        _check(call, obj, refused)
    check_policies(state, call, obj, old, "UPDATE")


def validate_delete(state: State, call: Call, obj: Json) -> None:
    """Refuse a deletion."""
    check_policies(state, call, None, obj, "DELETE")
    name = metadata_of(obj)["name"]
    match call.resource.shelf:
        case "namespaces":
            check_namespace_deletion(name)
        case "scheduling.k8s.io/priorityclasses" if name in _SYSTEM_PRIORITIES:
            why = "this is a system priority class and cannot be deleted"
            raise forbidden(call.resource.group, call.resource.plural, name, why)
        case _:
            return


def authorize_create(state: State, call: Call) -> None:
    """Refuse to a user without the right to create that an update creates."""
    action = action_of(call.info)._replace(verb="create")
    if not state.authorizer.decide(call.user, action).allowed:
        raise denied(call.user, action)


class StoreView:
    """Lets the rules of kinds look at other objects: a `numakube_lab.objects.ClusterView`."""

    def __init__(self, state: State) -> None:
        self._state = state

    def get(self, group: str, kind: str, name: str, namespace: str = "") -> Json | None:
        """Return one object."""
        shelf = _SHELVES.get((group, kind))
        stored = self._state.store.get(Key(shelf, namespace, name)) if shelf else None
        return stored.obj if stored else None

    def list(self, group: str, kind: str, namespace: str = "") -> Iterable[Json]:
        """Return all objects of a kind."""
        shelf = _SHELVES.get((group, kind))
        if shelf is None:
            return ()
        return (stored.obj for stored in self._state.store.listed(shelf, namespace))


_SHELVES: Final = {(resource.group, resource.kind.kind): resource.shelf for resource in RESOURCES}


def _content(obj: Json) -> Json:
    return {key: value for key, value in obj.items() if key != "metadata"}


def _accepted(call: Call, obj: Json, admitted: Json | objects.Refused) -> Json:
    if isinstance(admitted, objects.Refused):
        raise _refusal(call, obj, admitted)
    return admitted


def _check(call: Call, obj: Json, refused: objects.Refused | None) -> None:
    if refused is not None:
        raise _refusal(call, obj, refused)


def _refusal(call: Call, obj: Json, refused: objects.Refused) -> Refusal:
    resource = call.resource
    metadata = metadata_of(obj)
    name = metadata.get("name") or ""
    if refused.errors:
        return invalid(resource.group, resource.kind.kind, name, refused.errors)
    # A name that is to be generated is not there yet.
    name = name or metadata.get("generateName") or "Unknown"
    return forbidden(resource.group, resource.plural, name, refused.reason)


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
