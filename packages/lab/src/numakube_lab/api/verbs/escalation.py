"""Users cannot hand out rights that they do not have themselves.

Who writes a role must hold everything that it allows, or the right to ``escalate``; who binds one
must hold everything it allows, or the right to ``bind`` it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.values.gotext import go_quote
from numakube_lab.api.access.authentication import MASTERS
from numakube_lab.api.access.authorization import RBAC_GROUP, Action, action_of
from numakube_lab.api.store.store import Key
from numakube_lab.api.wire.refusals import forbidden, not_found

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numakube_lab.api.access.authentication import User
    from numakube_lab.api.handling.call import Call
    from numakube_lab.api.handling.server_state import State
    from numakube_lab.kinds import Json

_ROLES: Final = ("Role", "ClusterRole")
_BINDINGS: Final = ("RoleBinding", "ClusterRoleBinding")
_MEMBERS: Final = (
    ("apiGroups", "APIGroups"),
    ("resources", "Resources"),
    ("nonResourceURLs", "NonResourceURLs"),
    ("resourceNames", "ResourceNames"),
    ("verbs", "Verbs"),
)


def check_escalation(state: State, call: Call, obj: Json) -> None:
    """Refuse a role or binding by which the user would hand out more than they have."""
    if call.resource.group != RBAC_GROUP or MASTERS in call.user.groups:
        return
    kind = call.resource.kind.kind
    if kind in _ROLES and not _may(state, call.user, _escalate(call)):
        _check_held(state, call, obj, obj.get("rules") or ())
    elif kind in _BINDINGS and not _may(state, call.user, _bind(call, obj["roleRef"])):
        _check_held(state, call, obj, _referenced(state, call, obj["roleRef"]))


def _may(state: State, user: User, action: Action) -> bool:
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


def _referenced(state: State, call: Call, reference: Json) -> Sequence[Json]:
    cluster = reference["kind"] == "ClusterRole"
    plural = "clusterroles" if cluster else "roles"
    namespace = "" if cluster else call.namespace
    stored = state.store.get(Key(f"{RBAC_GROUP}/{plural}", namespace, reference["name"]))
    if stored is None:
        # The real server names the resource that was asked for, not the one that is missing.
        raise not_found(RBAC_GROUP, call.resource.plural, reference["name"])
    return stored.obj.get("rules") or ()


def _check_held(state: State, call: Call, obj: Json, rules: Iterable[Json]) -> None:
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
