"""The claim writer: its Deployment, its rights, and what API servers ask it about.

Its certificate is in a Secret that you provide, for the name of its Service. API servers ask about
pods with the annotation, and in namespaces with the label: nothing else waits for it. Those pods
are not created while it is away, since they would run without the alignment that was asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from numakube.manifests import IMAGE
from numakube.manifests.rbac_rules import ask_who_calls, rule
from numakube.manifests.webhook_server import WebhookServer, asked
from numakube_dra_driver.annex import WRITER_PORT
from numakube_dra_driver.claims.claim_writing import OFF, POLICY, WRITER, Policy

if TYPE_CHECKING:
    from numakube.manifests import Choices

SECRET: Final = "numakube-claim-writer-tls"  # noqa: S105 - the name of a Secret
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

    @property
    def server(self) -> WebhookServer:
        """What runs it."""
        return WebhookServer(
            name=WRITER,
            program="claim-writer",
            port=WRITER_PORT,
            namespace=self.namespace,
            image=self.image,
            replicas=self.replicas,
            pull_policy=self.pull_policy,
            url=self.url,
        )

    def objects(self) -> list[dict[str, Any]]:
        """Return everything in the order of creation: the server before what registers it."""
        return [*self.server.objects(cluster_rules()), self.configuration()]

    def configuration(self) -> dict[str, Any]:
        """Return what API servers ask about; the authority is filled in by the program."""
        own = {"name": "asks", "expression": f"!({_ASKS} in ['', '{OFF}'])"}
        silent = {"name": "says-nothing", "expression": f"{_ASKS} == ''"}
        return {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": WRITER, "labels": self.server.labels},
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
        pods = asked("", "v1", ["pods"], operations=["CREATE"])
        return {
            **self.server.hook(name, path, [pods], failure_policy="Fail"),
            "namespaceSelector": self.server.elsewhere(*where),
            "matchConditions": [condition],
            "reinvocationPolicy": "IfNeeded",
        }


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
