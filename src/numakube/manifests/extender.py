"""The extender: its Deployment and rights, and the kube-scheduler configuration that names it.

Two deployments: ``main`` makes the extender one of the cluster's own kube-scheduler, for all pods;
``second`` runs another kube-scheduler beside it, for the pods that name it.

A client of the extender can bind pods and have room kept. So it asks for a certificate of the
authority in its Secret, and kube-scheduler has one in a Secret of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from numakube.api.yaml_text import dump_yaml
from numakube.manifests.certificate_commands import authority, issued, secret
from numakube.manifests.cluster_policies import EXTENDER, debugging_access, only_serves
from numakube.manifests.pod_template_parts import (
    CONTAINER_SECURITY,
    POD_SECURITY,
    budget,
    on_control_plane,
    spread,
)
from numakube.manifests.rbac_rules import (
    READ,
    ask_who_calls,
    cluster_role,
    role,
    rule,
    service_account,
)
from numakube.manifests.release_image import IMAGE
from numakube.programs import PROGRAMS

NAME: Final = "numakube-extender"
SECOND: Final = "numakube-kube-scheduler"
SCHEDULER_NAME: Final = SECOND
"""That of `numakube run scheduler` is another: both may run side by side."""
PORT: Final = PROGRAMS["extender"].port
HEALTH_PORT: Final = 10264
SECRET: Final = "numakube-extender-tls"  # noqa: S105 - the name of a Secret
CLIENT_SECRET: Final = "numakube-extender-client-tls"  # noqa: S105 - likewise
NODE_GROUPS: Final = "numakube-node-groups"
"""The ConfigMap in which groups of nodes are described that do not exist yet."""
WEIGHT: Final = 5
"""A whole scale of alignment then weighs 500 points, against 100 of most other scores."""
TLS_FOLDER: Final = "/etc/numakube/extender"
_CONFIG: Final = "/etc/kubernetes/numakube"
MAIN_KUBECONFIG: Final = "/etc/kubernetes/scheduler.conf"
"""Where kubeadm puts it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtenderManifest:
    """What is deployed.

    Attributes:
        name: of everything but the second kube-scheduler.
        second: whether a second kube-scheduler is, with its own profile name.
        url_prefix: where kube-scheduler reaches the extender; its Service by default.
        kubeconfig: how kube-scheduler reaches the API server; that of its pod by default.
        tls: whether calls are encrypted, with the files of the Secret `SECRET`.
        mutual_tls: whether kube-scheduler must show a certificate as well, that of `CLIENT_SECRET`;
            without TLS it serves no client.
    """

    namespace: str = "numakube"
    name: str = NAME
    image: str = IMAGE
    kube_scheduler_image: str = "registry.k8s.io/kube-scheduler:v1.35.7"
    second: bool = True
    scheduler_name: str = SCHEDULER_NAME
    url_prefix: str = ""
    kubeconfig: str = ""
    replicas: int = 2
    tls: bool = True
    mutual_tls: bool = True

    @property
    def asks_for_certificates(self) -> bool:
        """Whether only who shows a certificate may call the extender."""
        return self.tls and self.mutual_tls

    def certificates(self) -> str:
        """Return the commands that make the Secrets, for a shell with OpenSSL and kubectl."""
        if not self.tls:
            return ""
        made = [
            authority(f"{self.name}-ca"),
            issued("server", f"{self.name}.{self.namespace}.svc"),
            secret(SECRET, "server", self.namespace),
        ]
        if self.asks_for_certificates:
            made += [issued("client", SECOND), secret(CLIENT_SECRET, "client", self.namespace)]
        return "".join(made)

    def configuration(self) -> dict[str, Any]:
        """Return the KubeSchedulerConfiguration."""
        kubeconfig = self.kubeconfig or ("" if self.second else MAIN_KUBECONFIG)
        reach = {"clientConnection": {"kubeconfig": kubeconfig}} if kubeconfig else {}
        lease = {"resourceName": SECOND, "resourceNamespace": self.namespace}
        profiles = {"profiles": [{"schedulerName": self.scheduler_name}]}
        return {
            **_HEADER,
            **reach,
            "leaderElection": {"leaderElect": True, **(lease if self.second else {})},
            "percentageOfNodesToScore": 100,
            **(profiles if self.second else {}),
            "extenders": [self._extender()],
        }

    def objects(self) -> list[dict[str, Any]]:
        """Return everything, in the order of creation."""
        extender = [
            *self.access(),
            *debugging_access(self.name, self.namespace),
            *self.guards(),
            self.service(),
            self.deployment(),
        ]
        return [*extender, *self.second_scheduler()] if self.second else extender

    def access(self) -> list[dict[str, Any]]:
        """Return account and rights."""
        account = service_account(self.name, self.namespace)
        return [
            account,
            *cluster_role(self.name, cluster_rules(), account),
            *role(self.name, self.namespace, claim_rules(), account),
        ]

    def service(self) -> dict[str, Any]:
        """Return the Service that kube-scheduler calls."""
        spec = {
            "selector": {_LABEL: self.name},
            "ports": [{"name": "extender", "port": PORT, "targetPort": "extender"}],
        }
        return {"apiVersion": "v1", "kind": "Service", **self._named(self.name), "spec": spec}

    def guards(self) -> list[dict[str, Any]]:
        """Return what limits its traffic, and the budget that keeps one replica during drains."""
        labels = {_LABEL: self.name}
        ports = (PORT, HEALTH_PORT)
        return [
            only_serves(self.name, self.namespace, labels, ports),
            budget(self.name, self.namespace, labels),
        ]

    def deployment(self) -> dict[str, Any]:
        """Return the Deployment of the extender."""
        pod = {
            "serviceAccountName": self.name,
            "priorityClassName": "system-cluster-critical",
            "securityContext": POD_SECURITY,
            **on_control_plane(),
            **spread({_LABEL: self.name}),
            "containers": [self._container()],
            **({"volumes": [_tls_volume(SECRET)]} if self.tls else {}),
        }
        deployment = self._deployment(self.name, self.replicas, pod)
        template = deployment["spec"]["template"]
        template["metadata"] = {"labels": {_LABEL: self.name, **EXTENDER}}
        return deployment

    def second_scheduler(self) -> list[dict[str, Any]]:
        """Return a kube-scheduler of its own for the pods that name it."""
        account = service_account(SECOND, self.namespace)
        lease = rule("coordination.k8s.io", ["leases"], ["get", "update"], names=[SECOND])
        create = rule("coordination.k8s.io", ["leases"], ["create"])
        data = {"config.yaml": dump_yaml(self.configuration())}
        config = {"apiVersion": "v1", "kind": "ConfigMap", **self._named(SECOND), "data": data}
        return [
            account,
            *role(SECOND, self.namespace, [create, lease], account),
            _bound_to("system:kube-scheduler", account, "numakube-kube-scheduler"),
            _bound_to("system:volume-scheduler", account, "numakube-volume-scheduler"),
            _reader(account),
            config,
            # It finds the extender by its name, so it has to ask for the address.
            only_serves(
                SECOND, self.namespace, {_LABEL: SECOND}, (10259,), calls=(PORT,), dns=True
            ),
            budget(SECOND, self.namespace, {_LABEL: SECOND}),
            self._deployment(SECOND, 2, self._scheduler_pod()),
        ]

    def _extender(self) -> dict[str, Any]:
        host = f"{self.name}.{self.namespace}.svc"
        scheme = "https" if self.tls else "http"
        entry: dict[str, Any] = {
            "urlPrefix": self.url_prefix or f"{scheme}://{host}:{PORT}",
            "filterVerb": "filter",
            "prioritizeVerb": "prioritize",
            "preemptVerb": "preempt",
            "bindVerb": "bind",
            "weight": WEIGHT,
            "enableHTTPS": self.tls,
            "httpTimeout": "10s",
            "nodeCacheCapable": True,
            "ignorable": False,
        }
        if self.tls:
            client = {"certFile": f"{TLS_FOLDER}/tls.crt", "keyFile": f"{TLS_FOLDER}/tls.key"}
            entry["tlsConfig"] = {
                "serverName": host,
                "caFile": f"{TLS_FOLDER}/ca.crt",
                **(client if self.asks_for_certificates else {}),
            }
        return entry

    def _container(self) -> dict[str, Any]:
        args = [
            "extender",
            f"--bind-address=0.0.0.0:{PORT}",
            f"--health-address=0.0.0.0:{HEALTH_PORT}",
            f"--namespace={self.namespace}",
        ]
        if self.replicas == 1:
            args.append("--no-claims")
        if self.tls:
            args += [
                f"--tls-cert-file={TLS_FOLDER}/tls.crt",
                f"--tls-key-file={TLS_FOLDER}/tls.key",
            ]
        if self.asks_for_certificates:
            args.append(f"--tls-client-ca-file={TLS_FOLDER}/ca.crt")
        else:
            args.append("--insecure-serving")
        return {
            "name": "extender",
            "image": self.image,
            "args": args,
            "ports": [
                {"name": "extender", "containerPort": PORT},
                {"name": "health", "containerPort": HEALTH_PORT},
            ],
            "livenessProbe": {"httpGet": {"path": "/livez", "port": "health"}},
            # Without reports it still answers, as ``missingData`` says.
            "readinessProbe": {"httpGet": {"path": "/readyz?exclude=topologies", "port": "health"}},
            "resources": {
                "requests": {"cpu": "200m", "memory": "256Mi"},
                "limits": {"memory": "1Gi"},
            },
            "securityContext": CONTAINER_SECURITY,
            **({"volumeMounts": [_tls_mount()]} if self.tls else {}),
        }

    def _scheduler_pod(self) -> dict[str, Any]:
        mounts = [{"name": "config", "mountPath": _CONFIG, "readOnly": True}]
        volumes: list[dict[str, Any]] = [{"name": "config", "configMap": {"name": SECOND}}]
        if self.tls:
            mounts.append(_tls_mount())
            volumes.append(self._client_volume())
        probe = {"port": 10259, "scheme": "HTTPS"}
        container = {
            "name": "kube-scheduler",
            "image": self.kube_scheduler_image,
            "command": ["kube-scheduler", f"--config={_CONFIG}/config.yaml"],
            "livenessProbe": {"httpGet": {"path": "/livez", **probe}},
            "readinessProbe": {"httpGet": {"path": "/readyz", **probe}},
            "resources": {"requests": {"cpu": "100m"}, "limits": {"memory": "2Gi"}},
            "securityContext": CONTAINER_SECURITY,
            "volumeMounts": mounts,
        }
        return {
            "serviceAccountName": SECOND,
            "priorityClassName": "system-cluster-critical",
            "securityContext": {**POD_SECURITY, "runAsUser": 65534},
            **on_control_plane(),
            **spread({_LABEL: SECOND}),
            "containers": [container],
            "volumes": volumes,
        }

    def _client_volume(self) -> dict[str, Any]:
        """Return what kube-scheduler gets to see: never the key of the extender."""
        if self.asks_for_certificates:
            return _tls_volume(CLIENT_SECRET)
        volume = _tls_volume(SECRET)
        volume["secret"]["items"] = [{"key": "ca.crt", "path": "ca.crt"}]
        return volume

    def _named(self, name: str) -> dict[str, Any]:
        labels = {_LABEL: name, "app.kubernetes.io/part-of": "numakube"}
        return {"metadata": {"name": name, "namespace": self.namespace, "labels": labels}}

    def _deployment(self, name: str, replicas: int, pod: dict[str, Any]) -> dict[str, Any]:
        spec = {
            "replicas": replicas,
            "selector": {"matchLabels": {_LABEL: name}},
            "template": {"metadata": {"labels": self._named(name)["metadata"]["labels"]}},
        }
        spec["template"] = {**spec["template"], "spec": pod}  # type: ignore[dict-item]
        return {"apiVersion": "apps/v1", "kind": "Deployment", **self._named(name), "spec": spec}


def as_comment(commands: str) -> str:
    """Return the *commands* that make Secrets as a remark in YAML, if there are any."""
    lines = ["The Secrets with certificates are made by", *commands.splitlines()]
    return "".join(f"# {line}\n" for line in lines) if commands else ""


def cluster_rules() -> list[dict[str, Any]]:
    """Return what the extender does all over the cluster."""
    return [
        rule("", ["nodes"], READ),
        rule("", ["pods"], (*READ, "patch")),
        rule("", ["pods/binding"], ["create"]),
        rule("policy", ["poddisruptionbudgets"], READ),
        rule("topology.node.k8s.io", ["noderesourcetopologies"], READ),
        rule("topology.numakube.dev", ["noderesourcetopologyupdates"], READ),
        rule("scheduling.koordinator.sh", ["devices"], READ),
        *ask_who_calls(),
    ]


def claim_rules() -> list[dict[str, Any]]:
    """Return what it takes in its namespace: a lease for each node, and described node groups."""
    return [
        rule("coordination.k8s.io", ["leases"], ["get", "create", "update"]),
        rule("", ["configmaps"], READ, names=[NODE_GROUPS]),
    ]


_LABEL: Final = "app.kubernetes.io/name"
_HEADER: Final = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
}


def _tls_volume(secret: str) -> dict[str, Any]:
    return {"name": "tls", "secret": {"secretName": secret}}


def _tls_mount() -> dict[str, Any]:
    return {"name": "tls", "mountPath": TLS_FOLDER, "readOnly": True}


def _bound_to(cluster_role_name: str, account: dict[str, Any], name: str) -> dict[str, Any]:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": cluster_role_name,
        },
        "subjects": [{"kind": "ServiceAccount", **account["metadata"]}],
    }


def _reader(account: dict[str, Any]) -> dict[str, Any]:
    """Let kube-scheduler read how the API server authenticates, as every kube-scheduler does."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": SECOND, "namespace": "kube-system"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "Role",
            "name": "extension-apiserver-authentication-reader",
        },
        "subjects": [{"kind": "ServiceAccount", **account["metadata"]}],
    }
