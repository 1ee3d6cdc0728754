"""What `numakube deploy` makes of placement by annotation: enforcer and admission webhook."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numakube_placement.manifests.enforcer import EnforcerManifest
from numakube_placement.manifests.webhook import WebhookManifest

if TYPE_CHECKING:
    from numakube.manifests import Choices

__all__ = ["enforcer", "nrt_v1beta1", "webhook"]


def enforcer(choices: Choices) -> list[dict[str, Any]]:
    """Return the objects of the enforcer."""
    return EnforcerManifest(
        namespace=choices.namespace, image=choices.image, pull_policy=choices.pull_policy
    ).objects()


def webhook(choices: Choices) -> list[dict[str, Any]]:
    """Return the objects of the admission webhook."""
    return WebhookManifest(
        namespace=choices.namespace,
        image=choices.image,
        replicas=choices.replicas,
        pull_policy=choices.pull_policy,
        converts=choices.nrt_v1beta1,
    ).objects()


def nrt_v1beta1(choices: Choices) -> dict[str, Any]:
    """Return the definition of NodeResourceTopology with v1beta1, converted by the webhook."""
    return WebhookManifest(namespace=choices.namespace).definition()
