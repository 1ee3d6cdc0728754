"""What every program has that API servers ask: its Deployment, Service and account.

Its certificate is in a Secret that you provide, for the name of its Service; the program itself
tells API servers of the authority in it. What they ask it about is each program's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from numakube.manifests.cluster_policies import only_serves
from numakube.manifests.pod_template_parts import CONTAINER_SECURITY, POD_SECURITY, budget
from numakube.manifests.rbac_rules import cluster_role, service_account

if TYPE_CHECKING:
    from collections.abc import Sequence

_LABEL: Final = "app.kubernetes.io/name"
_TIMEOUT_SECONDS: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookServer:
    """A program that API servers ask.

    Attributes:
        name: of all its objects, after the project's.
        program: what is run.
        port: where it serves.
        url: where API servers reach it; at its Service by default.
        options: further arguments.
    """

    name: str
    program: str
    port: int
    namespace: str
    image: str
    replicas: int
    pull_policy: str
    url: str = ""
    options: tuple[str, ...] = ()

    def objects(self, rules: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return everything but what registers it, whose rights are *rules*."""
        account = service_account(self.name, self.namespace)
        labels = {_LABEL: self.name}
        return [
            account,
            *cluster_role(self.name, rules, account),
            only_serves(self.name, self.namespace, labels, (self.port,)),
            budget(self.name, self.namespace, labels),
            self.service(),
            self.deployment(),
        ]

    def service(self) -> dict[str, Any]:
        """Return the Service that API servers call."""
        spec = {
            "selector": {_LABEL: self.name},
            "ports": [{"name": "https", "port": 443, "targetPort": "https"}],
        }
        return {"apiVersion": "v1", "kind": "Service", **self._named(), "spec": spec}

    def deployment(self) -> dict[str, Any]:
        """Return the Deployment."""
        pod = {
            "serviceAccountName": self.name,
            "priorityClassName": "system-cluster-critical",
            "securityContext": POD_SECURITY,
            "containers": [self._container()],
            "volumes": [{"name": "tls", "secret": {"secretName": f"{self.name}-tls"}}],
        }
        template = {"metadata": {"labels": self.labels}, "spec": pod}
        spec = {
            "replicas": self.replicas,
            "selector": {"matchLabels": {_LABEL: self.name}},
            "template": template,
        }
        return {"apiVersion": "apps/v1", "kind": "Deployment", **self._named(), "spec": spec}

    @property
    def labels(self) -> dict[str, str]:
        """What its objects are found by."""
        return {_LABEL: self.name, "app.kubernetes.io/part-of": "numakube"}

    def reached(self, path: str) -> dict[str, Any]:
        """Return how API servers reach *path* of it."""
        service = {"name": self.name, "namespace": self.namespace, "path": path, "port": 443}
        return {"url": f"{self.url}{path}"} if self.url else {"service": service}

    def hook(
        self, name: str, path: str, rules: Sequence[dict[str, Any]], *, failure_policy: str
    ) -> dict[str, Any]:
        """Return what API servers ask it at *path*, about objects that *rules* name."""
        return {
            "name": name,
            "clientConfig": self.reached(path),
            "rules": [*rules],
            "failurePolicy": failure_policy,
            "matchPolicy": "Equivalent",
            "sideEffects": "None",
            "timeoutSeconds": _TIMEOUT_SECONDS,
            "admissionReviewVersions": ["v1"],
        }

    def elsewhere(self, *where: dict[str, Any]) -> dict[str, Any]:
        """Return a selector of namespaces but the cluster's own and the program's."""
        spared = list(dict.fromkeys(("kube-system", self.namespace)))
        key = "kubernetes.io/metadata.name"
        expressions = [{"key": key, "operator": "NotIn", "values": spared}, *where]
        return {"matchExpressions": expressions}

    def _container(self) -> dict[str, Any]:
        probe = {"port": "https", "scheme": "HTTPS"}
        folder = f"/etc/numakube/{self.program}"
        return {
            "name": self.program,
            "image": self.image,
            "imagePullPolicy": self.pull_policy,
            "args": [
                self.program,
                f"--bind-address=0.0.0.0:{self.port}",
                f"--tls-cert-file={folder}/tls.crt",
                f"--tls-key-file={folder}/tls.key",
                f"--ca-file={folder}/ca.crt",
                f"--configuration={self.name}",
                *self.options,
            ],
            "ports": [{"name": "https", "containerPort": self.port}],
            "livenessProbe": {"httpGet": {"path": "/livez", **probe}},
            "readinessProbe": {"httpGet": {"path": "/readyz", **probe}},
            "resources": {
                "requests": {"cpu": "50m", "memory": "64Mi"},
                "limits": {"memory": "256Mi"},
            },
            "securityContext": CONTAINER_SECURITY,
            "volumeMounts": [{"name": "tls", "mountPath": folder, "readOnly": True}],
        }

    def _named(self) -> dict[str, Any]:
        return {"metadata": {"name": self.name, "namespace": self.namespace, "labels": self.labels}}


def asked(
    group: str,
    version: str,
    resources: Sequence[str],
    *,
    scope: str = "Namespaced",
    operations: Sequence[str] = ("CREATE", "UPDATE"),
) -> dict[str, Any]:
    """Return which objects API servers ask about, and when."""
    return {
        "apiGroups": [group],
        "apiVersions": [version],
        "operations": [*operations],
        "resources": [*resources],
        "scope": scope,
    }
