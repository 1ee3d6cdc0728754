"""Exporters: one DaemonSet for all nodes, or one a pool of nodes, and what all of them share.

Under the operator names, labels and settings are those that the NUMA Resources Operator gives its
exporter (RTE), so that dashboards, policies and scripts written for it keep working; the program is
our exporter. What we do otherwise: the notification file is looked for where it is mounted, a
certificate is mounted whenever one is needed, and no helper container shows the shared CPUs, since
the kubelet's state files tell them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from numakube.manifests.cluster_policies import (
    API_PORTS,
    allow_api_server,
    allow_scraping,
    debugging_access,
    deny_all,
    is_account,
    must,
    policy,
    token_of,
    writes,
)
from numakube.manifests.node_agents import (
    KUBELET,
    POD_SECURITY,
    kubelet_state,
    security_constraints,
)
from numakube.manifests.pod_template_parts import CONTAINER_SECURITY, HASH, hash_of
from numakube.manifests.rbac_rules import (
    ask_who_calls,
    cluster_role,
    role,
    rule,
    service_account,
)
from numakube.manifests.release_image import IMAGE
from numakube.programs import PROGRAMS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NAME: Final = "numakube-exporter"
METRICS_PORT: Final = PROGRAMS["exporter"].port
CERTIFICATE: Final = "rte-metrics-service-cert"
SECURITY_CONTEXT_CONSTRAINTS: Final = "resource-topology-exporter-v2"
_WRITES: Final = ("CREATE", "UPDATE", "DELETE")


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """What the objects that exporters share are called.

    Attributes:
        account: their account, and their roles.
        service: by which their metrics are found.
        container: the only one of a pod.
        labels: of their pods.
    """

    account: str
    service: str
    container: str
    labels: Mapping[str, str]


RTE: Final = Names(
    account="rte",
    service="numaresources-rte-metrics-service",
    container="resource-topology-exporter",
    labels=MappingProxyType({"name": "resource-topology"}),
)
"""As the NUMA Resources Operator calls them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolExporter:
    """The exporters of one pool.

    Attributes:
        name: of the DaemonSet, and of the ConfigMap with the configuration of its pods.
        node_labels: labels that its nodes have.
        node_expressions: further conditions on labels, as in a node affinity.
        config_hash: changes with the configuration; empty if there is none.
        fingerprint: the method, or ``None`` for no fingerprint.
        period: how often to look; ``None`` for only when something happens.
        notified: whether touching a file on the host makes it look.
        paused: whether it writes nothing.
        koordinator: whether it also writes what koordlet does.
        measure: whether it also measures what is really used, for which it reads the host's
            ``/proc``.
        max_silence: how long it keeps to itself what was foreseen; empty for not at all.
        tolerations: taints to tolerate.
    """

    name: str
    node_labels: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    node_expressions: tuple[Mapping[str, Any], ...] = ()
    config_hash: str = ""
    fingerprint: str | None = "with-exclusive-resources"
    period: str | None = "10s"
    notified: bool = False
    paused: bool = False
    koordinator: bool = False
    measure: bool = False
    max_silence: str = ""
    tolerations: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolExporters:
    """What is deployed for all pools.

    Attributes:
        log_level: of the exporters, by our names.
        openshift: whether the platform makes certificates and asks for security constraints.
        agents: further accounts whose pods may see their hosts.
    """

    namespace: str
    image: str
    pull_policy: str = "IfNotPresent"
    log_level: str = "info"
    openshift: bool = False
    names: Names = RTE
    agents: tuple[str, ...] = ()
    api_ports: tuple[int, ...] = API_PORTS
    pools: tuple[PoolExporter, ...] = ()

    def objects(self) -> list[dict[str, Any]]:
        """Return everything, in the order of creation."""
        return [
            *self.access(),
            *self.own_node_alone(),
            *self.policies(),
            *([self.constraints()] if self.openshift else []),
            *(self.daemon_set(pool) for pool in self.pools),
            self.metrics_service(),
        ]

    def access(self) -> list[dict[str, Any]]:
        """Return account and rights."""
        account = service_account(self.names.account, self.namespace)
        return [
            account,
            *role(self.names.account, self.namespace, own_pod_rules(), account),
            *cluster_role(self.names.account, cluster_rules(), account),
            *debugging_access(self.names.account, self.namespace),
        ]

    def own_node_alone(self) -> list[dict[str, Any]]:
        """Return what keeps an exporter from the reports of other nodes, and from other pods.

        Rights cannot tell nodes apart. The token of a pod says which node it is on.
        """
        account = self.names.account
        return policy(
            f"{account}-own-node",
            [
                writes("topology.node.k8s.io", ["noderesourcetopologies"], _WRITES),
                writes("topology.numakube.dev", ["noderesourcetopologyupdates"], _WRITES),
                writes("", ["pods/status"], ["UPDATE"]),
            ],
            only={"by-an-exporter": is_account(self.namespace, account)},
            variables={
                "mine": f"request.resource.resource == 'pods' ? {token_of('pod')}"
                f" : {token_of('node')}",
                "name": "(object == null ? oldObject : object).metadata.name",
            },
            validations=[
                must(
                    "variables.mine != '' && variables.mine == variables.name",
                    "'an exporter writes the report of its own node and the status of its own pod:'"
                    " + ' this one is \"' + variables.mine + '\", not \"' + variables.name + '\"'",
                )
            ],
            namespaces=[self.namespace],
        )

    def policies(self) -> list[dict[str, Any]]:
        """Return network policies."""
        name, pods = self.names.account, (self.namespace, self.names.labels)
        return [
            allow_api_server(f"{name}-egress-to-api-server", *pods, ports=self.api_ports),
            allow_scraping(f"ingress-to-{name}-metrics", *pods, METRICS_PORT),
            deny_all(f"{name}-default-deny-all", *pods),
        ]

    def constraints(self) -> dict[str, Any]:
        """Return what OpenShift lets the exporters do on their hosts."""
        users = [
            f"system:serviceaccount:{self.namespace}:{account}"
            for account in (self.names.account, *self.agents)
        ]
        return security_constraints(
            SECURITY_CONTEXT_CONSTRAINTS, users, POD_SECURITY["seLinuxOptions"]
        )

    def metrics_service(self) -> dict[str, Any]:
        """Return the Service by which metrics are found."""
        certificate = "service.beta.openshift.io/serving-cert-secret-name"
        annotations = {"annotations": {certificate: CERTIFICATE}} if self.openshift else {}
        port = {"name": "metrics-port", "port": METRICS_PORT, "targetPort": "metrics-port"}
        return {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {
                "name": self.names.service,
                "namespace": self.namespace,
                "labels": dict(self.names.labels),
                **annotations,
            },
            "spec": {"selector": dict(self.names.labels), "ports": [{**port, "protocol": "TCP"}]},
        }

    def daemon_set(self, pool: PoolExporter) -> dict[str, Any]:
        """Return the DaemonSet of *pool*."""
        annotations = {HASH: pool.config_hash}
        if self.openshift:
            annotations["openshift.io/required-scc"] = SECURITY_CONTEXT_CONSTRAINTS
        return {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {
                "name": pool.name,
                "namespace": self.namespace,
                "labels": dict(self.names.labels),
            },
            "spec": {
                "selector": {"matchLabels": dict(self.names.labels)},
                "updateStrategy": {
                    "type": "RollingUpdate",
                    "rollingUpdate": {"maxUnavailable": "25%"},
                },
                "template": {
                    "metadata": {"labels": dict(self.names.labels), "annotations": annotations},
                    "spec": self._pod(pool),
                },
            },
        }

    def _pod(self, pool: PoolExporter) -> dict[str, Any]:
        optional: dict[str, Any] = {}
        if pool.node_labels:
            optional["nodeSelector"] = dict(pool.node_labels)
        if pool.tolerations:
            optional["tolerations"] = [dict(toleration) for toleration in pool.tolerations]
        container = self._container(pool)
        return {
            **optional,
            "serviceAccountName": self.names.account,
            "priorityClassName": "system-node-critical",
            "securityContext": POD_SECURITY,
            "readinessGates": [
                {"conditionType": "PodresourcesFetched"},
                {"conditionType": "NodeTopologyUpdated"},
            ],
            "affinity": self._affinity(pool),
            "initContainers": [_STATE.first(container)],
            "containers": [container],
            "volumes": [*_STATE.volumes, *(mount.volume() for mount in self._mounts(pool))],
        }

    def _container(self, pool: PoolExporter) -> dict[str, Any]:
        return {
            "name": self.names.container,
            "image": self.image,
            "imagePullPolicy": self.pull_policy,
            "args": ["exporter", *self.arguments(pool)],
            "env": [
                from_field("NODE_NAME", "spec.nodeName"),
                from_field("REFERENCE_NAMESPACE", "metadata.namespace"),
                from_field("REFERENCE_POD_NAME", "metadata.name"),
                {"name": "METRICS_PORT", "value": str(METRICS_PORT)},
                *([{"name": "PFP_STATUS_DUMP", "value": _STATUS}] if pool.fingerprint else []),
            ],
            "ports": [{"name": "metrics-port", "containerPort": METRICS_PORT}],
            "resources": {
                "requests": {"cpu": "20m", "memory": "80Mi"},
                "limits": {"memory": "256Mi"},
            },
            "securityContext": CONTAINER_SECURITY,
            "terminationMessagePolicy": "FallbackToLogsOnError",
            "volumeMounts": [*_STATE.mounts, *(mount.mount() for mount in self._mounts(pool))],
        }

    def arguments(self, pool: PoolExporter) -> list[str]:
        """Return the exporter's flags."""
        tls = self.openshift
        return [
            f"--sleep-interval={pool.period or '0s'}",
            "--sysfs=/host-sys",
            "--podresources-socket=unix:///host-podresources/kubelet.sock",
            "--kubelet-state-dir=/host-var-lib-kubelet",
            "--kubelet-config-file=/host-var-lib-kubelet/config.yaml",
            f"--log-level={self.log_level}",
            *(["--notify-file=/host-run-rte/notify"] if pool.notified else []),
            *(["--no-publish"] if pool.paused else []),
            *_fingerprint(pool.fingerprint),
            *(["--koordinator"] if pool.koordinator else []),
            *(["--measure", "--procfs=/host-proc"] if pool.measure else []),
            *([f"--max-silence={pool.max_silence}"] if pool.max_silence else []),
            f"--metrics-mode={'httptls' if tls else 'http'}",
            "--metrics-ip=0.0.0.0",
            "--refresh-node-resources",
        ]

    def _affinity(self, pool: PoolExporter) -> dict[str, Any]:
        """Keep two exporters off one node, as groups that overlap would have it."""
        selector = {"matchLabels": dict(self.names.labels)}
        here = {"labelSelector": selector, "topologyKey": "kubernetes.io/hostname"}
        apart = {"requiredDuringSchedulingIgnoredDuringExecution": [here]}
        return {**node_affinity(pool.node_expressions), "podAntiAffinity": apart}

    def _mounts(self, pool: PoolExporter) -> list[_Volume]:
        return [
            _Volume("host-sys", "/host-sys", _host("/sys"), read_only=True),
            _Volume("host-podresources", "/host-podresources", _host(f"{KUBELET}/pod-resources")),
            *([_NOTIFICATION] if pool.notified else []),
            *([_PROC] if pool.measure else []),
            _Volume(
                "rte-config-volume",
                "/etc/resource-topology-exporter",
                {"configMap": {"name": pool.name, "optional": True}},
                read_only=True,
            ),
            *([_STATUS_VOLUME] if pool.fingerprint else []),
            *([_CERTIFICATE_VOLUME] if self.openshift else []),
        ]


@dataclass(frozen=True, slots=True)
class _Volume:
    """Something mounted into the exporter."""

    name: str
    path: str
    source: dict[str, Any]
    read_only: bool = False

    def volume(self) -> dict[str, Any]:
        """Return the pod's volume."""
        return {"name": self.name, **self.source}

    def mount(self) -> dict[str, Any]:
        """Return the container's mount."""
        mount: dict[str, Any] = {"name": self.name, "mountPath": self.path}
        return {**mount, "readOnly": True} if self.read_only else mount


def _host(path: str, kind: str = "Directory") -> dict[str, Any]:
    return {"hostPath": {"path": path, "type": kind}}


_STATE: Final = kubelet_state("host-var-lib-kubelet", "/host-var-lib-kubelet")
_STATUS: Final = "/run/pfpstatus"
_NOTIFICATION: Final = _Volume(
    "host-run-rte", "/host-run-rte", _host("/run/rte", "DirectoryOrCreate")
)
# A container's own has its own processes only, and lacks files such as those about interrupts.
_PROC: Final = _Volume("host-proc", "/host-proc", _host("/proc"), read_only=True)
_STATUS_VOLUME: Final = _Volume(
    "run-pfpstatus", _STATUS, {"emptyDir": {"medium": "Memory", "sizeLimit": "8Mi"}}
)
_CERTIFICATE_VOLUME: Final = _Volume(
    CERTIFICATE,
    "/etc/secrets/rte",
    {"secret": {"secretName": CERTIFICATE}},
    read_only=True,
)


def cluster_rules() -> list[dict[str, Any]]:
    """Return what an exporter does all over the cluster."""
    return [
        rule("topology.node.k8s.io", ["noderesourcetopologies"], ["get", "create", "patch"]),
        rule("topology.numakube.dev", ["noderesourcetopologyupdates"], ["get", "create", "update"]),
        rule("", ["nodes"], ["get"]),
        # The kubelet's own word for its configuration, where the file is not at its usual place.
        rule("", ["nodes/configz"], ["get"]),
        rule("", ["pods"], ["get", "list", "watch"]),
        *ask_who_calls(),
    ]


def node_affinity(expressions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the affinity of pods to nodes whose labels fulfil all of *expressions*."""
    if not expressions:
        return {}
    terms = [{"matchExpressions": [dict(expression) for expression in expressions]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"nodeAffinity": required}


def own_pod_rules() -> list[dict[str, Any]]:
    """Return what an exporter does with its own pod."""
    return [rule("", ["pods"], ["get"]), rule("", ["pods/status"], ["patch"])]


def _fingerprint(method: str | None) -> list[str]:
    if method is None:
        return ["--no-pods-fingerprint"]
    return ["--pods-fingerprint", f"--pods-fingerprint-method={method}"]


def from_field(name: str, path: str) -> dict[str, Any]:
    """Return a variable with something of the pod itself."""
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


_NAMES: Final = Names(
    account=NAME,
    service=f"{NAME}-metrics",
    container="exporter",
    labels=MappingProxyType(
        {"app.kubernetes.io/name": NAME, "app.kubernetes.io/part-of": "numakube"}
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExporterManifest:
    """The exporter on every node, without an operator.

    Attributes:
        period: how often an exporter looks even if nothing seems to have changed.
        fingerprint: the method of the pods' fingerprint; ``None`` for none.
        koordinator: whether they also write what koordlet does.
        measure: whether they also measure what is really used.
        max_silence: how long they keep to themselves what was foreseen; empty for not at all.
        configuration: a file of settings besides those that the flags set; empty for none.
    """

    namespace: str = "numakube"
    image: str = IMAGE
    pull_policy: str = "IfNotPresent"
    period: str = "1m"
    fingerprint: str | None = "with-exclusive-resources"
    koordinator: bool = False
    measure: bool = False
    max_silence: str = ""
    configuration: str = ""

    def objects(self) -> list[dict[str, Any]]:
        """Return everything, in the order of creation."""
        return [self.config_map(), *self._exporters().objects()]

    def arguments(self) -> list[str]:
        """Return the exporter's flags."""
        exporters = self._exporters()
        return exporters.arguments(exporters.pools[0])

    def config_map(self) -> dict[str, Any]:
        """Return the ConfigMap with the configuration, which is there without one, too.

        So a configuration goes when it is deployed without, and when the exporter is removed.
        """
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": NAME, "namespace": self.namespace},
            "data": {"config.yaml": self.configuration or "{}\n"},
        }

    def _exporters(self) -> PoolExporters:
        everywhere = PoolExporter(
            name=NAME,
            config_hash=hash_of(self.config_map()["data"]) if self.configuration else "",
            period=self.period,
            fingerprint=self.fingerprint,
            koordinator=self.koordinator,
            measure=self.measure,
            max_silence=self.max_silence,
            tolerations=({"operator": "Exists"},),
        )
        return PoolExporters(
            namespace=self.namespace,
            image=self.image,
            pull_policy=self.pull_policy,
            names=_NAMES,
            pools=(everywhere,),
        )
