"""Who may do what: RBAC, and the roles that every cluster begins with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol
from urllib.parse import unquote

from kube_lab_server.access.authentication import (
    ANONYMOUS,
    AUTHENTICATED,
    MASTERS,
    UNAUTHENTICATED,
    User,
)
from kube_lab_server.store.store import Key, StoreChange, Stored, VersionedStore
from kube_lab_server.wire.refusals import RequestRefusal, bad_request, forbidden
from numakube.values.gotext import go_quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from multidict import CIMultiDictProxy

    from kube_lab_server.kind_names import Json
    from kube_lab_server.wire.request_options import RequestInfo


RBAC_GROUP: Final = "rbac.authorization.k8s.io"
_ROLES: Final = f"{RBAC_GROUP}/roles"
_CLUSTER_ROLES: Final = f"{RBAC_GROUP}/clusterroles"
_ROLE_BINDINGS: Final = f"{RBAC_GROUP}/rolebindings"
_CLUSTER_ROLE_BINDINGS: Final = f"{RBAC_GROUP}/clusterrolebindings"


class Action(NamedTuple):
    """What a user wants to do with a resource, or with a path beside the resources."""

    verb: str
    path: str = ""
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""

    @property
    def target(self) -> str:
        """The resource with its part, as rules name it."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


class AccessVerdict(NamedTuple):
    """Whether an action is allowed, and by what."""

    allowed: bool
    reason: str = ""


_ALLOWED: Final = AccessVerdict(allowed=True)


class Authorizer(Protocol):
    """Something that decides who may do what."""

    def decide(self, user: User, action: Action) -> AccessVerdict:
        """Tell whether *user* may do *action*."""
        ...

    def rules_for(self, user: User, namespace: str) -> list[Json]:
        """Return the rules that *user* has in *namespace*."""
        ...


class AllowEverything:
    """Everybody may do everything."""

    def decide(self, user: User, action: Action) -> AccessVerdict:
        """Allow."""
        return _ALLOWED

    def rules_for(self, user: User, namespace: str) -> list[Json]:
        """Return the rules that allow everything."""
        return [
            {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
            {"verbs": ["*"], "nonResourceURLs": ["*"]},
        ]


def action_of(info: RequestInfo) -> Action:
    """Return what a request does."""
    if not info.is_resource:
        return Action(info.verb, path=info.path)
    return Action(
        verb=info.verb,
        group=info.group,
        resource=info.resource,
        subresource=info.subresource,
        namespace=info.namespace,
        name=info.name,
    )


def denied(user: User, action: Action, reason: str = "") -> RequestRefusal:
    """The user may not do that."""
    who = f"User {go_quote(user.name)} cannot {action.verb}"
    tail = f": {reason}" if reason else ""
    if action.path:
        return forbidden("", "", "", f"{who} path {go_quote(action.path)}{tail}")
    where = f"in the namespace {go_quote(action.namespace)}" if action.namespace else ""
    why = (
        f"{who} resource {go_quote(action.target)} in API group {go_quote(action.group)} "
        f"{where or 'at the cluster scope'}{tail}"
    )
    return forbidden(action.group, action.resource, action.name, why)


@dataclass(frozen=True, slots=True)
class _Grant:
    """The rules that a binding gives to a subject; everywhere if *namespace* is empty."""

    namespace: str
    rules: Sequence[Json]
    origin: str


class RoleBasedAccess:
    """Decides by the roles and bindings in a store.

    What each subject is granted is worked out once and again only after a role or binding changed.
    """

    def __init__(self, store: VersionedStore) -> None:
        self._store = store
        self._grants: dict[tuple[str, str], list[_Grant]] | None = None
        for shelf in (_ROLES, _CLUSTER_ROLES, _ROLE_BINDINGS, _CLUSTER_ROLE_BINDINGS):
            store.subscribe(shelf, self._forget)

    def decide(self, user: User, action: Action) -> AccessVerdict:
        """Tell whether *user* may do *action*."""
        if MASTERS in user.groups:
            return AccessVerdict(allowed=True)
        for grant in self._granted(user, action.namespace):
            if any(_allows(rule, action) for rule in grant.rules):
                return AccessVerdict(allowed=True, reason=f"RBAC: allowed by {grant.origin}")
        return AccessVerdict(allowed=False)

    def rules_for(self, user: User, namespace: str) -> list[Json]:
        """Return the rules that *user* has in *namespace*."""
        if MASTERS in user.groups:
            return AllowEverything().rules_for(user, namespace)
        return [rule for grant in self._granted(user, namespace) for rule in grant.rules]

    def _granted(self, user: User, namespace: str) -> Iterator[_Grant]:
        if self._grants is None:
            self._grants = self._work_out()
        subjects = [("User", user.name), *(("Group", group) for group in user.groups)]
        for subject in subjects:
            for grant in self._grants.get(subject, ()):
                if grant.namespace in ("", namespace):
                    yield grant

    def _forget(self, change: StoreChange) -> None:
        del change
        self._grants = None

    def _work_out(self) -> dict[tuple[str, str], list[_Grant]]:
        grants: dict[tuple[str, str], list[_Grant]] = {}
        for shelf in (_CLUSTER_ROLE_BINDINGS, _ROLE_BINDINGS):
            for stored in self._store.listed(shelf):
                binding, namespace = stored.obj, stored.key.namespace
                rules = self._rules_of(binding["roleRef"], namespace)
                for subject in binding.get("subjects") or ():
                    origin = _origin(binding, subject, namespace)
                    grant = _Grant(namespace, rules, origin)
                    grants.setdefault(_subject_key(subject, namespace), []).append(grant)
        return grants

    def _rules_of(self, reference: Json, namespace: str) -> Sequence[Json]:
        if reference["kind"] == "ClusterRole":
            return self.cluster_role_rules(reference["name"])
        role = self._store.get(Key(_ROLES, namespace, reference["name"]))
        return (role.obj.get("rules") or ()) if role else ()

    def cluster_role_rules(self, name: str) -> Sequence[Json]:
        """Return the rules of a cluster role, those it aggregates included."""
        role = self._store.get(Key(_CLUSTER_ROLES, "", name))
        if role is None:
            return ()
        parts = [role, *self._aggregated(name)]
        return [rule for part in parts for rule in part.obj.get("rules") or ()]

    def _aggregated(self, name: str) -> Iterator[Stored]:
        """Yield the roles whose labels make them part of ``view``, ``edit`` or ``admin``.

        On a cluster a controller copies their rules; here they are looked up.
        """
        label = f"{RBAC_GROUP}/aggregate-to-{name}"
        for stored in self._store.listed(_CLUSTER_ROLES):
            if (stored.obj["metadata"].get("labels") or {}).get(label) == "true":
                yield stored


def _subject_key(subject: Json, namespace: str) -> tuple[str, str]:
    if subject["kind"] == "ServiceAccount":
        home = subject.get("namespace") or namespace
        return ("User", f"system:serviceaccount:{home}:{subject['name']}")
    return (subject["kind"], subject["name"])


def _origin(binding: Json, subject: Json, namespace: str) -> str:
    """Name a binding, its role and its subject."""
    metadata, reference = binding["metadata"], binding["roleRef"]
    whom = subject["name"]
    if subject["kind"] == "ServiceAccount":
        whom = f"{whom}/{subject.get('namespace') or namespace}"
    kind, name = "ClusterRoleBinding", metadata["name"]
    if namespace:
        kind, name = "RoleBinding", f"{name}/{namespace}"
    return (
        f"{kind} {go_quote(name)} of {reference['kind']} {go_quote(reference['name'])} "
        f"to {subject['kind']} {go_quote(whom)}"
    )


def _allows(rule: Json, action: Action) -> bool:
    if not _names(rule.get("verbs"), action.verb):
        return False
    if action.path:
        return any(_covers(pattern, action.path) for pattern in rule.get("nonResourceURLs") or ())
    names = rule.get("resourceNames")
    return (
        _names(rule.get("apiGroups"), action.group)
        and _names_resource(rule.get("resources") or (), action)
        and (not names or action.name in names)
    )


def _names(listed: Iterable[str] | None, wanted: str) -> bool:
    return any(item in ("*", wanted) for item in listed or ())


def _names_resource(listed: Iterable[str], action: Action) -> bool:
    every = f"*/{action.subresource}" if action.subresource else None
    return any(item in ("*", action.target, every) for item in listed)


def _covers(pattern: str, path: str) -> bool:
    """Tell whether a pattern of paths, which may end in a star, covers *path*."""
    if pattern.endswith("*"):
        return path.startswith(pattern.rstrip("*"))
    return pattern == path


_USER: Final = "Impersonate-User"
_GROUP: Final = "Impersonate-Group"
_UID: Final = "Impersonate-Uid"
_EXTRA: Final = "Impersonate-Extra-"
_ACCOUNT: Final = "system:serviceaccount:"


def acting_user(user: User, headers: CIMultiDictProxy[str], authorizer: Authorizer) -> User:
    """Return who *user* acts as; refuse if they may not."""
    if not any([header[:12].lower() == "impersonate-" for header in headers]):  # noqa: C419 - quick
        return user
    name = headers.get(_USER)
    if name is None:
        if wishes := " ".join(_wishes(headers)):
            raise bad_request(f"requested [{wishes}] without impersonating a user")
        return user
    wanted = _wanted(name, headers)
    for action in _actions(name, headers):
        if not authorizer.decide(user, action).allowed:
            raise denied(user, action)
    return wanted


def _wishes(headers: CIMultiDictProxy[str]) -> Iterator[str]:
    """Yield what is to be impersonated besides a user, as the real server prints it."""
    yield from (f"{{Group  {group}    }}" for group in headers.getall(_GROUP, []))
    for key, values in _extra(headers):
        yield from (f"{{UserExtra  {value}    {key}}}" for value in values)
    if uid := headers.get(_UID):
        yield f"{{UID  {uid}    }}"


def _wanted(name: str, headers: CIMultiDictProxy[str]) -> User:
    groups = list(headers.getall(_GROUP, []))
    if not groups and name.startswith(_ACCOUNT):
        namespace = name.removeprefix(_ACCOUNT).partition(":")[0]
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}"]
    last = UNAUTHENTICATED if name == ANONYMOUS else AUTHENTICATED
    if last not in groups:
        groups.append(last)
    return User(name, headers.get(_UID, ""), tuple(groups), tuple(_extra(headers)))


def _extra(headers: CIMultiDictProxy[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    long = [header.title() for header in headers if len(header) >= len(_EXTRA)]
    for header in dict.fromkeys(header for header in long if header.startswith(_EXTRA)):
        key = unquote(header.removeprefix(_EXTRA).lower())
        yield key, tuple(headers.getall(header))


def _actions(name: str, headers: CIMultiDictProxy[str]) -> Iterator[Action]:
    """Yield what one must be allowed to do to act as that user."""
    namespace, _, account = name.removeprefix(_ACCOUNT).partition(":")
    if name.startswith(_ACCOUNT) and account:
        yield Action("impersonate", resource="serviceaccounts", namespace=namespace, name=account)
    else:
        yield Action("impersonate", resource="users", name=name)
    for group in headers.getall(_GROUP, []):
        yield Action("impersonate", resource="groups", name=group)
    group = "authentication.k8s.io"
    if uid := headers.get(_UID):
        yield Action("impersonate", group=group, resource="uids", name=uid)
    for key, values in _extra(headers):
        for value in values:
            yield Action(
                "impersonate", group=group, resource="userextras", subresource=key, name=value
            )


_RBAC_API: Final = "rbac.authorization.k8s.io"
_LABELS: Final = {"kubernetes.io/bootstrapping": "rbac-defaults"}
_ANNOTATIONS: Final = {"rbac.authorization.kubernetes.io/autoupdate": "true"}

_READ: Final = ("get", "list", "watch")
_WRITE: Final = ("create", "delete", "deletecollection", "patch", "update")

_HEALTH_PATHS: Final = ("/healthz", "/livez", "/readyz", "/version", "/version/")
_DISCOVERY_PATHS: Final = (
    "/api",
    "/api/*",
    "/apis",
    "/apis/*",
    "/healthz",
    "/livez",
    "/openapi",
    "/openapi/*",
    "/readyz",
    "/version",
    "/version/",
)

_VIEWED: Final = {
    "": (
        "configmaps",
        "endpoints",
        "persistentvolumeclaims",
        "persistentvolumeclaims/status",
        "pods",
        "replicationcontrollers",
        "replicationcontrollers/scale",
        "serviceaccounts",
        "services",
        "services/status",
        "bindings",
        "events",
        "limitranges",
        "namespaces/status",
        "pods/log",
        "pods/status",
        "replicationcontrollers/status",
        "resourcequotas",
        "resourcequotas/status",
        "namespaces",
    ),
    "apps": (
        "controllerrevisions",
        "daemonsets",
        "daemonsets/status",
        "deployments",
        "deployments/scale",
        "deployments/status",
        "replicasets",
        "replicasets/scale",
        "replicasets/status",
        "statefulsets",
        "statefulsets/scale",
        "statefulsets/status",
    ),
    "autoscaling": ("horizontalpodautoscalers", "horizontalpodautoscalers/status"),
    "batch": ("cronjobs", "cronjobs/status", "jobs", "jobs/status"),
    "discovery.k8s.io": ("endpointslices",),
    "networking.k8s.io": ("ingresses", "ingresses/status", "networkpolicies"),
    "policy": ("poddisruptionbudgets", "poddisruptionbudgets/status"),
}

_EDITED: Final = {
    "": (
        "configmaps",
        "events",
        "persistentvolumeclaims",
        "pods",
        "pods/attach",
        "pods/eviction",
        "pods/exec",
        "pods/portforward",
        "pods/proxy",
        "replicationcontrollers",
        "replicationcontrollers/scale",
        "secrets",
        "serviceaccounts",
        "services",
        "services/proxy",
    ),
    "apps": (
        "daemonsets",
        "deployments",
        "deployments/rollback",
        "deployments/scale",
        "replicasets",
        "replicasets/scale",
        "statefulsets",
        "statefulsets/scale",
    ),
    "autoscaling": ("horizontalpodautoscalers",),
    "batch": ("cronjobs", "jobs"),
    "networking.k8s.io": ("ingresses", "networkpolicies"),
    "policy": ("poddisruptionbudgets",),
    "coordination.k8s.io": ("leases",),
}


def _rule(verbs: tuple[str, ...], group: str, *resources: str) -> Json:
    return {"verbs": list(verbs), "apiGroups": [group], "resources": list(resources)}


def _paths(verbs: tuple[str, ...], *paths: str) -> Json:
    return {"verbs": list(verbs), "nonResourceURLs": list(paths)}


def _view() -> list[Json]:
    return [_rule(_READ, group, *resources) for group, resources in _VIEWED.items()]


def _edit() -> list[Json]:
    changes = [_rule(_WRITE, group, *resources) for group, resources in _EDITED.items()]
    reads = _rule(
        _READ, "", "secrets", "pods/attach", "pods/exec", "pods/portforward", "pods/proxy"
    )
    leases = _rule(_READ, "coordination.k8s.io", "leases")
    tokens = _rule(("create",), "", "serviceaccounts/token")
    return [*_view(), *changes, reads, leases, tokens]


def _admin() -> list[Json]:
    rights = _rule((*_READ, *_WRITE), _RBAC_API, "roles", "rolebindings")
    return [
        *_edit(),
        rights,
        _rule(("create",), "authorization.k8s.io", "localsubjectaccessreviews"),
    ]


def _scheduler() -> list[Json]:
    """What a kube-scheduler needs."""
    return [
        _rule(("create", "patch", "update"), "", "events"),
        _rule(("create", "patch", "update"), "events.k8s.io", "events"),
        _rule(("create", "get", "list", "update", "watch"), "coordination.k8s.io", "leases"),
        _rule(_READ, "", "nodes", "namespaces", "replicationcontrollers", "services"),
        _rule(("delete", *_READ), "", "pods"),
        _rule(("create",), "", "bindings", "pods/binding"),
        _rule(("patch", "update"), "", "pods/status"),
        _rule(_READ, "apps", "replicasets", "statefulsets"),
        _rule(_READ, "policy", "poddisruptionbudgets"),
        _rule(("patch", "update", *_READ), "", "persistentvolumeclaims", "persistentvolumes"),
        _rule(("create",), "authentication.k8s.io", "tokenreviews"),
        _rule(("create",), "authorization.k8s.io", "subjectaccessreviews"),
        _rule(_READ, "storage.k8s.io", "csinodes", "csidrivers", "csistoragecapacities"),
        _rule(_READ, "storage.k8s.io", "storageclasses", "volumeattachments"),
        _rule(_READ, "resource.k8s.io", "deviceclasses", "resourceclaims", "resourceslices"),
        _rule(_READ, "resource.k8s.io", "devicetaintrules"),
        _rule(("patch", "update"), "resource.k8s.io", "resourceclaims", "resourceclaims/status"),
        _rule(("patch", "update"), "resource.k8s.io", "resourceclaims/binding"),
    ]


def cluster_roles() -> Iterator[Json]:
    """Yield the cluster roles that a cluster starts with."""
    everything = [_rule(("*",), "*", "*"), _paths(("*",), "*")]
    yield _role("cluster-admin", everything)
    yield _role("system:discovery", [_paths(("get",), *_DISCOVERY_PATHS)])
    yield _role("system:public-info-viewer", [_paths(("get",), *_HEALTH_PATHS)])
    yield _role(
        "system:basic-user",
        [
            _rule(
                ("create",),
                "authorization.k8s.io",
                "selfsubjectaccessreviews",
                "selfsubjectrulesreviews",
            ),
            _rule(("create",), "authentication.k8s.io", "selfsubjectreviews"),
        ],
    )
    yield _role("view", _view())
    yield _role("edit", _edit())
    yield _role("admin", _admin())
    yield _role("system:kube-scheduler", _scheduler())
    yield _role(
        "system:auth-delegator",
        [
            _rule(("create",), "authentication.k8s.io", "tokenreviews"),
            _rule(("create",), "authorization.k8s.io", "subjectaccessreviews"),
        ],
    )


def cluster_role_bindings() -> Iterator[Json]:
    """Yield the bindings that a cluster starts with."""
    yield _binding("cluster-admin", "Group", MASTERS)
    yield _binding("system:discovery", "Group", AUTHENTICATED)
    yield _binding("system:basic-user", "Group", AUTHENTICATED)
    yield _binding("system:public-info-viewer", "Group", AUTHENTICATED, UNAUTHENTICATED)
    yield _binding("system:kube-scheduler", "User", "system:kube-scheduler")


def _metadata(name: str) -> Json:
    return {"name": name, "labels": dict(_LABELS), "annotations": dict(_ANNOTATIONS)}


def _role(name: str, rules: list[Json]) -> Json:
    return {
        "apiVersion": f"{_RBAC_API}/v1",
        "kind": "ClusterRole",
        "metadata": _metadata(name),
        "rules": rules,
    }


def _binding(name: str, kind: str, *subjects: str) -> Json:
    return {
        "apiVersion": f"{_RBAC_API}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": _metadata(name),
        "subjects": [
            {"kind": kind, "apiGroup": _RBAC_API, "name": subject} for subject in subjects
        ],
        "roleRef": {"apiGroup": _RBAC_API, "kind": "ClusterRole", "name": name},
    }
