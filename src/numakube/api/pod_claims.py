"""The claims of a pod (dynamic resource allocation) and the objects that they stand for."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.api.pod import Pod, PodResourceClaim


def claims_of_pod(pod: Pod) -> Iterator[tuple[PodResourceClaim, str | None]]:
    """Yield the claims of *pod*, each with the name of its ResourceClaim.

    The name is None as long as no ResourceClaim has been made from the claim's template.
    """
    statuses = pod.status.resource_claim_statuses if pod.status else ()
    made = {one.name: one.resource_claim_name for one in statuses}
    for claim in pod.spec.resource_claims:
        yield claim, claim.resource_claim_name or made.get(claim.name)
