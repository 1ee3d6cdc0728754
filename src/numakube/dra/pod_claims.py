"""The claims of a pod, why they cannot be used yet, and what drivers have to say before a bind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from numakube.errors import InvalidValue
from numakube.values.gotext import go_quote
from numakube.values.times import parse_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from numakube.api.pod import Pod, PodResourceClaim
    from numakube.api.resource_claims import (
        AllocatedDeviceStatus,
        DeviceRequestAllocationResult,
        ResourceClaim,
    )

    Find = Callable[[str], ResourceClaim | None]


def pod_claims(pod: Pod, find: Find) -> Iterator[tuple[str, ResourceClaim]]:
    """Yield the claims of *pod*, each with its name in the pod; *find* looks one up by its key.

    Raises:
        InvalidValue: a claim does not exist, goes away or belongs to another pod.
    """
    for entry in pod.spec.resource_claims:
        name = claim_name(pod, entry)
        if name is None:
            continue
        key = f"{pod.metadata.namespace}/{name}"
        claim = find(key)
        if claim is None:
            raise InvalidValue(f'could not find ResourceClaim "{key}"')
        if claim.metadata.deletion_timestamp is not None:
            raise InvalidValue(f"resourceclaim {go_quote(name)} is being deleted")
        if entry.resource_claim_name is None and not is_for(claim, pod):
            raise InvalidValue(
                f"ResourceClaim {key} was not created for Pod {pod.metadata.key} (Pod is not owner)"
            )
        yield entry.name, claim


def named_claims(pod: Pod) -> Iterator[tuple[PodResourceClaim, str | None]]:
    """Yield the entries of *pod*'s spec, each with the name of its claim.

    The name is None as long as no claim has been made from the template, or if none is needed.
    """
    made = _made(pod)
    for entry in pod.spec.resource_claims:
        yield entry, entry.resource_claim_name or made.get(entry.name)


def used_claims(pod: Pod) -> frozenset[str]:
    """Return the names of the claims that *pod* has, the one for extended resources included."""
    found = {name for _, name in named_claims(pod) if name}
    extended = pod.status.extended_resource_claim_status if pod.status is not None else None
    return frozenset(found | {extended.resource_claim_name} if extended is not None else found)


def claim_name(pod: Pod, entry: PodResourceClaim) -> str | None:
    """Return the name of the claim that *entry* refers to; None if no claim is needed.

    Raises:
        InvalidValue: the claim has not been created yet, or the entry says nothing.
    """
    if entry.resource_claim_name is not None:
        return entry.resource_claim_name
    if entry.resource_claim_template_name is None:
        raise InvalidValue(
            f'pod "{pod.metadata.key}", spec.resourceClaim {go_quote(entry.name)}: none of the '
            "supported fields are set"
        )
    made = _made(pod)
    if entry.name not in made:
        raise InvalidValue(f'pod "{pod.metadata.key}": ResourceClaim not created yet')
    return made[entry.name]


def _made(pod: Pod) -> dict[str, str | None]:
    """Return the names of the claims made from templates, by their names in the pod."""
    statuses = pod.status.resource_claim_statuses if pod.status is not None else ()
    return {status.name: status.resource_claim_name for status in reversed(statuses)}


def is_for(claim: ResourceClaim, pod: Pod) -> bool:
    """Tell whether *pod* controls *claim*."""
    owner = claim.metadata.controller
    return owner is not None and owner.uid == pod.metadata.uid


def claim_keys(pod: Pod) -> frozenset[str]:
    """Return the keys of the claims that *pod* refers to and that have a name by now."""
    return frozenset(f"{pod.metadata.namespace}/{name}" for _, name in named_claims(pod) if name)


def is_reserved_for(claim: ResourceClaim, pod: Pod) -> bool:
    """Tell whether *pod* may use *claim*."""
    return any(consumer.uid == pod.metadata.uid for consumer in claim.status.reserved_for)


def without_user(claim: ResourceClaim, uid: str) -> ResourceClaim:
    """Return *claim* after the pod with that uid is gone; without users it is deallocated."""
    left = tuple(consumer for consumer in claim.status.reserved_for if consumer.uid != uid)
    allocation = claim.status.allocation if left else None
    return replace(claim, status=replace(claim.status, reserved_for=left, allocation=allocation))


# ------------------------------------------------------------------------------------------------
# Conditions that drivers set before a pod may be bound to a node with their devices (KEP-5007).


def has_conditions(claim: ResourceClaim) -> bool:
    """Tell whether any allocated device has conditions for binding."""
    allocation = claim.status.allocation
    return allocation is not None and any(
        result.binding_conditions for result in allocation.devices.results
    )


def failed_condition(claim: ResourceClaim) -> str:
    """Return which failure a driver has reported; empty if none."""
    found = _judged(claim)
    return found if isinstance(found, str) else ""


def is_ready(claim: ResourceClaim) -> bool:
    """Tell whether all conditions of all devices hold."""
    return _judged(claim) is True


def _judged(claim: ResourceClaim) -> bool | str:
    """Return whether *claim* is ready, or the failure; the first device that is not decides."""
    allocation = claim.status.allocation
    if allocation is None:
        return False
    for result in allocation.devices.results:
        if not result.binding_conditions:
            continue
        status = _status(claim, result)
        if status is None:
            return False
        conditions = {condition.type: condition for condition in status.conditions}
        for name in result.binding_failure_conditions:
            one = conditions.get(name)
            if one is not None and one.status == "True":
                return (
                    f"device binding failed: claim={claim.metadata.name}, reason={one.reason}, "
                    f"message={go_quote(one.message)}"
                )
        for name in result.binding_conditions:
            if name not in conditions or conditions[name].status != "True":
                return False
    return True


def _status(
    claim: ResourceClaim, result: DeviceRequestAllocationResult
) -> AllocatedDeviceStatus | None:
    wanted = (result.driver, result.pool, result.device)
    return next(
        (
            device
            for device in claim.status.devices
            if (device.driver, device.pool, device.device) == wanted
        ),
        None,
    )


def is_late(claim: ResourceClaim, now: datetime, timeout_seconds: float) -> bool:
    """Tell whether the devices of *claim* have had longer than is allowed."""
    allocation = claim.status.allocation
    if allocation is None or allocation.allocation_timestamp is None or not has_conditions(claim):
        return False
    try:
        since = parse_time(allocation.allocation_timestamp)
    except InvalidValue:
        return False
    return (now - since).total_seconds() > timeout_seconds
