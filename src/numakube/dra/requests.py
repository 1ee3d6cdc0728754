"""Requests of claims, made ready for the search, and the constraints that devices must meet."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from numakube.api.resource_claims import ALL, EXACT_COUNT
from numakube.dra.device_ids import AllocationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numakube.api.resource_claims import (
        DeviceConstraint,
        DeviceRequest,
        ExactDeviceRequest,
        ResourceClaim,
    )
    from numakube.api.resource_slices import DeviceAttribute, DeviceClass
    from numakube.dra.features import Features
    from numakube.dra.pools import CandidateDevice

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
    every: list[CandidateDevice] | None = None
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
class ClaimRequest:
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
    for other in request.first_available:
        if other.capacity is not None:
            raise AllocationError(f"claim {claim.metadata.key}, subrequest {other.name}: {problem}")


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
        for other in request.first_available:
            yield _wanted(claim, other.name, request.name, other, classes, features)
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
    wanted.derived = {derived.name: derived.expression for derived in body.derived_attributes}
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


# ------------------------------------------------------------------------------------------------
# Constraints of a claim: devices that must agree in an attribute, or must all differ.
#
# Each keeps the devices chosen so far and takes them back in reverse order when the search turns
# around. With list attributes (alpha) every value is a set: to agree is to have an element in
# common.

Lookup: TypeAlias = "Callable[[WantedDevices, CandidateDevice, str], DeviceAttribute | None]"
_FIELDS: Final = (
    ("integers", "int"),
    ("booleans", "bool"),
    ("strings", "string"),
    ("versions", "version"),
    ("integer", "int"),
    ("boolean", "bool"),
    ("string", "string"),
    ("version", "version"),
)
_SCALARS: Final = ("string", "integer", "boolean", "version")


class ClaimConstraint(ABC):
    """What the devices of some requests must fulfil together."""

    def __init__(self, attribute: str, requests: frozenset[str], lookup: Lookup) -> None:
        self._attribute = attribute
        self._requests = requests
        self._lookup = lookup

    def applies(self, wanted: WantedDevices) -> bool:
        """Tell whether devices of the request count."""
        if not self._requests:
            return True
        return wanted.parent_name in self._requests or wanted.full_name in self._requests

    def add(self, wanted: WantedDevices, candidate: CandidateDevice) -> bool:
        """Take the device in; tell whether that is possible."""
        if not self.applies(wanted):
            return True
        found = self._lookup(wanted, candidate, self._attribute)
        return found is not None and self._add(found)

    def remove(self, wanted: WantedDevices) -> None:
        """Take out the device that was taken in last."""
        if self.applies(wanted):
            self._remove()

    @abstractmethod
    def _add(self, attribute: DeviceAttribute) -> bool:
        """Take a value in; tell whether that is possible."""

    @abstractmethod
    def _remove(self) -> None:
        """Take out the value that was taken in last."""


class MatchAttribute(ClaimConstraint):
    """All devices have the same value."""

    def __init__(
        self, attribute: str, requests: frozenset[str], lookup: Lookup, *, lists: bool
    ) -> None:
        super().__init__(attribute, requests, lookup)
        self._lists = lists
        self._first: DeviceAttribute | None = None
        self._common: list[tuple[str, frozenset[object]]] = []
        self._count = 0

    def _add(self, attribute: DeviceAttribute) -> bool:
        if self._lists:
            if not self._narrow(attribute):
                return False
        elif self._count == 0:
            self._first = attribute
        elif not _same_scalar(attribute, self._first):
            return False
        self._count += 1
        return True

    def _narrow(self, attribute: DeviceAttribute) -> bool:
        values = _value_set(attribute)
        if values is None:
            return False
        if self._common:
            kind, common = self._common[-1]
            if kind != values[0] or not common & values[1]:
                return False
            values = (kind, common & values[1])
        self._common.append(values)
        return True

    def _remove(self) -> None:
        self._count -= 1
        if self._lists:
            self._common.pop()


class DistinctAttribute(ClaimConstraint):
    """No two devices have the same value."""

    def __init__(
        self, attribute: str, requests: frozenset[str], lookup: Lookup, *, lists: bool
    ) -> None:
        super().__init__(attribute, requests, lookup)
        self._lists = lists
        self._taken: list[DeviceAttribute] = []

    def _add(self, attribute: DeviceAttribute) -> bool:
        differs = self._disjoint if self._lists else self._unlike
        if not differs(attribute):
            return False
        self._taken.append(attribute)
        return True

    def _unlike(self, attribute: DeviceAttribute) -> bool:
        if not self._taken:
            return True
        if not any(getattr(attribute, name) is not None for name in _SCALARS):
            return False
        return not any(_same_scalar(attribute, other) for other in self._taken)

    def _disjoint(self, attribute: DeviceAttribute) -> bool:
        values = _value_set(attribute)
        if values is None:
            return False
        others = (_value_set(other) for other in self._taken)
        return not any(
            other is not None and other[0] == values[0] and other[1] & values[1] for other in others
        )

    def _remove(self) -> None:
        self._taken.pop()


def _same_scalar(one: DeviceAttribute, other: DeviceAttribute | None) -> bool:
    """Tell whether both have the same single value; lists never do."""
    for name in _SCALARS:
        value = getattr(one, name)
        if value is not None:
            return other is not None and getattr(other, name) == value
    return False


def _value_set(attribute: DeviceAttribute) -> tuple[str, frozenset[object]] | None:
    for name, kind in _FIELDS:
        value = getattr(attribute, name)
        if value is not None and value != ():
            return kind, frozenset(value if isinstance(value, tuple) else (value,))
    return None


def constraint_of(
    one: DeviceConstraint, lookup: Lookup, *, lists: bool, distinct: bool
) -> ClaimConstraint | None:
    """Return the constraint; None if it is of an unknown kind."""
    requests = frozenset(one.requests)
    if one.match_attribute is not None:
        return MatchAttribute(one.match_attribute, requests, lookup, lists=lists)
    if one.distinct_attribute is not None and distinct:
        return DistinctAttribute(one.distinct_attribute, requests, lookup, lists=lists)
    return None


def lookup_attribute(candidate: CandidateDevice, name: str) -> DeviceAttribute | None:
    """Return the attribute with the full *name*; the driver's own may be listed without domain."""
    attributes = candidate.device.attributes
    if name in attributes:
        return attributes[name]
    domain, slash, identifier = name.partition("/")
    if not slash or domain != candidate.id.driver:
        return None
    return attributes.get(identifier)
