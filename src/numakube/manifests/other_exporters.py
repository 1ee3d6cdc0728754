"""The agents of others that fill NodeResourceTopologies, for clusters that keep them.

Objects, names and flags are those of the projects' own deployer, so that an existing installation
is recognised and a new one is the usual one; their containers are confined as ours are. Images are
the newest releases of August 2026; rights are those that these releases ask for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from numakube.manifests.cluster_policies import (
    API_PORTS,
    allow_api_server,
    allow_scraping,
    deny_all,
)
from numakube.manifests.exporter import from_field
from numakube.manifests.node_agents import KUBELET, POD_SECURITY
from numakube.manifests.pod_template_parts import CONTAINER_SECURITY
from numakube.manifests.rbac_rules import cluster_role, role, rule, service_account

RTE_NAMESPACE: Final = "tas-topology-updater"
RTE_NAME: Final = "resource-topology-exporter"
RTE_IMAGE: Final = "quay.io/k8stopologyawareschedwg/resource-topology-exporter:v0.24.0"
RTE_METRICS: Final = 2112
NFD_NAMESPACE: Final = "node-feature-discovery"
NFD_NAME: Final = "nfd-topology-updater"
NFD_IMAGE: Final = "registry.k8s.io/nfd/node-feature-discovery:v0.19.0"
_PAUSE_IMAGE: Final = "registry.k8s.io/pause:3.10"
_SHARED_POOL: Final = "shared-pool-container"
_NRT: Final = "topology.node.k8s.io"


@dataclass(frozen=True, slots=True, kw_only=True)
class RteManifest:
    """The Resource Topology Exporter."""

    namespace: str = RTE_NAMESPACE
    image: str = RTE_IMAGE
    period: str = "10s"
    fingerprint: bool = True
    pull_policy: str = "IfNotPresent"

    def objects(self) -> list[dict[str, Any]]:
        """Return everything, in the order of creation."""
        account = service_account("rte", self.namespace)
        labels = {"name": "resource-topology"}
        policies = (self.namespace, labels)
        return [
            account,
            *role("rte", self.namespace, _own_pod(), account),
            *cluster_role("rte", _rte_rules(), account),
            deny_all("rte-default-deny-all", *policies),
            allow_api_server("rte-egress-to-api-server", *policies, ports=API_PORTS),
            allow_scraping("ingress-to-rte-metrics", *policies, RTE_METRICS),
            _daemon_set(RTE_NAME, self.namespace, labels, self._pod()),
        ]

    def _pod(self) -> dict[str, Any]:
        exporter = {
            "name": RTE_NAME,
            "image": self.image,
            "imagePullPolicy": self.pull_policy,
            "command": ["/bin/resource-topology-exporter"],
            "args": [
                f"--sleep-interval={self.period}",
                "--sysfs=/host-sys",
                "--podresources-socket=unix:///host-podresources/kubelet.sock",
                "-v=2",
                f"--pods-fingerprint={str(self.fingerprint).lower()}",
                "--kubelet-config-file=/host-var-lib-kubelet/config.yaml",
            ],
            "env": [
                from_field("NODE_NAME", "spec.nodeName"),
                from_field("REFERENCE_NAMESPACE", "metadata.namespace"),
                from_field("REFERENCE_POD_NAME", "metadata.name"),
                {"name": "REFERENCE_CONTAINER_NAME", "value": _SHARED_POOL},
                {"name": "METRICS_PORT", "value": str(RTE_METRICS)},
            ],
            "ports": [{"name": "metrics-port", "containerPort": RTE_METRICS}],
            "resources": {"requests": {"cpu": "20m"}, "limits": {"memory": "256Mi"}},
            "securityContext": CONTAINER_SECURITY,
            "volumeMounts": [
                {"name": "host-sys", "mountPath": "/host-sys", "readOnly": True},
                {"name": "host-podresources", "mountPath": "/host-podresources"},
                {
                    "name": "kubelet-config",
                    "mountPath": "/host-var-lib-kubelet/config.yaml",
                    "readOnly": True,
                },
            ],
        }
        shared_pool = {
            "name": _SHARED_POOL,
            "image": _PAUSE_IMAGE,
            "resources": {"limits": {"memory": "32Mi"}},
            "securityContext": CONTAINER_SECURITY,
        }
        return {
            "serviceAccountName": "rte",
            "readinessGates": [
                {"conditionType": "PodresourcesFetched"},
                {"conditionType": "NodeTopologyUpdated"},
            ],
            "securityContext": POD_SECURITY,
            "containers": [exporter, shared_pool],
            "volumes": [
                _host("host-sys", "/sys"),
                _host("host-podresources", f"{KUBELET}/pod-resources"),
                _host("kubelet-config", f"{KUBELET}/config.yaml", "File"),
            ],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class NfdManifest:
    """The topology updater of Node Feature Discovery."""

    namespace: str = NFD_NAMESPACE
    image: str = NFD_IMAGE
    period: str = "10s"
    fingerprint: bool = True
    pull_policy: str = "IfNotPresent"

    def objects(self) -> list[dict[str, Any]]:
        """Return everything, in the order of creation."""
        account = service_account(NFD_NAME, self.namespace)
        labels = {"app": NFD_NAME}
        return [
            account,
            *cluster_role(NFD_NAME, _nfd_rules(), account),
            _daemon_set(NFD_NAME, self.namespace, labels, self._pod()),
        ]

    def _pod(self) -> dict[str, Any]:
        inside = "/host-var/lib/kubelet"
        container = {
            "name": NFD_NAME,
            "image": self.image,
            "imagePullPolicy": self.pull_policy,
            "command": ["nfd-topology-updater"],
            "args": [
                f"--kubelet-config-uri=file://{inside}/config.yaml",
                f"--podresources-socket=unix://{inside}/pod-resources/kubelet.sock",
                f"--sleep-interval={self.period}",
                "-v=1",
                f"--pods-fingerprint={str(self.fingerprint).lower()}",
                "--kubelet-state-dir=",
            ],
            "env": [from_field("NODE_NAME", "spec.nodeName")],
            "resources": {"requests": {"cpu": "20m"}, "limits": {"memory": "256Mi"}},
            "securityContext": CONTAINER_SECURITY,
            "volumeMounts": [
                {"name": "kubelet-config", "mountPath": f"{inside}/config.yaml"},
                {"name": "kubelet-podresources", "mountPath": f"{inside}/pod-resources"},
                {"name": "host-sys", "mountPath": "/host-sys"},
            ],
        }
        return {
            "serviceAccountName": NFD_NAME,
            "dnsPolicy": "ClusterFirstWithHostNet",
            "securityContext": POD_SECURITY,
            "containers": [container],
            "volumes": [
                _host("kubelet-config", f"{KUBELET}/config.yaml", "File"),
                _host("kubelet-podresources", f"{KUBELET}/pod-resources"),
                _host("host-sys", "/sys"),
            ],
        }


def _rte_rules() -> list[dict[str, Any]]:
    return [
        rule(_NRT, ["noderesourcetopologies"], ["create", "update", "get", "list"]),
        rule("", ["nodes"], ["watch", "list"]),
    ]


def _own_pod() -> list[dict[str, Any]]:
    return [rule("", ["pods"], ["get"]), rule("", ["pods/status"], ["update"])]


def _nfd_rules() -> list[dict[str, Any]]:
    return [
        rule("", ["nodes"], ["get", "list"]),
        rule("", ["namespaces"], ["get"]),
        rule("", ["pods"], ["get", "list", "watch"]),
        rule(_NRT, ["noderesourcetopologies"], ["create", "get", "update"]),
        rule("apiextensions.k8s.io", ["customresourcedefinitions"], ["get", "list", "watch"]),
    ]


def _host(name: str, path: str, kind: str = "Directory") -> dict[str, Any]:
    return {"name": name, "hostPath": {"path": path, "type": kind}}


def _daemon_set(
    name: str, namespace: str, labels: dict[str, str], pod: dict[str, Any]
) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": namespace, "labels": dict(labels)},
        "spec": {
            "selector": {"matchLabels": dict(labels)},
            "template": {"metadata": {"labels": dict(labels)}, "spec": pod},
        },
    }
