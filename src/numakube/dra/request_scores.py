"""How far up in their lists of alternatives the requests of claims were served (KEP-4816)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numakube.api.resource_claims import AllocationResult, ResourceClaim

MAX_ALTERNATIVES: Final = 8


def preference_score(
    claims: Iterable[ResourceClaim], allocations: Sequence[AllocationResult]
) -> int:
    """Return the sum over requests with alternatives; *allocations* are of claims without one."""
    fresh = iter(allocations)
    total = 0
    for claim in claims:
        allocation = claim.status.allocation or next(fresh, None)
        if allocation is None:
            continue
        served = {result.request for result in allocation.devices.results}
        for request in claim.spec.devices.requests:
            for index, one in enumerate(request.first_available):
                if f"{request.name}/{one.name}" in served:
                    total += MAX_ALTERNATIVES - index
    return total
