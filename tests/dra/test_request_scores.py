"""Nodes where requests get what they name first are better."""

from __future__ import annotations

from typing import Any

from numakube.api.codec import convert
from numakube.api.resource_claims import AllocationResult, ResourceClaim
from numakube.dra.request_scores import preference_score


def test_alternatives_count_by_their_place_in_the_list() -> None:
    """Also those of a claim that was allocated before; the others are allocated in order."""
    alternatives = [{"name": one, "deviceClassName": "gpu"} for one in ("best", "good", "poor")]

    def allocated(alternative: str) -> dict[str, Any]:
        result = {"request": f"r/{alternative}", "driver": "d", "pool": "n1", "device": "a"}
        return {"devices": {"results": [result]}}

    request = {"name": "r", "firstAvailable": alternatives}
    tree = {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [request]}}}
    fresh = convert(ResourceClaim, tree)
    held = convert(ResourceClaim, {**tree, "status": {"allocation": allocated("poor")}})
    served = convert(AllocationResult, allocated("good"))
    assert preference_score([held, fresh], [served]) == 6 + 7
