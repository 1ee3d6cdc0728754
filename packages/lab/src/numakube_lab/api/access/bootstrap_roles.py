"""The roles that every cluster has: what all users may do, and the roles that admins hand out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube_lab.api.access.authentication import AUTHENTICATED, MASTERS, UNAUTHENTICATED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube_lab.kinds import Json

_GROUP: Final = "rbac.authorization.k8s.io"
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
    rights = _rule((*_READ, *_WRITE), _GROUP, "roles", "rolebindings")
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
        "apiVersion": f"{_GROUP}/v1",
        "kind": "ClusterRole",
        "metadata": _metadata(name),
        "rules": rules,
    }


def _binding(name: str, kind: str, *subjects: str) -> Json:
    return {
        "apiVersion": f"{_GROUP}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": _metadata(name),
        "subjects": [{"kind": kind, "apiGroup": _GROUP, "name": subject} for subject in subjects],
        "roleRef": {"apiGroup": _GROUP, "kind": "ClusterRole", "name": name},
    }
