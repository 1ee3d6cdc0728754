"""What is written of the claims of a pod that is about to be bound."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from numakube.api.codec import convert
from numakube.api.pod import NodeAllocatableResourceClaimStatus, Pod
from numakube.api.resource_claims import FINALIZER, AllocationResult, ResourceClaim
from numakube.dra.extended_resources import IN_MEMORY_NAME, requests_and_mappings, with_requests
from numakube.errors import InvalidValue
from numakube.scheduling.framework.status import Code, Status
from numakube.scheduling.plugins.dynamic_resources.claim_binding import (
    ClaimConflict,
    ClaimNotWritten,
    devices_ready,
    in_flight,
    progress,
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


# ------------------------------------------------------------------------------------------------
# Waiting for the devices of all claims.

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def prepared(name: str, said: str | None, since: str = "2026-03-01T11:59:00Z") -> ResourceClaim:
    """Return a claim of whose device the driver has *said* that it is ready, or that it failed."""
    device = {"driver": "d", "pool": "n", "device": name}
    conditions = {"bindingConditions": ["ready"], "bindingFailureConditions": ["broken"]}
    told = [{"type": said, "status": "True", "reason": "R", "message": "m"}] if said else []
    allocation = {
        "devices": {"results": [{**device, "request": "r", **conditions}]},
        "allocationTimestamp": since,
    }
    status = {"allocation": allocation, "devices": [{**device, "conditions": told}]}
    meta = {"name": name, "namespace": "default"}
    return convert(ResourceClaim, {"metadata": meta, "status": status})


LATE = "2026-03-01T11:49:59Z"


@pytest.mark.parametrize(
    ("claims", "said"),
    [
        ((), ""),
        ((prepared("a", "ready"), prepared("b", "ready")), ""),
        ((prepared("a", "ready"), prepared("b", None)), None),
        ((prepared("a", None), prepared("b", "ready")), None),
        (
            (prepared("a", "ready"), prepared("b", "broken")),
            'device binding failed: claim=b, reason=R, message="m"',
        ),
        ((prepared("a", "ready"), prepared("b", None, LATE)), "device binding timeout: claim=b"),
        ((prepared("a", "ready", LATE), prepared("b", "ready", LATE)), ""),
    ],
)
def test_a_pod_waits_until_all_its_devices_are_ready_or_one_fails(
    claims: tuple[ResourceClaim, ...], said: str | None
) -> None:
    """What drivers have said meanwhile counts, and the cycle knows it then."""
    now = {claim.metadata.key: claim for claim in claims}
    before = [prepared(claim.metadata.name, None) for claim in claims]
    known = CycleClaims(ClusterObjects(), [], list(before))
    status = progress(known, now.get, NOW, 600.0)
    assert (None if status is None else status.message) == said
    assert status is None or status.code is (Code.ERROR if said else Code.SUCCESS)
    assert known.claims == list(claims) or said is None
    api, known = Impatient(ClusterObjects()), CycleClaims(ClusterObjects(), [], list(before))
    late = "device binding timeout: context deadline exceeded"
    answer = finished(devices_ready(api, known, POD, "n", now.get, 600.0))
    assert answer.message == (late if status is None else status.message)
    assert api.notes == [
        ("BindingConditionsPending", "waiting for binding conditions for device on node n")
    ]


class Impatient(ReplayedApi):
    """Asks once, at noon."""

    notes: list[tuple[str, str]]

    def now(self) -> datetime:
        """Noon."""
        return NOW

    def note(self, pod: Pod, reason: str, text: str) -> None:
        """Remember what is told."""
        self.notes = [(reason, text)]

    async def until(
        self, done: Callable[[], Status | None], *, timeout_seconds: float
    ) -> Status | None:
        """Ask once."""
        assert timeout_seconds == 600.0
        return done()


def test_a_claim_that_is_gone_meanwhile_fails_the_binding() -> None:
    """The pod is told which."""
    known = CycleClaims(ClusterObjects(), [], [prepared("a", "ready")])
    status = progress(known, lambda _key: None, NOW, 600.0)
    assert status is not None
    assert status.message == 'could not find ResourceClaim "default/a"'


@pytest.mark.parametrize("finalizers", [(), ("other",), (FINALIZER,), ("other", FINALIZER)])
def test_a_claim_in_flight_is_as_it_is_going_to_be(finalizers: tuple[str, ...]) -> None:
    """With its devices, and protected once."""
    meta = {"name": "a", "namespace": "default", "finalizers": list(finalizers)}
    flying = in_flight(convert(ResourceClaim, {"metadata": meta}), allocation())
    assert flying.status.allocation == allocation()
    assert sorted(flying.metadata.finalizers) == sorted({*finalizers, FINALIZER})


def test_what_devices_stand_for_is_written_into_the_status_of_the_pod() -> None:
    """Only if they stand for something."""
    told = NodeAllocatableResourceClaimStatus(resource_claim_name="c")
    for resources in ((), (told,)):
        known = CycleClaims(ClusterObjects(), [], [])
        known.nodes["n"] = NodeAllocation(resources=resources)
        api = ReplayedApi(ClusterObjects())
        write(known, api)
        assert ("nodeAllocatableResourceClaimStatuses" in api.pod_status) == bool(resources)
