"""What is written of the claims of a pod that is about to be bound."""

from __future__ import annotations

import pytest

from numakube.api.codec import convert
from numakube.api.resource_claims import AllocationResult, ResourceClaim
from numakube.dra.extended_resources import IN_MEMORY_NAME, requests_and_mappings, with_requests
from numakube.errors import InvalidValue
from numakube.scheduling.dra_replay_api import ReplayedApi, finished
from numakube.scheduling.plugins.dynamic_resources.claim_binding import write_claims
from numakube.scheduling.plugins.dynamic_resources.cycle_claims import CycleClaims, NodeAllocation
from numakube.scheduling.snapshot.cluster_objects import ClusterObjects
from numakube.testing import pod

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
    return [one.metadata.name for one in assumed]


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
    assert [one.uid for one in stored.status.reserved_for] == ["p"]
    assert known.claims == [stored]
    told = api.pod_status["extendedResourceClaimStatus"]
    assert told["resourceClaimName"] == name
    assert [one["resourceName"] for one in told["requestMappings"]] == [GPU]


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
