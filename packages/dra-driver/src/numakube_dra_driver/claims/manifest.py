"""The claim writer: its Deployment, its rights, and what API servers ask it about.

Its certificate is in a Secret that you provide, for the name of its Service. API servers ask about
pods with the annotation, and in namespaces with the label: nothing else waits for it. Those pods
are not created while it is away, since they would run without the alignment that was asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from numakube.manifests.cluster_policies import only_serves
from numakube.manifests.pod_template_parts import CONTAINER_SECURITY, POD_SECURITY, budget
from numakube.manifests.rbac_rules import ask_who_calls, cluster_role, rule, service_account
from numakube.manifests.release_image import IMAGE
from numakube_dra_driver.annex import WRITER_PORT
from numakube_dra_driver.claims.claim_writing import OFF, POLICY, WRITER, Policy

if TYPE_CHECKING:
    from numakube.manifests.components import Choices

SECRET: Final = "numakube-claim-writer-tls"  # noqa: S105 - the name of a Secret
_TLS: Final = "/etc/numakube/claim-writer"
_LABEL: Final = "app.kubernetes.io/name"
_TIMEOUT_SECONDS: Final = 5
_ASKS: Final = f"object.metadata.?annotations['{POLICY}'].orValue('')"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimWriterManifest:
    """What is deployed.

    Attributes:
        url: where API servers reach it; at its Service by default.
    """

    namespace: str = "numakube"
    image: str = IMAGE
    replicas: int = 2
    pull_policy: str = "IfNotPresent"
    url: str = ""

    def objects(self) -> list[dict[str, Any]]:
        """Return everything in the order of creation: the server before what registers it."""
        account = service_account(WRITER, self.namespace)
        return [
            account,
            *cluster_role(WRITER, cluster_rules(), account),
            only_serves(WRITER, self.namespace, {_LABEL: WRITER}, (WRITER_PORT,)),
            budget(WRITER, self.namespace, {_LABEL: WRITER}),
            self.service(),
            self.deployment(),
            self.configuration(),
        ]

    def service(self) -> dict[str, Any]:
        """Return the Service that API servers call."""
        spec = {
            "selector": {_LABEL: WRITER},
            "ports": [{"name": "https", "port": 443, "targetPort": "https"}],
        }
        return {"apiVersion": "v1", "kind": "Service", **self._named(), "spec": spec}

    def deployment(self) -> dict[str, Any]:
        """Return the Deployment."""
        pod = {
            "serviceAccountName": WRITER,
            "priorityClassName": "system-cluster-critical",
            "securityContext": POD_SECURITY,
            "containers": [self._container()],
            "volumes": [{"name": "tls", "secret": {"secretName": SECRET}}],
        }
        template = {"metadata": {"labels": self._named()["metadata"]["labels"]}, "spec": pod}
        spec = {
            "replicas": self.replicas,
            "selector": {"matchLabels": {_LABEL: WRITER}},
            "template": template,
        }
        return {"apiVersion": "apps/v1", "kind": "Deployment", **self._named(), "spec": spec}

    def configuration(self) -> dict[str, Any]:
        """Return what API servers ask about; the authority is filled in by the program."""
        own = {"name": "asks", "expression": f"!({_ASKS} in ['', '{OFF}'])"}
        silent = {"name": "says-nothing", "expression": f"{_ASKS} == ''"}
        return {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": WRITER, "labels": self._named()["metadata"]["labels"]},
            "webhooks": [
                self._hook("pods.claims.numakube.dev", "/claims", own),
                *(
                    self._hook(
                        f"{policy}.claims.numakube.dev",
                        f"/claims/{policy}",
                        silent,
                        {"key": POLICY, "operator": "In", "values": [policy.value]},
                    )
                    for policy in Policy
                ),
            ],
        }

    def _hook(
        self, name: str, path: str, condition: dict[str, str], *where: dict[str, Any]
    ) -> dict[str, Any]:
        service = {"name": WRITER, "namespace": self.namespace, "path": path, "port": 443}
        spared = {
            "key": "kubernetes.io/metadata.name",
            "operator": "NotIn",
            "values": list(dict.fromkeys(("kube-system", self.namespace))),
        }
        pods = {
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "operations": ["CREATE"],
            "resources": ["pods"],
            "scope": "Namespaced",
        }
        return {
            "name": name,
            "clientConfig": {"url": f"{self.url}{path}"} if self.url else {"service": service},
            "rules": [pods],
            "namespaceSelector": {"matchExpressions": [spared, *where]},
            "matchConditions": [condition],
            "failurePolicy": "Fail",
            "matchPolicy": "Equivalent",
            "reinvocationPolicy": "IfNeeded",
            "sideEffects": "None",
            "timeoutSeconds": _TIMEOUT_SECONDS,
            "admissionReviewVersions": ["v1"],
        }

    def _container(self) -> dict[str, Any]:
        probe = {"port": "https", "scheme": "HTTPS"}
        return {
            "name": "claim-writer",
            "image": self.image,
            "imagePullPolicy": self.pull_policy,
            "args": [
                "claim-writer",
                f"--bind-address=0.0.0.0:{WRITER_PORT}",
                f"--tls-cert-file={_TLS}/tls.crt",
                f"--tls-key-file={_TLS}/tls.key",
                f"--ca-file={_TLS}/ca.crt",
                f"--configuration={WRITER}",
            ],
            "ports": [{"name": "https", "containerPort": WRITER_PORT}],
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
        labels = {_LABEL: WRITER, "app.kubernetes.io/part-of": "numakube"}
        return {"metadata": {"name": WRITER, "namespace": self.namespace, "labels": labels}}


def cluster_rules() -> list[dict[str, Any]]:
    """Return what it may do: make templates, look at pods and classes, register its authority."""
    hooks = ["mutatingwebhookconfigurations"]
    return [
        rule("resource.k8s.io", ["resourceclaimtemplates"], ["list", "watch", "create", "delete"]),
        rule("resource.k8s.io", ["deviceclasses"], ["list", "watch"]),
        rule("", ["pods"], ["list", "watch"]),
        rule("", ["events"], ["create", "patch"]),
        rule("admissionregistration.k8s.io", hooks, ["get", "patch"], names=[WRITER]),
        *ask_who_calls(),
    ]


def component(choices: Choices) -> list[dict[str, Any]]:
    """Return the objects of the component ``claims`` of ``numakube deploy``."""
    return ClaimWriterManifest(
        namespace=choices.namespace,
        image=choices.image,
        replicas=choices.replicas,
        pull_policy=choices.pull_policy,
    ).objects()
