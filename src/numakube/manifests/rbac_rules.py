"""Rights: what each component may do, and nothing beyond it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

READ: Final = ("get", "list", "watch")
_RBAC: Final = "rbac.authorization.k8s.io"


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
