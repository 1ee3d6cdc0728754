"""The rebalancer: what it needs, and what it may do."""

from __future__ import annotations

from typing import Any

from numakube.manifests.controller_deployment import ControllerManifest
from numakube.manifests.rbac_rules import READ, ask_who_calls, rule
from numakube.manifests.scheduler import cluster_rules as scheduler_rules


class RebalancerManifest(ControllerManifest):
    """What is deployed of the rebalancer."""

    program = "rebalancer"
    cpu = "100m"
    memory = "256Mi"
    memory_limit = "2Gi"

    def cluster_rules(self) -> list[dict[str, Any]]:
        """Return what it may do: read what schedulers read, cordon nodes and evict pods."""
        return [
            *(
                rule(one["apiGroups"][0], one["resources"], READ)
                for one in scheduler_rules()
                if "list" in one["verbs"]
            ),
            rule("scheduling.k8s.io", ["priorityclasses"], READ),
            rule("resource.k8s.io", ["resourceclaimtemplates"], READ),
            rule("", ["nodes"], ["patch"]),
            rule("", ["pods/eviction"], ["create"]),
            rule("", ["events"], ["create", "patch"]),
            *ask_who_calls(),
        ]
