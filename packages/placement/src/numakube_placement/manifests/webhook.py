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
from numakube.manifests import IMAGE
from numakube.manifests.cluster_policies import (
    MAY_BIND,
    NEW_ALLOTMENTS,
    NOT_BY_A_KUBELET,
)
from numakube.manifests.rbac_rules import ask_who_calls, rule
from numakube.manifests.webhook_server import WebhookServer, asked
from numakube_placement import WEBHOOK_PORT

NAME: Final = "numakube-webhook"
SECRET: Final = "numakube-webhook-tls"  # noqa: S105 - the name of a Secret
PORT: Final = WEBHOOK_PORT
DEFINITION: Final = f"{PLURAL}.{GROUP}"
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

    @property
    def server(self) -> WebhookServer:
        """What runs it."""
        return WebhookServer(
            name=NAME,
            program="webhook",
            port=PORT,
            namespace=self.namespace,
            image=self.image,
            replicas=self.replicas,
            pull_policy=self.pull_policy,
            url=self.url,
            options=(f"--definition={DEFINITION}",) if self.converts else (),
        )

    def objects(self) -> list[dict[str, Any]]:
        """Return everything in the order of creation: the server before what registers it."""
        rules = cluster_rules(converts=self.converts)
        return [*self.server.objects(rules), self.configuration()]

    def configuration(self) -> dict[str, Any]:
        """Return what API servers ask about; the authority is filled in by the webhook."""
        worded = [{"name": "says-something-of-numa", "expression": _WORDED}]
        return {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": NAME, "labels": self.server.labels},
            "webhooks": [
                {
                    **self._hook("pods.numakube.dev", [asked("", "v1", ["pods"])]),
                    "namespaceSelector": self.server.elsewhere(),
                    "matchConditions": worded,
                },
                {
                    **self._hook("allotments.numakube.dev", _ALLOTMENT_RULES, _ALLOTMENTS_PATH),
                    "namespaceSelector": self.server.elsewhere(),
                    "matchConditions": [
                        {"name": "not-by-a-kubelet", "expression": NOT_BY_A_KUBELET},
                        {"name": "new", "expression": f"{NEW_ALLOTMENTS}.size() > 0"},
                        {"name": "not-by-a-scheduler", "expression": f"!{MAY_BIND}"},
                    ],
                },
                {
                    **self._hook("templates.numakube.dev", _TEMPLATE_RULES),
                    "namespaceSelector": self.server.elsewhere(),
                },
                self._hook("nodes.numakube.dev", [asked("", "v1", ["nodes"], scope="Cluster")]),
            ],
        }

    def definition(self) -> dict[str, Any]:
        """Return the definition of NodeResourceTopology with v1beta1, converted by the webhook."""
        return crd_with_v1beta1(self.server.reached("/convert"))

    def _hook(
        self, name: str, rules: list[dict[str, Any]], path: str = "/validate"
    ) -> dict[str, Any]:
        return self.server.hook(name, path, rules, failure_policy="Ignore")


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


_ALLOTMENTS_PATH: Final = "/validate/allotments"
_ALLOTMENT_RULES: Final = [asked("", "v1", ["pods", "pods/status"])]
_TEMPLATE_RULES: Final = [
    asked("apps", "v1", ["deployments", "statefulsets", "daemonsets", "replicasets"]),
    asked("batch", "v1", ["jobs", "cronjobs"]),
    asked("", "v1", ["replicationcontrollers"]),
]
