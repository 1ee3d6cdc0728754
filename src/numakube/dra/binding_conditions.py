"""Conditions that drivers set before a pod may be bound to a node with their devices (KEP-5007)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.errors import InvalidValue
from numakube.values.gotext import go_quote
from numakube.values.times import parse_time

if TYPE_CHECKING:
    from datetime import datetime

    from numakube.api.resource_claims import (
        AllocatedDeviceStatus,
        DeviceRequestAllocationResult,
        ResourceClaim,
    )


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
        conditions = {one.type: one for one in status.conditions}
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
        (one for one in claim.status.devices if (one.driver, one.pool, one.device) == wanted), None
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
