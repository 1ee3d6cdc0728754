"""The rebalancer: its Deployment, and its rights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from numakube.manifests.admission_check import asking_rules
from numakube.manifests.pod_template_parts import spread
from numakube.manifests.rbac_rules import (
    READ,
    ask_who_calls,
    cluster_role,
    role,
    rule,
    service_account,
)
from numakube.manifests.release_image import IMAGE
from numakube.manifests.scheduler import cluster_rules as scheduler_rules
from numakube.manifests.scheduler import lease_rules
from numakube.programs import PROGRAMS

NAME: Final = "numakube-rebalancer"
_PORT: Final = PROGRAMS["rebalancer"].port
_LABELS: Final = {"app.kubernetes.io/name": NAME}


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalancerManifest:
    """What is deployed."""

    namespace: str = "numakube"
    image: str = IMAGE
    replicas: int = 2

    def objects(self) -> list[dict[str, Any]]:
        """Return everything in the order of creation."""
        account = service_account(NAME, self.namespace)
        return [
            account,
            *cluster_role(NAME, cluster_rules(), account),
            *role(NAME, self.namespace, [*lease_rules(NAME), *asking_rules()], account),
            self.deployment(),
        ]

    def deployment(self) -> dict[str, Any]:
        """Return the Deployment."""
        labels = {**_LABELS, "app.kubernetes.io/part-of": "numakube"}
        pod = {
            "serviceAccountName": NAME,
            "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
            **spread(_LABELS),
            "containers": [self._container()],
        }
        return {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": NAME, "namespace": self.namespace, "labels": labels},
            "spec": {
                "replicas": self.replicas,
                "selector": {"matchLabels": dict(_LABELS)},
                "template": {"metadata": {"labels": dict(labels)}, "spec": pod},
            },
        }

    def _container(self) -> dict[str, Any]:
        return {
            "name": "rebalancer",
            "image": self.image,
            "args": [
                "rebalancer",
                f"--namespace={self.namespace}",
                f"--bind-address=0.0.0.0:{_PORT}",
                "--insecure-serving",
            ],
            "ports": [{"name": "metrics", "containerPort": _PORT}],
            "livenessProbe": {"httpGet": {"path": "/livez", "port": "metrics"}},
            "readinessProbe": {"httpGet": {"path": "/readyz", "port": "metrics"}},
            "resources": {
                "requests": {"cpu": "100m", "memory": "256Mi"},
                "limits": {"memory": "2Gi"},
            },
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            },
        }


def cluster_rules() -> list[dict[str, Any]]:
    """Return what it may do all over the cluster: read what schedulers read, cordon and evict."""
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
