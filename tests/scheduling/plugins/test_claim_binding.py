"""What is written of the claims of a pod that is about to be bound."""

from __future__ import annotations

from typing import Any

import pytest

from numakube.api.codec import convert
from numakube.api.resource_claims import FINALIZER, AllocationResult, ResourceClaim
from numakube.dra.extended_resources import IN_MEMORY_NAME, requests_and_mappings, with_requests
from numakube.errors import InvalidValue
from numakube.scheduling.plugins.dynamic_resources.claim_binding import (
    ClaimConflict,
    ClaimNotWritten,
    write_claim,
    write_claims,
)
from numakube.scheduling.plugins.dynamic_resources.claim_tracker import CycleClaims, NodeAllocation
from numakube.scheduling.snapshot.cluster_objects import ClusterObjects
from numakube.testing import pod
from numakube.testing.claim_api import ReplayedApi, finished

GPU = "vendor.example/gpu"
POD = pod("p", also={GPU: "1"})


def in_memory() -> ResourceClaim:
    """Return the claim for extended resources that nobody has created yet."""
    meta = {"name": IN_MEMORY_NAME, "generateName": "p-", "namespace": "default"}
    return convert(ResourceClaim, {"metadata": meta})


def allocation() -> AllocationResult:
    """Return a device."""
    result = {"request": "r", "driver": "d", "pool": "n", "device": "a"}
    return convert(AllocationResult, {"devices": {"results": [result]}})


def found(*, extended: bool = True, mappings: bool = True) -> NodeAllocation:
    """Return what was found on the node."""
    requests, mapped = requests_and_mappings(POD, [GPU], {GPU: "gpu"})
    claim = with_requests(in_memory(), requests)
    return NodeAllocation(
        allocations=(allocation(),),
        extended=claim if extended else None,
        mappings=tuple(mapped) if mappings else (),
    )


def write(known: CycleClaims, api: ReplayedApi) -> list[str]:
    """Write the claims; return those that are assumed to be as they are then."""
    assumed: list[ResourceClaim] = []
    finished(write_claims(api, known, POD, "n", assume=assumed.append, timestamps=False))
    return [claim.metadata.name for claim in assumed]


def cycle(objects: ClusterObjects, node: NodeAllocation | None) -> CycleClaims:
    """Return what a cycle knows that has chosen the node n."""
    known = CycleClaims(objects, [], [in_memory()], extended=0, reserved={0: allocation()})
    if node is not None:
        known.nodes["n"] = node
    return known


def test_a_claim_for_extended_resources_is_created_allocated_and_named_in_the_pod() -> None:
    """With the request of each container."""
    objects = ClusterObjects()
    api = ReplayedApi(objects)
    known = cycle(objects, found())
    (name,) = write(known, api)
    assert name == "p-0"
    stored = api.claims[f"default/{name}"]
    assert stored.status.allocation == allocation()
    assert [consumer.uid for consumer in stored.status.reserved_for] == ["p"]
    assert known.claims == [stored]
    told = api.pod_status["extendedResourceClaimStatus"]
    assert told["resourceClaimName"] == name
    assert [mapping["resourceName"] for mapping in told["requestMappings"]] == [GPU]


@pytest.mark.parametrize(
    ("node", "problem"),
    [
        (None, "extended resource claim not found for node n"),
        (found(extended=False), "extended resource claim not found for node n"),
        (found(mappings=False), "nil or empty request mappings"),
    ],
)
def test_without_what_was_found_for_the_node_nothing_is_bound(
    node: NodeAllocation | None, problem: str
) -> None:
    """In kube-scheduler's words."""
    objects = ClusterObjects()
    with pytest.raises(InvalidValue, match=problem):
        write(cycle(objects, node), ReplayedApi(objects))


def test_a_pod_that_needs_no_extended_resources_there_gets_no_claim_for_them() -> None:
    """The node's device plugin has them."""
    objects = ClusterObjects()
    api = ReplayedApi(objects)
    known = CycleClaims(objects, [], [in_memory()], extended=0)
    assert write(known, api) == []
    assert (api.claims, api.pod_status) == ({}, {})


class Contested(ReplayedApi):
    """A server on which others change the claim just before us, so many times."""

    def __init__(self, objects: ClusterObjects, times: int) -> None:
        super().__init__(objects)
        self.times = times
        self.attempts = 0

    async def set_status(self, claim: ResourceClaim, *, allocation: bool) -> ResourceClaim:
        """Conflict, or write."""
        self.attempts += 1
        if self.attempts <= self.times:
            self._stored(self._current(claim))
        return await super().set_status(claim, allocation=allocation)


@pytest.mark.parametrize("times", [0, 1, 4, 5])
def test_a_claim_that_others_change_is_read_again_a_few_times(times: int) -> None:
    """Then the pod is tried again as a whole."""
    objects = ClusterObjects()
    api = Contested(objects, times)
    meta = {"name": "c", "namespace": "default", "uid": "c", "finalizers": [FINALIZER]}
    claim = convert(ResourceClaim, {"metadata": meta})
    objects.resource_claims["default/c"] = claim
    writing = write_claim(api, claim, allocation(), POD, timestamps=False)
    if times < 5:
        assert finished(writing).status.allocation == allocation()
        assert api.attempts == times + 1
    else:
        with pytest.raises(ClaimConflict):
            finished(writing)
        assert api.attempts == 5


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"uid": "another"}, "claim default/c got deleted in the meantime"),
        ({"deletionTimestamp": "2026-01-01T00:00:00Z"}, "claim default/c got deleted"),
    ],
)
def test_a_claim_that_is_another_one_by_now_is_not_written(
    change: dict[str, str], problem: str
) -> None:
    """It may belong to somebody else."""
    objects = ClusterObjects()
    meta = {"name": "c", "namespace": "default", "uid": "c", "finalizers": [FINALIZER]}
    claim = convert(ResourceClaim, {"metadata": meta})
    now = convert(ResourceClaim, {"metadata": {**meta, **change, "resourceVersion": "9"}})
    objects.resource_claims["default/c"] = now
    with pytest.raises(ClaimNotWritten, match=problem):
        finished(write_claim(ReplayedApi(objects), claim, allocation(), POD, timestamps=False))


def test_a_claim_that_was_allocated_meanwhile_is_left_alone() -> None:
    """With a reservation alone, it may be what we need."""
    objects = ClusterObjects()
    api = ReplayedApi(objects)
    meta = {"name": "c", "namespace": "default", "uid": "c", "finalizers": [FINALIZER]}
    status: dict[str, Any] = {"allocation": {"devices": {"results": []}}}
    claim = convert(ResourceClaim, {"metadata": meta, "status": status})
    objects.resource_claims["default/c"] = claim
    with pytest.raises(ClaimNotWritten, match="got allocated elsewhere"):
        finished(write_claim(api, claim, allocation(), POD, timestamps=False))
    written = finished(write_claim(api, claim, None, POD, timestamps=False))
    assert written.status.allocation == claim.status.allocation
    assert [one.uid for one in written.status.reserved_for] == ["p"]


def test_a_claim_is_protected_before_it_is_allocated() -> None:
    """Once; the time of the allocation is written if that is asked for."""
    objects = ClusterObjects()
    api = ReplayedApi(objects)
    claim = convert(ResourceClaim, {"metadata": {"name": "c", "namespace": "default", "uid": "c"}})
    objects.resource_claims["default/c"] = claim
    written = finished(write_claim(api, claim, allocation(), POD, timestamps=True))
    assert written.metadata.finalizers == (FINALIZER,)
    assert written.status.allocation.allocation_timestamp is not None
    other = pod("q")
    again = finished(write_claim(api, written, None, other, timestamps=True))
    assert again.metadata.finalizers == (FINALIZER,)
    assert again.status.allocation == written.status.allocation
    assert [one.uid for one in again.status.reserved_for] == ["p", "q"]
