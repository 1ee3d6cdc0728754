"""Rights: what each component may do and nothing beyond it, and what people may read.

`view_role` becomes part of the cluster's own roles ``view``, ``edit`` and ``admin`` by aggregation:
who may look at a cluster may look at its zones. `tenant_role` is bound to no one by default; bound
to tenants, it lets them reach the scheduler, which tells them of pods that they may get.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from numakube.insight.list_reading import ROLE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


READ: Final = ("get", "list", "watch")
_RBAC: Final = "rbac.authorization.k8s.io"
TENANTS: Final = "numakube-tenants"
_AGGREGATE: Final = f"{_RBAC}/aggregate-to-"


def rule(
    group: str, resources: Sequence[str], verbs: Sequence[str], *, names: Sequence[str] = ()
) -> dict[str, Any]:
    """Allow *verbs* on *resources* of *group*, or only on those called *names*."""
    allowed: dict[str, Any] = {
        "apiGroups": [group],
        "resources": list(resources),
        "verbs": list(verbs),
    }
    if names:
        allowed["resourceNames"] = list(names)
    return allowed


def ask_who_calls() -> list[dict[str, Any]]:
    """Let a server ask the API server who a caller is, and what he may."""
    return [
        rule("authentication.k8s.io", ["tokenreviews"], ["create"]),
        rule("authorization.k8s.io", ["subjectaccessreviews"], ["create"]),
    ]


def service_account(name: str, namespace: str) -> dict[str, Any]:
    """Return the account that a component runs as."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": name, "namespace": namespace},
    }


def cluster_role(
    name: str, rules: Iterable[dict[str, Any]], account: dict[str, Any]
) -> list[dict[str, Any]]:
    """Return a role for the whole cluster, given to *account*."""
    role = {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": list(rules),
    }
    return [role, _binding("ClusterRoleBinding", "ClusterRole", name, "", account)]


def role(
    name: str, namespace: str, rules: Iterable[dict[str, Any]], account: dict[str, Any]
) -> list[dict[str, Any]]:
    """Return a role for one namespace, given to *account*."""
    document = {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "Role",
        "metadata": {"name": name, "namespace": namespace},
        "rules": list(rules),
    }
    return [document, _binding("RoleBinding", "Role", name, namespace, account)]


def _binding(
    kind: str, role_kind: str, name: str, namespace: str, account: dict[str, Any]
) -> dict[str, Any]:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    subject = {"kind": "ServiceAccount", **account["metadata"]}
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": kind,
        "metadata": metadata,
        "roleRef": {"apiGroup": _RBAC, "kind": role_kind, "name": name},
        "subjects": [subject],
    }


POD_GROUP_APIS: Final = ("scheduling.k8s.io", "scheduling.x-k8s.io", "scheduling.volcano.sh")
TOPOLOGY_APIS: Final = ("kueue.x-k8s.io", "kai.scheduler")
"""Who has objects that say which labels are levels of the network."""


def view_rules() -> list[dict[str, Any]]:
    """Return what ``view`` allows besides."""
    return [
        rule("topology.node.k8s.io", ["noderesourcetopologies"], READ),
        rule("topology.numakube.dev", ["noderesourcetopologyupdates"], READ),
        rule(
            "nodetopology.openshift.io", ["numaresourcesoperators", "numaresourcesschedulers"], READ
        ),
        rule(
            "resource.k8s.io",
            [
                *("resourceclaims", "resourceclaimtemplates", "resourceslices"),
                *("deviceclasses", "devicetaintrules"),
            ],
            READ,
        ),
        *(rule(group, ["podgroups"], READ) for group in POD_GROUP_APIS),
        *(rule(group, ["topologies"], READ) for group in TOPOLOGY_APIS),
        rule("topology.volcano.sh", ["hypernodes"], READ),
        rule("scheduling.koordinator.sh", ["devices"], READ),
        rule("nodeinfo.volcano.sh", ["numatopologies"], READ),
    ]


def view_role() -> dict[str, Any]:
    """Return the role that Kubernetes adds to its own."""
    labels = {f"{_AGGREGATE}{name}": "true" for name in ("view", "edit", "admin")}
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": ROLE, "labels": labels},
        "rules": view_rules(),
    }


def tenant_role(namespace: str) -> dict[str, Any]:
    """Return the role that lets people reach the scheduler in *namespace*."""
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "Role",
        "metadata": {"name": TENANTS, "namespace": namespace},
        "rules": [rule("", ["pods"], ["list"]), rule("", ["pods/proxy"], ["get"])],
    }


def leases_of(role: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the leases that *role* names; kube-scheduler's own is never ours.

    Programs make them, so what deploys a program has to name them to remove them.
    """
    namespace = role["metadata"].get("namespace", "")
    if role["kind"] != "Role" or namespace == "kube-system":
        return []
    return [
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": name, "namespace": namespace},
        }
        for rule in role.get("rules") or ()
        if "leases" in rule["resources"]
        for name in rule.get("resourceNames") or ()
    ]
