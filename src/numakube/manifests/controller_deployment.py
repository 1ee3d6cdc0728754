"""A controller that is deployed on request: its account, its rights and its Deployment.

Annexes have such programs. They ask the scheduler in their own namespace, through the API server
and in the name of the account that is there for looking inside
(`numakube.manifests.cluster_policies`). An operator deploys one beside a scheduler where a field of
its NUMAResourcesScheduler asks for it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from numakube.annexes import Group, added_to, load, points
from numakube.api.numaresources import SchedulerSpec
from numakube.manifests.cluster_policies import account_for, only_serves
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

if TYPE_CHECKING:
    from typing import Self


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerManifest(ABC):
    """What is deployed.

    Attributes:
        program: which of our programs it is.
        port: where that serves health and metrics.
        cpu: what its container asks for.
        memory: the same of memory.
        memory_limit: the most memory that it may use.
        scheduler: the account of the scheduler that it asks.
        args: more arguments.
    """

    program: ClassVar[str]
    port: ClassVar[int]
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

    @classmethod
    @abstractmethod
    def asked_by(
        cls, spec: SchedulerSpec, *, namespace: str, image: str, scheduler: str
    ) -> Self | None:
        """Return what *spec* asks for; ``None`` if it asks for none."""

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
            only_serves(name, self.namespace, self._selected(), (self.port,)),
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
        return {
            "name": self.program,
            "image": self.image,
            "args": [
                self.program,
                f"--namespace={self.namespace}",
                f"--bind-address=0.0.0.0:{self.port}",
                "--insecure-serving",
                *self.args,
            ],
            "ports": [{"name": "metrics", "containerPort": self.port}],
            "livenessProbe": {"httpGet": {"path": "/livez", "port": "metrics"}},
            "readinessProbe": {"httpGet": {"path": "/readyz", "port": "metrics"}},
            "resources": {
                "requests": {"cpu": self.cpu, "memory": self.memory},
                "limits": {"memory": self.memory_limit},
            },
            "securityContext": CONTAINER_SECURITY,
        }


def companions() -> list[type[ControllerManifest]]:
    """Return the controllers that a NUMAResourcesScheduler may ask for, in order of its fields."""
    installed = points(Group.COMPANIONS)
    return [load(Group.COMPANIONS, name) for name in _FIELDS if name in installed]


def absent_companion(spec: SchedulerSpec) -> str:
    """Return which field of *spec* asks for what is not installed, and what brings it."""
    for name, annex in added_to(Group.COMPANIONS).items():
        if not annex.is_installed and getattr(spec, _FIELDS[name]) is not None:
            return f"spec.{name}: the operator lacks it: pip install 'numakube[{annex.extra}]'"
    return ""


_FIELDS = {field.encode_name: field.name for field in msgspec.structs.fields(SchedulerSpec)}
