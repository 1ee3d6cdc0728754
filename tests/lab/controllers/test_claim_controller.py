"""Claims for devices are made for pods, and given back when no pod needs them."""

from __future__ import annotations

from typing import Any

from tests.lab.controllers.kit import Bench, bench, template

from numakube.api.pod import Pod
from numakube.api.resource_claims import FINALIZER, ResourceClaim
from numakube.kube.catalog import CORE_EVENTS, PODS
from numakube.testing import until
from numakube_lab.controllers.cluster.claim_controller import (
    POD_CLAIM_NAME,
    ClaimReservations,
    PodClaims,
)
from numakube_lab.controllers.cluster.garbage_collector import GarbageCollector
from numakube_lab.controllers.object_types import RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS

BOTH = (PodClaims, ClaimReservations)

SPEC = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}

ALLOCATION = {
    "devices": {
        "results": [
            {"request": "gpu", "driver": "gpu.example", "pool": "node-1", "device": "gpu-0"}
        ]
    }
}


def claim_template(name: str = "one-gpu") -> dict[str, Any]:
    """Return a template of claims for one GPU."""
    return {
        "metadata": {"name": name},
        "spec": {"metadata": {"labels": {"team": "a"}}, "spec": SPEC},
    }


def pod(name: str = "p", **claim: str) -> dict[str, Any]:
    """Return a pod with one claim, by default of the template."""
    source = claim or {"resourceClaimTemplateName": "one-gpu"}
    spec = {**template()["spec"], "resourceClaims": [{"name": "gpu", **source}]}
    return {"metadata": {"name": name}, "spec": spec}


async def claimed(world: Bench, name: str = "p") -> ResourceClaim:
    """Wait until a pod has its claim; return it."""

    def has_claim(found: Pod) -> bool:
        return found.status is not None and bool(found.status.resource_claim_statuses)

    found = await world.sees(PODS, name, has_claim)
    assert found.status is not None
    claim = found.status.resource_claim_statuses[0].resource_claim_name
    assert claim is not None
    return await world.sees(RESOURCE_CLAIMS, claim)


async def allocate(world: Bench, claim: str, *pods: Pod) -> None:
    """Give a claim its devices and reserve it for pods, as a scheduler does."""
    users = [{"resource": "pods", "name": p.metadata.name, "uid": p.metadata.uid} for p in pods]
    await world.change(RESOURCE_CLAIMS, claim, {"metadata": {"finalizers": [FINALIZER]}})
    status = {"allocation": ALLOCATION, "reservedFor": users}
    await world.change(RESOURCE_CLAIMS, claim, {"status": status}, subresource="status")


async def test_a_claim_is_made_from_the_template_of_a_pod() -> None:
    """Its name begins with the pod and the claim; the pod owns it, and its status names it."""
    async with bench(*BOTH, assign="") as world:
        await world.apply(RESOURCE_CLAIM_TEMPLATES, claim_template())
        made = await world.apply(PODS, pod())
        claim = await claimed(world)
        assert claim.metadata.name.startswith("p-gpu-")
        assert claim.metadata.labels == {"team": "a"}
        assert claim.metadata.annotations == {POD_CLAIM_NAME: "gpu"}
        owner = claim.metadata.controller
        assert owner is not None
        assert (owner.kind, owner.uid) == ("Pod", made.metadata.uid)


async def test_a_pod_hears_of_its_claim_before_all_other_pods_have_theirs() -> None:
    """A scheduler need not wait for the claims of a whole burst until it can begin."""
    names = [f"p{number}" for number in range(3 * PodClaims.workers)]
    async with bench(*BOTH, assign="") as world:
        for name in names:
            await world.apply(PODS, pod(name))
        await world.apply(RESOURCE_CLAIM_TEMPLATES, claim_template())
        claims = [await claimed(world, name) for name in names]
        told = [await world.sees(PODS, name) for name in names]
        first = min(int(one.metadata.resource_version) for one in told)
        assert first < max(int(claim.metadata.resource_version) for claim in claims)


async def test_a_pod_waits_for_its_template_and_says_so() -> None:
    """An event says which template is missing; the claim is made when the template is there."""
    async with bench(*BOTH, assign="", also=(CORE_EVENTS,)) as world:
        await world.apply(PODS, pod())

        async def reason() -> str | None:
            await world.recorded()
            events = (await world.client.list(CORE_EVENTS, namespace="default")).items
            return next((event.message for event in events), None)

        message = await until(reason)
        assert message == (
            'PodResourceClaim gpu: resource claim template "one-gpu": '
            'resourceclaimtemplate.resource.k8s.io "one-gpu" not found'
        )
        await world.apply(RESOURCE_CLAIM_TEMPLATES, claim_template())
        await claimed(world)


async def test_long_names_are_cut_so_that_the_claim_s_name_is_valid() -> None:
    """Pod and claim names together may be longer than an object's name."""
    async with bench(*BOTH, assign="") as world:
        await world.apply(RESOURCE_CLAIM_TEMPLATES, claim_template())
        await world.apply(PODS, pod("p" * 63))
        claim = await claimed(world, "p" * 63)
        assert len(claim.metadata.name) <= 63


async def test_a_claim_is_deallocated_when_its_last_pod_goes() -> None:
    """While another pod uses it, it keeps its devices and its finalizer."""
    async with bench(*BOTH, assign="") as world:
        await world.apply(RESOURCE_CLAIMS, {"metadata": {"name": "shared"}, "spec": SPEC})
        first = await world.apply(PODS, pod("first", resourceClaimName="shared"))
        second = await world.apply(PODS, pod("second", resourceClaimName="shared"))
        await allocate(world, "shared", first, second)

        await world.client.delete(PODS, "first", namespace="default", grace_seconds=0)
        left = await world.sees(
            RESOURCE_CLAIMS, "shared", lambda one: len(one.status.reserved_for) == 1
        )
        assert left.status.allocation is not None
        assert FINALIZER in left.metadata.finalizers

        await world.client.delete(PODS, "second", namespace="default", grace_seconds=0)
        free = await world.sees(
            RESOURCE_CLAIMS, "shared", lambda one: FINALIZER not in one.metadata.finalizers
        )
        assert free.status.allocation is None
        assert free.status.reserved_for == ()


async def test_the_claim_of_a_pod_that_has_ended_is_deleted() -> None:
    """The pod is still there, but needs no devices any more."""
    async with bench(*BOTH) as world:
        await world.apply(RESOURCE_CLAIM_TEMPLATES, claim_template())
        made = await world.apply(PODS, pod())
        claim = await claimed(world)
        await allocate(world, claim.metadata.name, made)
        world.kubelet.outcome = lambda _: ("Succeeded", False)
        world.kubelet.again()
        await world.until(RESOURCE_CLAIMS, lambda: not world.mirror(RESOURCE_CLAIMS).store.values())


async def test_the_claim_of_a_deleted_pod_goes_although_it_was_allocated() -> None:
    """The finalizer of an allocated claim does not keep it for ever."""
    async with bench(*BOTH, GarbageCollector, assign="") as world:
        await world.apply(RESOURCE_CLAIM_TEMPLATES, claim_template())
        made = await world.apply(PODS, pod())
        claim = await claimed(world)
        await allocate(world, claim.metadata.name, made)
        await world.client.delete(PODS, "p", namespace="default", grace_seconds=0)
        await world.until(RESOURCE_CLAIMS, lambda: not world.mirror(RESOURCE_CLAIMS).store.values())


async def test_an_allocated_claim_is_reserved_for_a_pod_that_was_bound_by_hand() -> None:
    """No scheduler does it for such a pod."""
    async with bench(*BOTH) as world:
        await world.apply(RESOURCE_CLAIMS, {"metadata": {"name": "mine"}, "spec": SPEC})
        made = await world.apply(PODS, pod(resourceClaimName="mine"))
        await allocate(world, "mine")
        claim = await world.sees(RESOURCE_CLAIMS, "mine", lambda one: bool(one.status.reserved_for))
        assert [use.uid for use in claim.status.reserved_for] == [made.metadata.uid]
