"""The scheduler: its account, its rights, its configuration and its Deployment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from numakube.api.scheduler_config import (
    DEFAULT_SCHEDULER,
    MAIN_LEASE,
    SCHEDULER_NAME,
    SHARD_LABEL,
    configuration_tree,
    numa_configuration,
)
from numakube.api.yaml_text import dump_yaml
from numakube.manifests.cluster_policies import SCHEDULER, debugging_access, only_serves
from numakube.manifests.pod_template_parts import (
    CONTAINER_SECURITY,
    HASH,
    POD_SECURITY,
    budget,
    hash_of,
    on_control_plane,
    spread,
)
from numakube.manifests.rbac_rules import (
    POD_GROUP_APIS,
    READ,
    TOPOLOGY_APIS,
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
CONFIG: Final = f"{NAME}-config"
"""Not as the lease: kustomize, which renames ConfigMaps, takes a lease in a Role for one."""
CONFIG_KEY: Final = "config.yaml"
_PORT: Final = PROGRAMS["scheduler"].port
_FOLDER: Final = "/etc/numakube"
_NAMED: Final = {"app.kubernetes.io/name": NAME}


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerManifest:
    """What is deployed.

    Attributes:
        scheduler_name: what pods name in ``spec.schedulerName``.
        replicas: one works, the others stand by.
        shards: schedulers that share the nodes, in a Deployment each.
        configuration: a KubeSchedulerConfiguration, with the names of its own; by default a profile
            for *scheduler_name*. The lease is called as *scheduler_name* in any case.
    """

    namespace: str = "numakube"
    image: str = IMAGE
    scheduler_name: str = SCHEDULER_NAME
    replicas: int = 2
    shards: int = 1
    configuration: dict[str, Any] | None = None

    def objects(self) -> list[dict[str, Any]]:
        """Return everything, in the order of creation."""
        looking = [*debugging_access(NAME, self.namespace), tenant_role(self.namespace)]
        main = self.main_access() if DEFAULT_SCHEDULER in self._names() else []
        guards = [only_serves(NAME, self.namespace, _NAMED, (_PORT,)), *self.budgets()]
        return [*self.access(), *main, *looking, *guards, self.config_map(), *self.deployments()]

    def main_access(self) -> list[dict[str, Any]]:
        """Return the right to kube-scheduler's lease, without which its pods are not ours."""
        account = service_account(NAME, self.namespace)
        namespace, lease = MAIN_LEASE
        return role(NAME, namespace, lease_rules(lease), account)

    def _names(self) -> set[str]:
        if self.configuration is None:
            return {self.scheduler_name}
        profiles = (
            profile for profile in self.configuration["profiles"] if isinstance(profile, dict)
        )
        return {profile.get("schedulerName", DEFAULT_SCHEDULER) for profile in profiles}

    def config_map(self) -> dict[str, Any]:
        """Return the ConfigMap with the configuration."""
        usual = configuration_tree(numa_configuration((self.scheduler_name,)))
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": CONFIG, "namespace": self.namespace},
            "data": {CONFIG_KEY: dump_yaml(self.configuration or usual)},
        }

    def access(self) -> list[dict[str, Any]]:
        """Return account and rights."""
        account = service_account(NAME, self.namespace)
        return [
            account,
            *cluster_role(NAME, cluster_rules(), account),
            *role(NAME, self.namespace, self._lease_rules(), account),
        ]

    def _lease_rules(self) -> list[dict[str, Any]]:
        """Return what leases take; shards have one each, and look for those of the others."""
        lease = self.scheduler_name
        if self.shards == 1:
            return lease_rules(lease)
        names = [f"{lease}-shard-{number}" for number in range(self.shards)]
        return [*lease_rules(*names), rule("coordination.k8s.io", ["leases"], ["list"])]

    def budgets(self) -> list[dict[str, Any]]:
        """Return the budget, or that of each shard."""
        return [
            budget(
                deployment["metadata"]["name"],
                self.namespace,
                deployment["spec"]["selector"]["matchLabels"],
            )
            for deployment in self.deployments()
        ]

    def deployments(self) -> list[dict[str, Any]]:
        """Return the Deployment, or that of each shard."""
        if self.shards == 1:
            return [self._deployment(NAME)]
        return [self._deployment(f"{NAME}-{number}", str(number)) for number in range(self.shards)]

    def _deployment(self, name: str, shard: str = "") -> dict[str, Any]:
        selected = {**_NAMED, **({SHARD_LABEL: shard} if shard else {})}
        labels = {**selected, **SCHEDULER}
        return {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name, "namespace": self.namespace, "labels": labels},
            "spec": {
                "replicas": self.replicas,
                "selector": {"matchLabels": selected},
                "template": {
                    "metadata": {
                        "labels": dict(labels),
                        "annotations": {HASH: hash_of(self.config_map()["data"])},
                    },
                    "spec": self._pod(selected, shard),
                },
            },
        }

    def _pod(self, selected: dict[str, Any], shard: str) -> dict[str, Any]:
        return {
            "serviceAccountName": NAME,
            "priorityClassName": "system-cluster-critical",
            "securityContext": POD_SECURITY,
            **on_control_plane(),
            **spread(selected),
            "containers": [self._container(shard)],
            "volumes": [{"name": "config", "configMap": {"name": CONFIG}}],
        }

    def _container(self, shard: str) -> dict[str, Any]:
        return {
            "name": "scheduler",
            "image": self.image,
            "args": [
                "scheduler",
                f"--config={_FOLDER}/{CONFIG_KEY}",
                f"--leader-elect-resource-name={self.scheduler_name}",
                f"--leader-elect-resource-namespace={self.namespace}",
                f"--bind-address=0.0.0.0:{_PORT}",
                "--insecure-serving",
                *([f"--shard={shard}"] if shard else ()),
            ],
            "ports": [{"name": "metrics", "containerPort": _PORT}],
            "livenessProbe": {"httpGet": {"path": "/livez", "port": "metrics"}},
            "readinessProbe": {"httpGet": {"path": "/readyz", "port": "metrics"}},
            "resources": {
                "requests": {"cpu": "200m", "memory": "256Mi"},
                "limits": {"memory": "1Gi"},
            },
            "securityContext": CONTAINER_SECURITY,
            "volumeMounts": [{"name": "config", "mountPath": _FOLDER, "readOnly": True}],
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
        rule("resource.k8s.io", ["resourceclaims"], (*READ, "create", "patch", "delete")),
        # API servers since 1.36 ask for the second right, too, where a status says who has a claim.
        rule("resource.k8s.io", ["resourceclaims/status", "resourceclaims/binding"], ["patch"]),
        rule("resource.k8s.io", ["resourceslices", "deviceclasses", "devicetaintrules"], READ),
        *(rule(group, ["podgroups"], READ) for group in POD_GROUP_APIS),
        *(rule(group, ["topologies"], READ) for group in TOPOLOGY_APIS),
        rule("topology.volcano.sh", ["hypernodes"], READ),
        rule("scheduling.k8s.io", ["podgroups/status"], ["patch"]),
        rule("topology.node.k8s.io", ["noderesourcetopologies"], READ),
        rule("topology.numakube.dev", ["noderesourcetopologyupdates"], READ),
        rule("scheduling.koordinator.sh", ["devices"], READ),
        rule("nodeinfo.volcano.sh", ["numatopologies"], READ),
        rule("", ["events"], ["create", "patch"]),
        *ask_who_calls(),
    ]


def lease_rules(*leases: str) -> list[dict[str, Any]]:
    """Return what electing a leader takes; a name cannot be asked for when creating."""
    group = "coordination.k8s.io"
    return [
        rule(group, ["leases"], ["create"]),
        rule(group, ["leases"], ["get", "update"], names=list(leases)),
    ]
