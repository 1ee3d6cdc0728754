"""The admission check: its Deployment, and its rights.

It asks the scheduler in its own namespace, through the API server and in the name of the account
that is there for looking inside (`numakube.manifests.debug_access`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from numakube.manifests.debug_access import account_for
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
from numakube.manifests.scheduler import NAME as SCHEDULER
from numakube.manifests.scheduler import lease_rules
from numakube.programs import PROGRAMS

NAME: Final = "numakube-admission-check"
_PORT: Final = PROGRAMS["admission-check"].port
_LABELS: Final = {"app.kubernetes.io/name": NAME}
_KUEUE: Final = "kueue.x-k8s.io"


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionCheckManifest:
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
            "name": "admission-check",
            "image": self.image,
            "args": [
                "admission-check",
                f"--namespace={self.namespace}",
                f"--bind-address=0.0.0.0:{_PORT}",
                "--insecure-serving",
            ],
            "ports": [{"name": "metrics", "containerPort": _PORT}],
            "livenessProbe": {"httpGet": {"path": "/livez", "port": "metrics"}},
            "readinessProbe": {"httpGet": {"path": "/readyz", "port": "metrics"}},
            "resources": {
                "requests": {"cpu": "50m", "memory": "96Mi"},
                "limits": {"memory": "512Mi"},
            },
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            },
        }


def cluster_rules() -> list[dict[str, Any]]:
    """Return what it may do all over the cluster: answer for workloads, and remove gates."""
    return [
        rule(_KUEUE, ["workloads", "admissionchecks", "resourceflavors"], READ),
        rule(_KUEUE, ["workloads/status", "admissionchecks/status"], ["patch"]),
        rule("", ["pods"], (*READ, "patch")),
        rule("scheduling.k8s.io", ["priorityclasses"], READ),
        rule("", ["events"], ["create", "patch"]),
        *ask_who_calls(),
    ]


def asking_rules() -> list[dict[str, Any]]:
    """Return what asking the scheduler takes."""
    return [
        rule("", ["pods/proxy"], ["get", "create"]),
        rule("", ["serviceaccounts/token"], ["create"], names=[account_for(SCHEDULER)]),
    ]
