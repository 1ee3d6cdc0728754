"""What must hold of a claim before any node is looked at, in kube-scheduler's words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.api.nodes import Node
from numakube.dra.device_ids import AllocationError
from numakube.dra.node_selection import selects
from numakube.scheduling.framework.status import SUCCESS, Status, failure, unresolvable

if TYPE_CHECKING:
    from collections.abc import Container

    from numakube.api.resource_claims import DeviceRequest, ResourceClaim
    from numakube.dra.features import Features


def classes_exist(claim: ResourceClaim, classes: Container[str], features: Features) -> Status:
    """Refuse a claim with a request of unknown form, or for a class that is not there."""
    for request in claim.spec.devices.requests:
        status = _form(claim.metadata.key, request, features)
        for name, class_name in _wanted(request) if status.ok else ():
            if not class_name:
                return failure(f"request {name}: unsupported request type")
            if class_name not in classes:
                return unresolvable(f"request {name}: device class {class_name} does not exist")
        if not status.ok:
            return status
    return SUCCESS


def _form(key: str, request: DeviceRequest, features: Features) -> Status:
    if request.exactly is not None:
        return SUCCESS
    if not request.first_available:
        return unresolvable(f"resource claim {key}, request {request.name}: unknown request type")
    if not features.prioritized_list:
        return unresolvable(
            f"resource claim {key}, request {request.name}: has subrequests, but the "
            "DRAPrioritizedList feature is disabled"
        )
    return SUCCESS


def _wanted(request: DeviceRequest) -> list[tuple[str, str]]:
    """Return the class of the request, or of each of its alternatives, by name."""
    if request.exactly is not None:
        return [(request.name, request.exactly.device_class_name)]
    return [
        (f"{request.name}/{one.name}", one.device_class_name) for one in request.first_available
    ]


def is_readable(claim: ResourceClaim) -> Status:
    """Say whether the node selector of an allocated claim can be read."""
    allocation = claim.status.allocation
    if allocation is None or allocation.node_selector is None:
        return SUCCESS
    try:
        selects(allocation.node_selector, Node())
    except AllocationError as error:
        return failure(str(error))
    return SUCCESS
