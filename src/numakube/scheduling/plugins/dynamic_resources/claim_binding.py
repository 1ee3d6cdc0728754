"""Writing allocations down before a pod is bound, in kube-scheduler's order, and undoing them.

For each claim: create it (extended resources), add the finalizer, then one status update with the
allocation and the reservation. A conflict is met by reading the claim again, up to five times; a
claim that was allocated or deleted meanwhile is a lost race.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from msgspec.structs import replace

from numakube.api.pod import PodExtendedResourceClaimStatus, PodStatus
from numakube.api.resource_claims import (
    FINALIZER,
    AllocationResult,
    ResourceClaim,
    ResourceClaimConsumerReference,
    ResourceClaimStatus,
)
from numakube.dra.extended_resources import IN_MEMORY_NAME
from numakube.dra.pod_claims import failed_condition, is_late, is_ready, is_reserved_for
from numakube.errors import InvalidValue, NumakubeError
from numakube.scheduling.framework.registry import Service
from numakube.scheduling.framework.status import SUCCESS, Status, failure
from numakube.values.times import format_time

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from datetime import datetime

    from numakube.api.pod import (
        ContainerExtendedResourceRequest,
        NodeAllocatableResourceClaimStatus,
        Pod,
    )
    from numakube.scheduling.plugins.dynamic_resources.claim_tracker import CycleClaims


# ------------------------------------------------------------------------------------------------
# What allocating claims asks of the process that runs the scheduler.


class ClaimConflict(NumakubeError):
    """A claim was changed since the version that a change was meant for."""


class ClaimActions(Protocol):
    """Changes of claims and of the status of pods, and waiting for what others do with claims.

    Changes are meant for the version of the claim that is given: the process sends its
    ``resourceVersion`` along and raises `ClaimConflict` if it is not the latest, or another
    `numakube.errors.NumakubeError` with the server's words if the change fails.
    """

    async def get(self, claim: ResourceClaim) -> ResourceClaim:
        """Return the claim with that name as the server has it."""
        ...

    async def create(self, claim: ResourceClaim) -> ResourceClaim:
        """Create *claim*; its name is generated."""
        ...

    async def set_finalizers(self, claim: ResourceClaim) -> ResourceClaim:
        """Write the finalizers of *claim*."""
        ...

    async def set_status(self, claim: ResourceClaim, *, allocation: bool) -> ResourceClaim:
        """Write the reservations of *claim*, and with *allocation* what is allocated."""
        ...

    async def delete(self, claim: ResourceClaim) -> None:
        """Delete *claim*; one that is gone already is fine."""
        ...

    async def drop_reservation(self, claim: ResourceClaim, pod: Pod) -> None:
        """Take *pod* off the reservations of *claim*, whatever version it has."""
        ...

    async def set_pod_status(self, pod: Pod, status: PodStatus) -> None:
        """Write what *status* says of claims for extended and node-allocatable resources."""
        ...

    async def until(
        self, done: Callable[[], Status | None], *, timeout_seconds: float
    ) -> Status | None:
        """Ask *done*, now and whenever claims change, until it gives an answer.

        Returns:
            that answer, or ``None`` when the time is over.
        """
        ...

    def later(self, work: Coroutine[object, object, None]) -> None:
        """Do *work* beside the scheduling loop; failures are logged."""
        ...

    def now(self) -> datetime:
        """Return the time, in UTC."""
        ...

    def cpu_seconds(self) -> float:
        """Return how long the processor has worked for the thread that decides."""
        ...

    def new_id(self) -> str:
        """Return a random UUID."""
        ...

    def note(self, pod: Pod, reason: str, message: str) -> None:
        """Record an event of *pod*."""
        ...


CLAIM_ACTIONS: Final = Service[ClaimActions]("claim-actions")
KUBERNETES_MINOR: Final = Service[int]("kubernetes-minor")
"""The minor version of the API server."""


# ------------------------------------------------------------------------------------------------
# Writing allocations down before a pod is bound, in kube-scheduler's order, and undoing them.

CREATED_WITHIN_SECONDS: Final = 120
"""How long a claim that was created may take to appear in the watch."""
_ATTEMPTS: Final = 5


class ClaimNotWritten(NumakubeError):
    """A claim could not be allocated to the pod, or reserved for it."""


async def write_claims(
    actions: ClaimActions,
    known: CycleClaims,
    pod: Pod,
    node: str,
    *,
    assume: Callable[[ResourceClaim], None],
    timestamps: bool,
) -> None:
    """Allocate and reserve the claims of *pod*, and write into its status what belongs there.

    Args:
        actions: how to write.
        known: the claims; each is replaced by what the server has then.
        pod: for which they are.
        node: on which it will run.
        assume: called with each claim as soon as it is written.
        timestamps: whether allocations have the time at which they were made.

    Raises:
        NumakubeError: it was not possible.
    """
    for index, claim in enumerate(known.claims):
        if is_reserved_for(claim, pod):
            continue
        is_extended = index == known.extended
        if is_extended and not (index in known.reserved or claim.spec.devices.requests):
            continue
        if is_extended:
            claim = await _created(actions, known, node)
        allocation = known.reserved.get(index)
        written = await write_claim(actions, claim, allocation, pod, timestamps=timestamps)
        assume(written)
        known.claims[index] = written
        if is_extended:
            await _write_mappings(actions, known, pod, node)
    found = known.nodes.get(node)
    if found is not None and found.resources:
        await actions.set_pod_status(pod, claim_status(resources=found.resources))


async def _created(actions: ClaimActions, known: CycleClaims, node: str) -> ResourceClaim:
    """Return the claim for extended resources, after creating it if it is in memory only."""
    claim, found = known.claims[known.extended], known.nodes.get(node)
    if claim.metadata.name != IN_MEMORY_NAME:
        return claim
    if found is None or found.extended is None:
        raise InvalidValue(f"extended resource claim not found for node {node}")
    known.claims[known.extended] = await actions.create(found.extended)
    return known.claims[known.extended]


async def _write_mappings(actions: ClaimActions, known: CycleClaims, pod: Pod, node: str) -> None:
    """Write which container has which request of the claim, and wait until the claim is seen."""
    claim, found = known.claims[known.extended], known.nodes.get(node)
    if found is None or not found.mappings:
        raise InvalidValue(
            f"nil or empty request mappings, no update of pod {pod.metadata.key} "
            "ExtendedResourceClaimStatus"
        )
    written = claim_status(claim=claim.metadata.name, mappings=found.mappings)
    await actions.set_pod_status(pod, written)
    await actions.until(
        lambda: SUCCESS if claim.metadata.key in known.objects.resource_claims else None,
        timeout_seconds=CREATED_WITHIN_SECONDS,
    )


async def write_claim(
    actions: ClaimActions,
    claim: ResourceClaim,
    allocation: AllocationResult | None,
    pod: Pod,
    *,
    timestamps: bool,
) -> ResourceClaim:
    """Write *allocation*, if any, and the reservation for *pod*; return the claim as it is then.

    Raises:
        NumakubeError: it was not possible.
    """

    async def write(current: ResourceClaim) -> ResourceClaim:
        return await _write_once(actions, current, allocation, pod, timestamps=timestamps)

    return await _with_retries(actions, claim, write)


async def _with_retries(
    actions: ClaimActions,
    claim: ResourceClaim,
    write: Callable[[ResourceClaim], Awaitable[ResourceClaim]],
) -> ResourceClaim:
    for attempt in range(_ATTEMPTS):
        try:
            return await write(claim)
        except ClaimConflict:
            if attempt == _ATTEMPTS - 1:
                raise
            current = await actions.get(claim)
            if current.metadata.uid != claim.metadata.uid:
                raise ClaimNotWritten(
                    f"claim {claim.metadata.key} got deleted in the meantime"
                ) from None
            claim = current
    raise AssertionError(claim)


async def _write_once(
    actions: ClaimActions,
    claim: ResourceClaim,
    allocation: AllocationResult | None,
    pod: Pod,
    *,
    timestamps: bool,
) -> ResourceClaim:
    key = claim.metadata.key
    if claim.metadata.deletion_timestamp is not None:
        raise ClaimNotWritten(f"claim {key} got deleted in the meantime")
    if allocation is not None:
        if claim.status.allocation is not None:
            raise ClaimNotWritten(f"claim {key} got allocated elsewhere in the meantime")
        if FINALIZER not in claim.metadata.finalizers:
            claim = await _protected(actions, claim)
    written = _reserved(claim, allocation or claim.status.allocation, pod)
    if timestamps:
        written = _stamped(written, actions)
    try:
        return await actions.set_status(written, allocation=allocation is not None)
    except ClaimConflict:
        raise
    except NumakubeError as error:
        what = "allocation and reservation" if allocation is not None else "reservation"
        raise ClaimNotWritten(f"add {what} to claim {key}: {error}") from None


async def _protected(actions: ClaimActions, claim: ResourceClaim) -> ResourceClaim:
    finalizers = (*claim.metadata.finalizers, FINALIZER)
    changed = replace(claim, metadata=replace(claim.metadata, finalizers=finalizers))
    try:
        return await actions.set_finalizers(changed)
    except ClaimConflict:
        raise
    except NumakubeError as error:
        raise ClaimNotWritten(f"add finalizer to claim {claim.metadata.key}: {error}") from None


def _reserved(claim: ResourceClaim, allocation: AllocationResult | None, pod: Pod) -> ResourceClaim:
    user = ResourceClaimConsumerReference(
        resource="pods", name=pod.metadata.name, uid=pod.metadata.uid
    )
    status = replace(
        claim.status, allocation=allocation, reserved_for=(*claim.status.reserved_for, user)
    )
    return replace(claim, status=status)


def _stamped(claim: ResourceClaim, actions: ClaimActions) -> ResourceClaim:
    allocation = claim.status.allocation
    if allocation is None:
        key = claim.metadata.key
        raise ClaimNotWritten(f"claim {key} got deallocated elsewhere in the meantime")
    if allocation.allocation_timestamp is not None:
        return claim
    allocation = replace(allocation, allocation_timestamp=format_time(actions.now()))
    return replace(claim, status=replace(claim.status, allocation=allocation))


async def deallocate(actions: ClaimActions, claim: ResourceClaim) -> ResourceClaim:
    """Take the devices from *claim*, which no other pod may use."""
    return await actions.set_status(replace(claim, status=ResourceClaimStatus()), allocation=True)


async def delete_claim(actions: ClaimActions, claim: ResourceClaim) -> None:
    """Delete a claim that was created for extended resources, with its finalizer."""

    async def release(current: ResourceClaim) -> ResourceClaim:
        finalizers = tuple(
            finalizer for finalizer in current.metadata.finalizers if finalizer != FINALIZER
        )
        changed = replace(current, metadata=replace(current.metadata, finalizers=finalizers))
        return await actions.set_finalizers(changed)

    await actions.delete(await _with_retries(actions, claim, release))


def in_flight(claim: ResourceClaim, allocation: AllocationResult) -> ResourceClaim:
    """Return *claim* as it is going to be."""
    finalizers = claim.metadata.finalizers
    if FINALIZER not in finalizers:
        finalizers = (*finalizers, FINALIZER)
    return replace(
        claim,
        metadata=replace(claim.metadata, finalizers=finalizers),
        status=replace(claim.status, allocation=allocation),
    )


async def devices_ready(
    actions: ClaimActions,
    known: CycleClaims,
    pod: Pod,
    node: str,
    find: Callable[[str], ResourceClaim | None],
    timeout_seconds: float,
) -> Status:
    """Wait until the devices of *pod* are ready on *node*."""
    text = f"waiting for binding conditions for device on node {node}"
    actions.note(pod, "BindingConditionsPending", text)
    answer = await actions.until(
        lambda: progress(known, find, actions.now(), timeout_seconds),
        timeout_seconds=timeout_seconds,
    )
    return answer or failure("device binding timeout: context deadline exceeded")


def progress(
    known: CycleClaims,
    find: Callable[[str], ResourceClaim | None],
    now: datetime,
    timeout_seconds: float,
) -> Status | None:
    """Say whether the devices of all claims are ready, or never will be; None to wait on."""
    for index, claim in enumerate(known.claims):
        current = find(claim.metadata.key)
        if current is None:
            return failure(f'could not find ResourceClaim "{claim.metadata.key}"')
        known.claims[index] = current
        problem = failed_condition(current)
        if problem:
            return failure(problem)
        if not is_ready(current):
            if is_late(current, now, timeout_seconds):
                return failure(f"device binding timeout: claim={current.metadata.name}")
            return None
    return SUCCESS


def claim_status(
    *,
    claim: str = "",
    mappings: tuple[ContainerExtendedResourceRequest, ...] = (),
    resources: tuple[NodeAllocatableResourceClaimStatus, ...] = (),
) -> PodStatus:
    """Return a pod's status with what is to be written about its claims, and nothing else."""
    extended = None
    if claim:
        extended = PodExtendedResourceClaimStatus(
            request_mappings=mappings, resource_claim_name=claim
        )
    return PodStatus(
        extended_resource_claim_status=extended,
        node_allocatable_resource_claim_statuses=resources,
    )
