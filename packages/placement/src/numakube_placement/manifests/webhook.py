"""The admission webhook: its Deployment, its rights, and what API servers ask it about.

Its certificate is in a Secret that you provide, for the name of its Service; the webhook itself
tells API servers of the authority in it. Pods are refused, the rest is for warnings. Nothing of it
is needed for scheduling, hence ``failurePolicy: Ignore``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from numakube.api.crds import crd_with_v1beta1
from numakube.api.nrt import GROUP, PLURAL
from numakube.manifests.cluster_policies import (
    MAY_BIND,
    NEW_ALLOTMENTS,
    NOT_BY_A_KUBELET,
    only_serves,
)
from numakube.manifests.pod_template_parts import CONTAINER_SECURITY, POD_SECURITY, budget
from numakube.manifests.rbac_rules import ask_who_calls, cluster_role, rule, service_account
from numakube.manifests.release_image import IMAGE
from numakube_placement import WEBHOOK_PORT

NAME: Final = "numakube-webhook"
SECRET: Final = "numakube-webhook-tls"  # noqa: S105 - the name of a Secret
PORT: Final = WEBHOOK_PORT
DEFINITION: Final = f"{PLURAL}.{GROUP}"
_TLS: Final = "/etc/numakube/webhook"
_LABEL: Final = "app.kubernetes.io/name"
_TIMEOUT_SECONDS: Final = 5
_WORDED: Final = (
    "has(object.metadata.annotations) && object.metadata.annotations.exists(key, "
    'key.contains("scheduling.koordinator.sh/") || key.startsWith("topology.numakube.dev/") || '
    'key.startsWith("numakube.dev/") || '
    'key == "volcano.sh/numa-topology-policy") || '
    "has(object.metadata.labels) && object.metadata.labels.exists(key, "
    'key.startsWith("koordinator.sh/"))'
)
"""Whether a pod says anything that could be wrong; API servers do not ask about others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookManifest:
    """What is deployed.

    Attributes:
        url: where API servers reach it; at its Service by default.
        converts: whether it converts NodeResourceTopologies, the proposed v1beta1 included.
    """

    namespace: str = "numakube"
    image: str = IMAGE
    replicas: int = 2
    pull_policy: str = "IfNotPresent"
    url: str = ""
    converts: bool = False

    def objects(self) -> list[dict[str, Any]]:
        """Return everything in the order of creation: the server before what registers it."""
        account = service_account(NAME, self.namespace)
        return [
            account,
            *cluster_role(NAME, cluster_rules(converts=self.converts), account),
            only_serves(NAME, self.namespace, {_LABEL: NAME}, (PORT,)),
            budget(NAME, self.namespace, {_LABEL: NAME}),
            self.service(),
            self.deployment(),
            self.configuration(),
        ]

    def service(self) -> dict[str, Any]:
        """Return the Service that API servers call."""
        spec = {
            "selector": {_LABEL: NAME},
            "ports": [{"name": "https", "port": 443, "targetPort": "https"}],
        }
        return {"apiVersion": "v1", "kind": "Service", **self._named(), "spec": spec}

    def deployment(self) -> dict[str, Any]:
        """Return the Deployment."""
        pod = {
            "serviceAccountName": NAME,
            "priorityClassName": "system-cluster-critical",
            "securityContext": POD_SECURITY,
            "containers": [self._container()],
            "volumes": [{"name": "tls", "secret": {"secretName": SECRET}}],
        }
        template = {"metadata": {"labels": self._named()["metadata"]["labels"]}, "spec": pod}
        spec = {
            "replicas": self.replicas,
            "selector": {"matchLabels": {_LABEL: NAME}},
            "template": template,
        }
        return {"apiVersion": "apps/v1", "kind": "Deployment", **self._named(), "spec": spec}

    def configuration(self) -> dict[str, Any]:
        """Return what API servers ask about; the authority is filled in by the webhook."""
        worded = [{"name": "says-something-of-numa", "expression": _WORDED}]
        return {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": NAME, "labels": self._named()["metadata"]["labels"]},
            "webhooks": [
                {
                    **self._hook("pods.numakube.dev", [_asked("", "v1", ["pods"])]),
                    "namespaceSelector": self._elsewhere(),
                    "matchConditions": worded,
                },
                {
                    **self._hook("allotments.numakube.dev", _ALLOTMENT_RULES, _ALLOTMENTS_PATH),
                    "namespaceSelector": self._elsewhere(),
                    "matchConditions": [
                        {"name": "not-by-a-kubelet", "expression": NOT_BY_A_KUBELET},
                        {"name": "new", "expression": f"{NEW_ALLOTMENTS}.size() > 0"},
                        {"name": "not-by-a-scheduler", "expression": f"!{MAY_BIND}"},
                    ],
                },
                {
                    **self._hook("templates.numakube.dev", _TEMPLATE_RULES),
                    "namespaceSelector": self._elsewhere(),
                },
                self._hook("nodes.numakube.dev", [_asked("", "v1", ["nodes"], "Cluster")]),
            ],
        }

    def definition(self) -> dict[str, Any]:
        """Return the definition of NodeResourceTopology with v1beta1, converted by the webhook."""
        return crd_with_v1beta1(self._reached("/convert"))

    def _reached(self, path: str) -> dict[str, Any]:
        service = {"name": NAME, "namespace": self.namespace, "path": path, "port": 443}
        return {"url": f"{self.url}{path}"} if self.url else {"service": service}

    def _hook(
        self, name: str, rules: list[dict[str, Any]], path: str = "/validate"
    ) -> dict[str, Any]:
        return {
            "name": name,
            "clientConfig": self._reached(path),
            "rules": rules,
            "failurePolicy": "Ignore",
            "matchPolicy": "Equivalent",
            "sideEffects": "None",
            "timeoutSeconds": _TIMEOUT_SECONDS,
            "admissionReviewVersions": ["v1"],
        }

    def _elsewhere(self) -> dict[str, Any]:
        """Return a selector that leaves the cluster's own pods and the webhook's alone."""
        spared = list(dict.fromkeys(("kube-system", self.namespace)))
        key = "kubernetes.io/metadata.name"
        return {"matchExpressions": [{"key": key, "operator": "NotIn", "values": spared}]}

    def _container(self) -> dict[str, Any]:
        probe = {"port": "https", "scheme": "HTTPS"}
        return {
            "name": "webhook",
            "image": self.image,
            "imagePullPolicy": self.pull_policy,
            "args": [
                "webhook",
                f"--bind-address=0.0.0.0:{PORT}",
                f"--tls-cert-file={_TLS}/tls.crt",
                f"--tls-key-file={_TLS}/tls.key",
                f"--ca-file={_TLS}/ca.crt",
                f"--configuration={NAME}",
                *([f"--definition={DEFINITION}"] if self.converts else []),
            ],
            "ports": [{"name": "https", "containerPort": PORT}],
            "livenessProbe": {"httpGet": {"path": "/livez", **probe}},
            "readinessProbe": {"httpGet": {"path": "/readyz", **probe}},
            "resources": {
                "requests": {"cpu": "50m", "memory": "64Mi"},
                "limits": {"memory": "256Mi"},
            },
            "securityContext": CONTAINER_SECURITY,
            "volumeMounts": [{"name": "tls", "mountPath": _TLS, "readOnly": True}],
        }

    def _named(self) -> dict[str, Any]:
        labels = {_LABEL: NAME, "app.kubernetes.io/part-of": "numakube"}
        return {"metadata": {"name": NAME, "namespace": self.namespace, "labels": labels}}


def cluster_rules(*, converts: bool = False) -> list[dict[str, Any]]:
    """Return what the webhook may do: look at its own configuration, change it, ask who calls.

    One that *converts* may do the same to the definition of NodeResourceTopology.
    """
    change, hooks = ["get", "patch"], ["validatingwebhookconfigurations"]
    kinds = ["customresourcedefinitions"]
    definition = rule("apiextensions.k8s.io", kinds, change, names=[DEFINITION])
    return [
        rule("admissionregistration.k8s.io", hooks, change, names=[NAME]),
        *([definition] if converts else []),
        *ask_who_calls(),
    ]


def _asked(
    group: str, version: str, resources: list[str], scope: str = "Namespaced"
) -> dict[str, Any]:
    return {
        "apiGroups": [group],
        "apiVersions": [version],
        "operations": ["CREATE", "UPDATE"],
        "resources": resources,
        "scope": scope,
    }


_ALLOTMENTS_PATH: Final = "/validate/allotments"
_ALLOTMENT_RULES: Final = [_asked("", "v1", ["pods", "pods/status"])]
_TEMPLATE_RULES: Final = [
    _asked("apps", "v1", ["deployments", "statefulsets", "daemonsets", "replicasets"]),
    _asked("batch", "v1", ["jobs", "cronjobs"]),
    _asked("", "v1", ["replicationcontrollers"]),
]
