"""The scheduler: its account, its rights and its Deployment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from numakube.api.scheduler_config import SCHEDULER_NAME
from numakube.api.yamls import dump_yaml
from numakube.manifests.debug_access import SCHEDULER, debugging_access
from numakube.manifests.pod_template_parts import HASH, hash_of, on_control_plane, spread
from numakube.manifests.rbac_rules import (
    READ,
    ask_who_calls,
    cluster_role,
    role,
    rule,
    service_account,
    tenant_role,
)
from numakube.manifests.release_image import IMAGE
from numakube.programs import PROGRAMS

NAME: Final = "numakube-scheduler"
_PORT: Final = PROGRAMS["scheduler"].port
_FOLDER: Final = "/etc/numakube"
_VOLUME: Final = {"name": "config", "configMap": {"name": NAME}}
_MOUNT: Final = {"name": "config", "mountPath": _FOLDER, "readOnly": True}
_NAMED: Final = {"app.kubernetes.io/name": NAME}


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerManifest:
    """What is deployed.

    Attributes:
        scheduler_name: what pods name in ``spec.schedulerName``.
        replicas: one works, the others stand by.
        configuration: a KubeSchedulerConfiguration, with the names of its own; its lease is called
            as *scheduler_name*.
    """

    namespace: str = "numakube"
    image: str = IMAGE
    scheduler_name: str = SCHEDULER_NAME
    replicas: int = 2
    configuration: dict[str, Any] | None = None

    def objects(self) -> list[dict[str, Any]]:
        """Return everything, in the order of creation."""
        looking = [*debugging_access(NAME, self.namespace), tenant_role(self.namespace)]
        access = [*self.access(), *looking]
        told = [] if self.configuration is None else [self.config_map()]
        return [*access, *told, self.deployment()]

    def config_map(self) -> dict[str, Any]:
        """Return the ConfigMap with the configuration."""
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": NAME, "namespace": self.namespace},
            "data": {"config.yaml": dump_yaml(self.configuration)},
        }

    def access(self) -> list[dict[str, Any]]:
        """Return account and rights."""
        account = service_account(NAME, self.namespace)
        return [
            account,
            *cluster_role(NAME, cluster_rules(), account),
            *role(NAME, self.namespace, lease_rules(self.scheduler_name), account),
        ]

    def deployment(self) -> dict[str, Any]:
        """Return the Deployment."""
        labels = {**_NAMED, **SCHEDULER}
        return {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": NAME, "namespace": self.namespace, "labels": labels},
            "spec": {
                "replicas": self.replicas,
                "selector": {"matchLabels": dict(_NAMED)},
                "template": {"metadata": {"labels": labels, **self._hashed()}, "spec": self._pod()},
            },
        }

    def _hashed(self) -> dict[str, Any]:
        """Return what makes pods restart when the configuration changes."""
        if self.configuration is None:
            return {}
        return {"annotations": {HASH: hash_of(self.config_map()["data"])}}

    def _pod(self) -> dict[str, Any]:
        return {
            "serviceAccountName": NAME,
            "priorityClassName": "system-cluster-critical",
            "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
            **on_control_plane(),
            **spread(_NAMED),
            "containers": [self._container()],
            **({"volumes": [_VOLUME]} if self.configuration is not None else {}),
        }

    def _container(self) -> dict[str, Any]:
        told = self.configuration is not None
        names = f"--config={_FOLDER}/config.yaml"
        return {
            "name": "scheduler",
            "image": self.image,
            "args": [
                "scheduler",
                names if told else f"--scheduler-name={self.scheduler_name}",
                f"--leader-elect-resource-namespace={self.namespace}",
                f"--bind-address=0.0.0.0:{_PORT}",
                "--insecure-serving",
            ],
            "ports": [{"name": "metrics", "containerPort": _PORT}],
            "livenessProbe": {"httpGet": {"path": "/livez", "port": "metrics"}},
            "readinessProbe": {"httpGet": {"path": "/readyz", "port": "metrics"}},
            "resources": {
                "requests": {"cpu": "200m", "memory": "256Mi"},
                "limits": {"memory": "1Gi"},
            },
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            },
            **({"volumeMounts": [_MOUNT]} if told else {}),
        }


def cluster_rules() -> list[dict[str, Any]]:
    """Return what the scheduler does all over the cluster."""
    return [
        rule("", ["nodes", "namespaces", "services", "replicationcontrollers"], READ),
        rule("", ["pods"], (*READ, "delete")),
        rule("", ["pods/binding"], ["create"]),
        rule("", ["pods/status"], ["patch"]),
        rule("", ["persistentvolumeclaims", "persistentvolumes"], (*READ, "patch")),
        rule("apps", ["replicasets", "statefulsets"], READ),
        rule("policy", ["poddisruptionbudgets"], READ),
        rule(
            "storage.k8s.io",
            [
                "storageclasses",
                "csinodes",
                "csidrivers",
                "csistoragecapacities",
                "volumeattachments",
            ],
            READ,
        ),
        rule("topology.node.k8s.io", ["noderesourcetopologies"], READ),
        rule("scheduling.koordinator.sh", ["devices"], READ),
        rule("", ["events"], ["create", "patch"]),
        *ask_who_calls(),
    ]


def lease_rules(lease: str) -> list[dict[str, Any]]:
    """Return what electing a leader takes; a name cannot be asked for when creating."""
    group = "coordination.k8s.io"
    return [
        rule(group, ["leases"], ["create"]),
        rule(group, ["leases"], ["get", "update"], names=[lease]),
    ]
