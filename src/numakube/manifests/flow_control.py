"""How the API server treats our requests when it has too many: a priority level of their own.

Without it, service accounts outside kube-system share the level ``workload-low`` with every other
pod of the cluster (API Priority and Fairness, Kubernetes 1.37), so a controller that lists too much
would hold up bindings. Each account is a flow of its own: exporters of thousands of nodes that
write at the same time do not hold up the scheduler either. Leases go to the level that Kubernetes
has for them, as those of kube-system do.
"""

from __future__ import annotations

from typing import Any, Final

NAME: Final = "numakube"
_API: Final = "flowcontrol.apiserver.k8s.io/v1"
_SHARES: Final = 40
"""As many as ``workload-high`` has, where kube-scheduler is."""
_LENT_PERCENT: Final = 75
"""What others may use while we do not need it."""
_PRECEDENCE: Final = 850
"""After kube-scheduler's own schema, before those for all service accounts."""
_LEASE_PRECEDENCE: Final = 190
"""Just before the schema for leases of kube-system's workloads."""


def flow_control(namespace: str) -> list[dict[str, Any]]:
    """Return the priority level, and what leads requests of accounts in *namespace* to it."""
    leases = {
        "verbs": ["get", "create", "update", "patch"],
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "namespaces": ["*"],
    }
    everything = {
        "verbs": ["*"],
        "apiGroups": ["*"],
        "resources": ["*"],
        "namespaces": ["*"],
        "clusterScope": True,
    }
    return [
        _level(),
        _schema("leases", "leader-election", _LEASE_PRECEDENCE, namespace, leases),
        _schema("requests", NAME, _PRECEDENCE, namespace, everything),
    ]


def _level() -> dict[str, Any]:
    return {
        "apiVersion": _API,
        "kind": "PriorityLevelConfiguration",
        "metadata": {"name": NAME},
        "spec": {
            "type": "Limited",
            "limited": {
                "nominalConcurrencyShares": _SHARES,
                "lendablePercent": _LENT_PERCENT,
                "limitResponse": {
                    "type": "Queue",
                    "queuing": {"queues": 64, "handSize": 6, "queueLengthLimit": 50},
                },
            },
        },
    }


def _schema(
    what: str, level: str, precedence: int, namespace: str, requests: dict[str, Any]
) -> dict[str, Any]:
    accounts = {"kind": "ServiceAccount", "serviceAccount": {"namespace": namespace, "name": "*"}}
    return {
        "apiVersion": _API,
        "kind": "FlowSchema",
        "metadata": {"name": f"{NAME}-{what}-{namespace}"},
        "spec": {
            "priorityLevelConfiguration": {"name": level},
            "matchingPrecedence": precedence,
            "distinguisherMethod": {"type": "ByUser"},
            "rules": [{"subjects": [accounts], "resourceRules": [requests]}],
        },
    }
