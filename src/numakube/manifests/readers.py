"""Rights of people: to read what tools read, and to have their pods explained.

`view_role` is part of the cluster's own roles ``view``, ``edit`` and ``admin`` (by aggregation), so
whoever may look at a cluster may look at its zones. `tenant_role` is given to nobody: bound to
tenants, it lets them reach the scheduler, which tells them of pods that they may get.
"""

from __future__ import annotations

from typing import Any, Final

from numakube.insight.unreadable import ROLE
from numakube.manifests.rbac_rules import READ, rule

TENANTS: Final = "numakube-tenants"
_AGGREGATE: Final = "rbac.authorization.k8s.io/aggregate-to-"


def view_rules() -> list[dict[str, Any]]:
    """Return what ``view`` allows besides."""
    return [
        rule("topology.node.k8s.io", ["noderesourcetopologies"], READ),
        rule(
            "nodetopology.openshift.io", ["numaresourcesoperators", "numaresourcesschedulers"], READ
        ),
        rule("scheduling.koordinator.sh", ["devices"], READ),
    ]


def view_role() -> dict[str, Any]:
    """Return the role that Kubernetes adds to its own."""
    labels = {f"{_AGGREGATE}{name}": "true" for name in ("view", "edit", "admin")}
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": ROLE, "labels": labels},
        "rules": view_rules(),
    }


def tenant_role(namespace: str) -> dict[str, Any]:
    """Return the role that lets people reach the scheduler in *namespace*."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": TENANTS, "namespace": namespace},
        "rules": [rule("", ["pods"], ["list"]), rule("", ["pods/proxy"], ["get"])],
    }
