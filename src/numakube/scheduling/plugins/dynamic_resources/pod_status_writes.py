"""What the scheduler writes into a pod's status about claims."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.api.pod import PodExtendedResourceClaimStatus, PodStatus

if TYPE_CHECKING:
    from numakube.api.pod import (
        ContainerExtendedResourceRequest,
        NodeAllocatableResourceClaimStatus,
        Pod,
    )


def extended_status(
    pod: Pod,
    *,
    claim: str = "",
    mappings: tuple[ContainerExtendedResourceRequest, ...] = (),
    resources: tuple[NodeAllocatableResourceClaimStatus, ...] = (),
) -> PodStatus:
    """Return a status with nothing but what is to be written."""
    extended = None
    if claim:
        extended = PodExtendedResourceClaimStatus(
            request_mappings=mappings, resource_claim_name=claim
        )
    return PodStatus(
        extended_resource_claim_status=extended,
        node_allocatable_resource_claim_statuses=resources,
    )
