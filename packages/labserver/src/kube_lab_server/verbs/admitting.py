"""Admission: what the server adds to or refuses of writes, looking at other objects.

The life cycle of namespaces comes first, then what each kind's objects ask for, and last what
policies of the cluster say.

Users cannot hand out rights that they do not have themselves. Who writes a role must hold
everything that it allows, or the right to ``escalate``; who binds one must hold everything it
allows, or the right to ``bind`` it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kube_lab_server.access.authentication import MASTERS
from kube_lab_server.access.authorization import RBAC_GROUP, Action, action_of, denied
from kube_lab_server.catalogue.resources import RESOURCES
from kube_lab_server.handling.object_meta import metadata_of
from kube_lab_server.kinds.kind_rules import AdmissionRefused
from kube_lab_server.store.store import Key
from kube_lab_server.verbs.admission_policies import check_policies
from kube_lab_server.wire.refusals import RequestRefusal, forbidden, invalid, not_found, target
from numakube.values.gotext import go_quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kube_lab_server.access.authentication import User
    from kube_lab_server.handling.call import Call, ServerState
    from kube_lab_server.kind_names import Json


_ROLES: Final = ("Role", "ClusterRole")
_BINDINGS: Final = ("RoleBinding", "ClusterRoleBinding")
_MEMBERS: Final = (
    ("apiGroups", "APIGroups"),
    ("resources", "Resources"),
    ("nonResourceURLs", "NonResourceURLs"),
    ("resourceNames", "ResourceNames"),
    ("verbs", "Verbs"),
)


def check_escalation(state: ServerState, call: Call, obj: Json) -> None:
    """Refuse a role or binding by which the user would hand out more than they have."""
    if call.resource.group != RBAC_GROUP or MASTERS in call.user.groups:
        return
    kind = call.resource.kind.kind
    if kind in _ROLES and not _may(state, call.user, _escalate(call)):
        _check_held(state, call, obj, obj.get("rules") or ())
    elif kind in _BINDINGS and not _may(state, call.user, _bind(call, obj["roleRef"])):
        _check_held(state, call, obj, _referenced(state, call, obj["roleRef"]))


def _may(state: ServerState, user: User, action: Action) -> bool:
    return state.authorizer.decide(user, action).allowed


def _escalate(call: Call) -> Action:
    asked = action_of(call.info)
    return Action(
        "escalate",
        group=asked.group,
        resource=asked.resource,
        namespace=asked.namespace,
        name=asked.name,
    )


def _bind(call: Call, reference: Json) -> Action:
    resource = "clusterroles" if reference["kind"] == "ClusterRole" else "roles"
    group, name = reference.get("apiGroup", RBAC_GROUP), reference["name"]
    return Action("bind", group=group, resource=resource, namespace=call.namespace, name=name)


def _referenced(state: ServerState, call: Call, reference: Json) -> Sequence[Json]:
    cluster = reference["kind"] == "ClusterRole"
    plural = "clusterroles" if cluster else "roles"
    namespace = "" if cluster else call.namespace
    stored = state.store.get(Key(f"{RBAC_GROUP}/{plural}", namespace, reference["name"]))
    if stored is None:
        # The real server names the resource that was asked for, not the one that is missing.
        raise not_found(RBAC_GROUP, call.resource.plural, reference["name"])
    return stored.obj.get("rules") or ()


def _check_held(state: ServerState, call: Call, obj: Json, rules: Iterable[Json]) -> None:
    held = state.authorizer.rules_for(call.user, call.namespace)
    missing = [
        part
        for rule in rules
        for part in _parts(rule)
        if not any(_covers(owned, part) for owned in held)
    ]
    if not missing:
        return
    user = call.user
    groups = " ".join(go_quote(group) for group in user.groups)
    listed = "\n".join(sorted({_described(rule) for rule in _compact(missing)}))
    why = (
        f"user {go_quote(user.name)} (groups=[{groups}]) is attempting to grant RBAC permissions "
        f"not currently held:\n{listed}"
    )
    name = obj["metadata"].get("name") or ""
    raise forbidden(RBAC_GROUP, call.resource.plural, name, why)


def _parts(rule: Json) -> Iterator[Json]:
    """Take a rule apart into rules that allow one thing each."""
    for group in rule.get("apiGroups") or ():
        for resource in rule.get("resources") or ():
            for verb in rule.get("verbs") or ():
                part = {"apiGroups": [group], "resources": [resource], "verbs": [verb]}
                names = rule.get("resourceNames") or ()
                yield from ({**part, "resourceNames": [name]} for name in names)
                if not names:
                    yield part
    for path in rule.get("nonResourceURLs") or ():
        for verb in rule.get("verbs") or ():
            yield {"nonResourceURLs": [path], "verbs": [verb]}


def _covers(owned: Json, part: Json) -> bool:
    if not _has(owned.get("verbs"), part["verbs"][0]):
        return False
    if "nonResourceURLs" in part:
        return _covers_path(owned.get("nonResourceURLs") or (), part["nonResourceURLs"][0])
    names = owned.get("resourceNames") or ()
    named = part.get("resourceNames")
    return (
        _has(owned.get("apiGroups"), part["apiGroups"][0])
        and _covers_resource(owned.get("resources") or (), part["resources"][0])
        and (not names or (named is not None and named[0] in names))
    )


def _has(listed: Iterable[str] | None, wanted: str) -> bool:
    return any(item in ("*", wanted) for item in listed or ())


def _covers_resource(listed: Iterable[str], wanted: str) -> bool:
    _, slash, part = wanted.partition("/")
    return any(item in ("*", wanted) or (slash and item == f"*/{part}") for item in listed)


def _covers_path(listed: Iterable[str], wanted: str) -> bool:
    return any(
        item in ("*", wanted) or (item.endswith("*") and wanted.startswith(item.rstrip("*")))
        for item in listed
    )


def _compact(parts: Iterable[Json]) -> list[Json]:
    """Put parts that differ only in their verb together again."""
    found: dict[str, Json] = {}
    for part in parts:
        key = repr({member: value for member, value in part.items() if member != "verbs"})
        if "nonResourceURLs" in part:
            key += part["verbs"][0]
        known = found.setdefault(key, {**part, "verbs": []})
        known["verbs"] = [*known["verbs"], *part["verbs"]]
    return list(found.values())


def _described(rule: Json) -> str:
    shown = []
    for member, title in _MEMBERS:
        if values := rule.get(member):
            listed = " ".join(go_quote(value) for value in values)
            shown.append(f"{title}:[{listed}]")
    return "{" + ", ".join(shown) + "}"


_SYSTEM_PRIORITIES: Final = ("system-node-critical", "system-cluster-critical")
_IMMORTAL: Final = frozenset({"default", "kube-system", "kube-public"})


def admit_create(state: ServerState, call: Call, obj: Json) -> Json:
    """Return a new object with what admission adds; refuse what may not be created."""
    if call.resource.namespaced:
        _check_namespace(state, call, obj)
    if call.served is not None and call.served.terminating:
        name = metadata_of(obj).get("name") or ""
        why = "create not allowed while custom resource definition is terminating"
        raise forbidden(call.resource.group, call.resource.plural, name, why)
    admitted = _accepted(call, obj, call.rules.admit_create(obj, StoreView(state)))
    check_escalation(state, call, admitted)
    return admitted


def validate_create(state: ServerState, call: Call, obj: Json) -> None:
    """Refuse a complete new object that may not be stored."""
    _check(call, obj, call.rules.check_create(obj, StoreView(state)))
    check_policies(state, call, obj, None, "CREATE")


def admit_update(state: ServerState, call: Call, obj: Json, old: Json) -> Json:
    """Return a changed object with what admission adds."""
    part = call.info.subresource
    accepted = _accepted(call, obj, call.rules.admit_update(obj, old, StoreView(state), part))
    if _content(accepted) != _content(old):
        check_escalation(state, call, accepted)
    return accepted


def validate_update(state: ServerState, call: Call, obj: Json, old: Json) -> None:
    """Refuse a complete changed object that may not be stored."""
    part = call.info.subresource
    _check(call, obj, call.rules.check_update(obj, old, StoreView(state), part))
    check_policies(state, call, obj, old, "UPDATE")


def validate_delete(state: ServerState, call: Call, obj: Json) -> None:
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


def authorize_create(state: ServerState, call: Call) -> None:
    """Refuse to a user without the right to create that an update creates."""
    action = action_of(call.info)._replace(verb="create")
    if not state.authorizer.decide(call.user, action).allowed:
        raise denied(call.user, action)


class StoreView:
    """Lets the rules of kinds look at other objects: a `ClusterView`."""

    def __init__(self, state: ServerState) -> None:
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


def _accepted(call: Call, obj: Json, admitted: Json | AdmissionRefused) -> Json:
    if isinstance(admitted, AdmissionRefused):
        raise _refusal(call, obj, admitted)
    return admitted


def _check(call: Call, obj: Json, refused: AdmissionRefused | None) -> None:
    if refused is not None:
        raise _refusal(call, obj, refused)


def _refusal(call: Call, obj: Json, refused: AdmissionRefused) -> RequestRefusal:
    resource = call.resource
    metadata = metadata_of(obj)
    name = metadata.get("name") or ""
    if refused.errors:
        return invalid(resource.group, resource.kind.kind, name, refused.errors)
    # A name that is to be generated is not there yet.
    name = name or metadata.get("generateName") or "Unknown"
    return forbidden(resource.group, resource.plural, name, refused.reason)


def _check_namespace(state: ServerState, call: Call, obj: Json) -> None:
    """Refuse objects in a namespace that does not exist or is going away."""
    namespace = state.store.get(Key("namespaces", "", call.namespace))
    if namespace is None:
        raise not_found("", "namespaces", call.namespace)
    if not metadata_of(namespace.obj).get("deletionTimestamp"):
        return
    if call.resource.plural == "localsubjectaccessreviews":
        return
    raise _terminating(call, metadata_of(obj).get("name") or "")


def _terminating(call: Call, name: str) -> RequestRefusal:
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
