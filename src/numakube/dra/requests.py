"""Requests of claims, made ready for the search: what is wanted, how many, of which class."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from numakube.api.resource_claims import ALL, EXACT_COUNT
from numakube.dra.device_ids import AllocationError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numakube.api.resource_claims import DeviceRequest, ExactDeviceRequest, ResourceClaim
    from numakube.api.resource_slices import DeviceClass
    from numakube.dra.features import Features
    from numakube.dra.pools import Candidate

MAX_RESULTS: Final = 32
"""How many devices one claim can have."""


@dataclass(slots=True, eq=False)
class WantedDevices:
    """One request, or one alternative of a request.

    Attributes:
        name: its own name; that of an alternative without its parent's.
        parent_name: the name of the request that it is an alternative of, else its own.
        count: how many devices are wanted.
        every: the devices of a request for all, None for other requests.
    """

    claim: ResourceClaim
    name: str
    parent_name: str
    is_alternative: bool
    body: ExactDeviceRequest
    device_class: DeviceClass
    count: int = 0
    every: list[Candidate] | None = None
    derived: dict[str, str] = field(default_factory=dict)
    matches: dict[int, bool] = field(default_factory=dict)

    @property
    def full_name(self) -> str:
        """The name in results: ``parent/alternative``."""
        return f"{self.parent_name}/{self.name}" if self.is_alternative else self.name

    @property
    def admin(self) -> bool:
        """Whether access beside the devices' users is wanted."""
        return bool(self.body.admin_access)


@dataclass(slots=True, eq=False)
class Request:
    """A request with its alternatives; one without has itself as the only one."""

    name: str
    alternatives: list[WantedDevices]
    has_alternatives: bool
    chosen: int = 0

    @property
    def selected(self) -> WantedDevices:
        """The alternative that devices were found for."""
        return self.alternatives[self.chosen]


def asks_for_all(claim: ResourceClaim) -> bool:
    """Tell whether a request of *claim*, or an alternative of one, is for all devices."""
    return any(
        one is not None and one.allocation_mode == ALL
        for request in claim.spec.devices.requests
        for one in (request.exactly, *request.first_available)
    )


def where(claim: ResourceClaim, request: str) -> str:
    """Return the beginning of errors about a request."""
    return f"claim {claim.metadata.key}, request {request}"


def check_gates(claim: ResourceClaim, request: DeviceRequest, features: Features) -> None:
    """Raise `AllocationError` if the request needs a feature that is off."""
    if request.first_available and not features.prioritized_list:
        raise AllocationError(
            f"{where(claim, request.name)}: has subrequests, but the DRAPrioritizedList feature is "
            "disabled"
        )
    if features.consumable_capacity or features.stable:
        return
    problem = "has capacity requests, but the DRAConsumableCapacity feature is disabled"
    if request.exactly is not None and request.exactly.capacity is not None:
        raise AllocationError(f"{where(claim, request.name)}: {problem}")
    for one in request.first_available:
        if one.capacity is not None:
            raise AllocationError(f"claim {claim.metadata.key}, subrequest {one.name}: {problem}")


def wanted_devices(
    claim: ResourceClaim,
    request: DeviceRequest,
    classes: Mapping[str, DeviceClass],
    features: Features,
) -> Iterator[WantedDevices]:
    """Yield the alternatives of *request*, checked; the devices of those for all are not found yet.

    Raises:
        AllocationError: a request cannot be understood.
    """
    if request.first_available:
        for one in request.first_available:
            yield _wanted(claim, one.name, request.name, one, classes, features)
    elif request.exactly is not None:
        yield _wanted(claim, request.name, request.name, request.exactly, classes, features)
    else:
        problem = "missing device class name (unsupported request type?)"
        raise AllocationError(f"{where(claim, request.name)}: {problem}")


def _wanted(
    claim: ResourceClaim,
    name: str,
    parent: str,
    body: ExactDeviceRequest,
    classes: Mapping[str, DeviceClass],
    features: Features,
) -> WantedDevices:
    _check(claim, name, body, features)
    found = classes.get(body.device_class_name)
    if found is None:
        missing = body.device_class_name
        raise AllocationError(
            f"{where(claim, name)}: could not retrieve device class {missing}: "
            f'deviceclass.resource.k8s.io "{missing}" not found'
        )
    if body.allocation_mode not in (EXACT_COUNT, ALL):
        raise AllocationError(
            f"{where(claim, name)}: unsupported count mode {body.allocation_mode}"
        )
    wanted = WantedDevices(claim, name, parent, name != parent or _is_sub(body), body, found)
    wanted.derived = {one.name: one.expression for one in body.derived_attributes}
    if body.allocation_mode == EXACT_COUNT:
        wanted.count = body.count
    return wanted


def _is_sub(body: ExactDeviceRequest) -> bool:
    return hasattr(body, "name")


def _check(claim: ResourceClaim, name: str, body: ExactDeviceRequest, features: Features) -> None:
    here = where(claim, name)
    if body.derived_attributes and not features.derived_attributes:
        raise AllocationError(
            f"{here}: cannot handle request with derived attributes, the feature is disabled"
        )
    for index, selector in enumerate(body.selectors):
        if selector.cel is None:
            raise AllocationError(
                f"{here}, selector #{index}: CEL expression empty (unsupported selector type?)"
            )
    if body.admin_access is not None and not features.admin_access:
        raise AllocationError(f"{here}: admin access is requested, but the feature is disabled")
    if not body.device_class_name:
        raise AllocationError(f"{here}: missing device class name (unsupported request type?)")
