"""A controller that is deployed on request: its account, its rights and its Deployment.

The admission check and the rebalancer are such programs. Both ask the scheduler in their own
namespace, through the API server and in the name of the account that is there for looking inside
(`numakube.manifests.debug_access`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from numakube.manifests.debug_access import account_for
from numakube.manifests.network_policies import only_serves
from numakube.manifests.pod_template_parts import (
    CONTAINER_SECURITY,
    POD_SECURITY,
    budget,
    spread,
)
from numakube.manifests.rbac_rules import cluster_role, role, rule, service_account
from numakube.manifests.release_image import IMAGE
from numakube.manifests.scheduler import NAME as SCHEDULER
from numakube.manifests.scheduler import lease_rules
from numakube.programs import PROGRAMS


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerManifest(ABC):
    """What is deployed.

    Attributes:
        program: which of our programs it is.
        cpu: what its container asks for.
        memory: the same of memory.
        memory_limit: the most memory that it may use.
        scheduler: the account of the scheduler that it asks.
        args: more arguments.
    """

    program: ClassVar[str]
    cpu: ClassVar[str]
    memory: ClassVar[str]
    memory_limit: ClassVar[str]

    namespace: str = "numakube"
    image: str = IMAGE
    replicas: int = 2
    scheduler: str = SCHEDULER
    args: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of all of its objects, and of its lease."""
        return f"numakube-{self.program}"

    @abstractmethod
    def cluster_rules(self) -> list[dict[str, Any]]:
        """Return what it may do all over the cluster."""

    def namespace_rules(self) -> list[dict[str, Any]]:
        """Return what it may do in its own namespace: elect a leader, and ask the scheduler."""
        return [
            *lease_rules(self.name),
            rule("", ["pods/proxy"], ["get", "create"]),
            rule("", ["serviceaccounts/token"], ["create"], names=[account_for(self.scheduler)]),
        ]

    def objects(self) -> list[dict[str, Any]]:
        """Return everything in the order of creation."""
        name = self.name
        account = service_account(name, self.namespace)
        return [
            account,
            *cluster_role(name, self.cluster_rules(), account),
            *role(name, self.namespace, self.namespace_rules(), account),
            only_serves(name, self.namespace, self._selected(), (PROGRAMS[self.program].port,)),
            budget(name, self.namespace, self._selected()),
            self.deployment(),
        ]

    def deployment(self) -> dict[str, Any]:
        """Return the Deployment."""
        selected = self._selected()
        labels = {**selected, "app.kubernetes.io/part-of": "numakube"}
        pod = {
            "serviceAccountName": self.name,
            "securityContext": POD_SECURITY,
            **spread(selected),
            "containers": [self._container()],
        }
        return {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": self.name, "namespace": self.namespace, "labels": labels},
            "spec": {
                "replicas": self.replicas,
                "selector": {"matchLabels": selected},
                "template": {"metadata": {"labels": dict(labels)}, "spec": pod},
            },
        }

    def _selected(self) -> dict[str, str]:
        return {"app.kubernetes.io/name": self.name}

    def _container(self) -> dict[str, Any]:
        port = PROGRAMS[self.program].port
        return {
            "name": self.program,
            "image": self.image,
            "args": [
                self.program,
                f"--namespace={self.namespace}",
                f"--bind-address=0.0.0.0:{port}",
                "--insecure-serving",
                *self.args,
            ],
            "ports": [{"name": "metrics", "containerPort": port}],
            "livenessProbe": {"httpGet": {"path": "/livez", "port": "metrics"}},
            "readinessProbe": {"httpGet": {"path": "/readyz", "port": "metrics"}},
            "resources": {
                "requests": {"cpu": self.cpu, "memory": self.memory},
                "limits": {"memory": self.memory_limit},
            },
            "securityContext": CONTAINER_SECURITY,
        }
