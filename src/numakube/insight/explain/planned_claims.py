"""The claims that a pod will have when it is created: those that its templates are good for.

Where claims have to be others than they are, they are put back before anybody else looks.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from msgspec.structs import replace

from numakube.api.meta import ObjectMeta, OwnerReference
from numakube.api.pod import PodResourceClaimStatus, PodStatus
from numakube.api.resource_claims import ResourceClaim
from numakube.dra.pod_claims import named_claims

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from numakube.api.pod import Pod
    from numakube.api.resource_claims import ResourceClaimTemplate
    from numakube.scheduling.snapshot.cluster import Cluster


def with_planned_claims(
    pod: Pod, templates: Mapping[str, ResourceClaimTemplate]
) -> tuple[Pod, dict[str, ResourceClaim]]:
    """Return *pod* with claims made from *templates*, and these claims by their keys."""
    made = list(_made(pod, templates))
    if not made:
        return pod, {}
    statuses = tuple(
        PodResourceClaimStatus(name=name, resource_claim_name=claim.metadata.name)
        for name, claim in made
    )
    status = replace(pod.status or PodStatus(), resource_claim_statuses=statuses)
    return replace(pod, status=status), {claim.metadata.key: claim for _, claim in made}


def _made(
    pod: Pod, templates: Mapping[str, ResourceClaimTemplate]
) -> Iterator[tuple[str, ResourceClaim]]:
    """Yield each claim with its name in the pod, as the claim controller would make it."""
    meta = pod.metadata
    owner = OwnerReference(
        api_version="v1", kind="Pod", name=meta.name, uid=meta.uid, controller=True
    )
    for entry, known in named_claims(pod):
        template = templates.get(f"{meta.namespace}/{entry.resource_claim_template_name}")
        if known is None and template is not None:
            name = f"{meta.name}-{entry.name}"
            metadata = ObjectMeta(
                name=name,
                namespace=meta.namespace,
                uid=f"planned:{name}",
                owner_references=(owner,),
            )
            yield entry.name, ResourceClaim(metadata=metadata, spec=template.spec.spec)


@contextmanager
def exchanged(
    cluster: Cluster, held: Mapping[str, ResourceClaim], now: Mapping[str, ResourceClaim]
) -> Iterator[None]:
    """Let *cluster* have the claims *now* instead of those *held*, for a while."""
    _put(cluster, held, now)
    try:
        yield
    finally:
        _put(cluster, now, held)


def _put(cluster: Cluster, old: Collection[str], new: Mapping[str, ResourceClaim]) -> None:
    claims = cluster.objects.resource_claims
    for key in old:
        claims.pop(key, None)
    claims.update(new)
    if old or new:
        cluster.objects_changed()
