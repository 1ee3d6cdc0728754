"""The operator's scheduler, under the names that the NUMA Resources Operator gives its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from numakube.api.scheduler_config import (
    API_VERSION,
    NUMA_PLUGIN,
    SCHEDULER_NAME,
    KubeSchedulerConfiguration,
    configuration_tree,
    numa_profile,
)
from numakube.api.yaml_text import dump_yaml
from numakube.manifests.cluster_policies import (
    API_PORTS,
    SCHEDULER,
    allow_api_server,
    allow_scraping,
    debugging_access,
    deny_all,
)
from numakube.manifests.pod_template_parts import (
    CONTAINER_SECURITY,
    HASH,
    POD_SECURITY,
    budget,
    hash_of,
    on_control_plane,
    spread,
)
from numakube.manifests.rbac_rules import cluster_role, role, service_account, tenant_role
from numakube.manifests.scheduler import cluster_rules, lease_rules
from numakube.programs import PROGRAMS

if TYPE_CHECKING:
    from collections.abc import Mapping

NAME: Final = "secondary-scheduler"
CONFIG: Final = "topo-aware-scheduler-config"
CONFIG_KEY: Final = "config.yaml"
CLUSTER_ROLE: Final = "topology-aware-scheduler"
LEADER_ROLE: Final = "topology-aware-scheduler-leader-elect"
LEASE: Final = "numa-scheduler-leader"
DEFAULT_NAMES: Final = (SCHEDULER_NAME, "topo-aware-scheduler")
"""Ours, and the one that pods name where the NUMA Resources Operator was before."""
_PORT: Final = PROGRAMS["scheduler"].port
_LABELS: Final = {"app": NAME}


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondaryScheduler:
    """What is deployed.

    Attributes:
        profiles: arguments of NodeResourceTopologyMatch by what pods name in
            ``spec.schedulerName``.
        guaranteed: whether its resources are reserved for it alone.
    """

    namespace: str
    image: str
    pull_policy: str = "IfNotPresent"
    replicas: int = 1
    log_level: str = "info"
    profiles: Mapping[str, Mapping[str, Any]]
    guaranteed: bool = False
    api_ports: tuple[int, ...] = API_PORTS

    def objects(self) -> list[dict[str, Any]]:
        """Return everything, in the order of creation."""
        account = service_account(NAME, self.namespace)
        return [
            account,
            self.config_map(),
            *cluster_role(CLUSTER_ROLE, cluster_rules(), account),
            *role(LEADER_ROLE, self.namespace, lease_rules(LEASE), account),
            *debugging_access(NAME, self.namespace),
            tenant_role(self.namespace),
            budget(NAME, self.namespace, _LABELS),
            self.deployment(),
            deny_all("scheduler-default-deny-all", self.namespace, _LABELS),
            allow_api_server(
                "scheduler-egress-to-api-server", self.namespace, _LABELS, ports=self.api_ports
            ),
            # What is inside is asked for through the API server, and guarded by tokens.
            allow_scraping("scheduler-ingress-to-metrics", self.namespace, _LABELS, _PORT),
        ]

    def configuration(self) -> dict[str, Any]:
        """Return the KubeSchedulerConfiguration."""
        kind = {"apiVersion": API_VERSION, "kind": f"{NUMA_PLUGIN}Args"}
        profiles = (
            numa_profile(name, {**kind, **args}, weight=None)
            for name, args in self.profiles.items()
        )
        election = {
            "leaderElect": self.replicas > 1,
            "resourceName": LEASE,
            "resourceNamespace": self.namespace,
        }
        tree = configuration_tree(KubeSchedulerConfiguration(profiles=tuple(profiles)))
        return {**tree, "leaderElection": election}

    def config_map(self) -> dict[str, Any]:
        """Return the ConfigMap with the configuration."""
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": CONFIG, "namespace": self.namespace},
            "data": {CONFIG_KEY: dump_yaml(self.configuration())},
        }

    def deployment(self) -> dict[str, Any]:
        """Return the Deployment."""
        annotations = {
            HASH: hash_of(self.config_map()["data"]),
            "target.workload.openshift.io/management": '{"effect": "PreferredDuringScheduling"}',
        }
        return {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": NAME, "namespace": self.namespace, "labels": dict(_LABELS)},
            "spec": {
                "replicas": self.replicas,
                "selector": {"matchLabels": dict(_LABELS)},
                "template": {
                    "metadata": {"labels": {**_LABELS, **SCHEDULER}, "annotations": annotations},
                    "spec": self._pod(),
                },
            },
        }

    def _pod(self) -> dict[str, Any]:
        return {
            "serviceAccountName": NAME,
            "priorityClassName": "system-node-critical",
            "securityContext": POD_SECURITY,
            **on_control_plane(),
            # As the field's operator has it, and its tests want it.
            **spread(_LABELS, waits_for_closed_nodes=True),
            "containers": [self._container()],
            "volumes": [{"name": "etckubernetes", "configMap": {"name": CONFIG}}],
        }

    def _container(self) -> dict[str, Any]:
        return {
            "name": NAME,
            "image": self.image,
            "imagePullPolicy": self.pull_policy,
            # Said although it is our image's own: another image must not be given our arguments.
            "command": ["numakube"],
            "args": [
                "scheduler",
                f"--config=/etc/kubernetes/{CONFIG_KEY}",
                f"--log-level={self.log_level}",
                f"--bind-address=0.0.0.0:{_PORT}",
                "--insecure-serving",
            ],
            "ports": [{"name": "metrics", "containerPort": _PORT}],
            "livenessProbe": {"httpGet": {"path": "/livez", "port": "metrics"}},
            "readinessProbe": {"httpGet": {"path": "/readyz", "port": "metrics"}},
            "resources": self._resources(),
            "securityContext": CONTAINER_SECURITY,
            "terminationMessagePolicy": "FallbackToLogsOnError",
            "volumeMounts": [
                {"name": "etckubernetes", "mountPath": "/etc/kubernetes", "readOnly": True}
            ],
        }

    def _resources(self) -> dict[str, Any]:
        if not self.guaranteed:
            requests = {"cpu": "150m", "memory": "500Mi"}
            return {"requests": requests, "limits": {"memory": "1200Mi"}}
        all_of_it = {"cpu": "600m", "memory": "1200Mi"}
        return {"requests": all_of_it, "limits": dict(all_of_it)}
