"""Resources of nodes that devices stand for: extended resources, and CPUs or memory (KEP-5517).

A node serves a resource by a device plugin if it has any allocatable, else by DRA if a class is
mapped to the name. Requests of containers become requests of one claim for the whole pod.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from numakube.api.meta import ObjectMeta, OwnerReference
from numakube.api.pod import (
    ContainerExtendedResourceRequest,
    NodeAllocatableMappedResource,
    NodeAllocatableOverheadResource,
    NodeAllocatableResourceClaimStatus,
)
from numakube.api.pod_resources import is_sidecar
from numakube.api.resource_claims import (
    EXTENDED_RESOURCE_CLAIM,
    DeviceClaim,
    DeviceRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
)
from numakube.dra.device_ids import AllocationError
from numakube.dra.pools import reaches
from numakube.errors import InvalidValue
from numakube.values.quantity import Quantity, parse_quantity
from numakube.values.resources import is_extended
from numakube.values.times import parse_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numakube.api.nodes import Node
    from numakube.api.pod import Container, Pod
    from numakube.api.resource_claims import AllocationResult, DeviceRequestAllocationResult
    from numakube.api.resource_slices import (
        Device,
        DeviceClass,
        NodeAllocatableResourceMapping,
        ResourceSlice,
    )


IN_MEMORY_NAME: Final = "<extended-resources>"
"""The name of the claim until the node is known and it is created."""
_PREFIX: Final = "deviceclass.resource.kubernetes.io/"

Mapping_ = ContainerExtendedResourceRequest


def is_served_name(resource: str) -> bool:
    """Tell whether a class could serve *resource*."""
    return is_extended(resource) or resource.startswith(_PREFIX)


def classes_by_resource(classes: Iterable[DeviceClass]) -> dict[str, str]:
    """Return the class of each extended resource; of two classes the younger has the name."""
    found: dict[str, DeviceClass] = {}
    for one in classes:
        found[_PREFIX + one.metadata.name] = one
        name = one.spec.extended_resource_name
        if name and (name not in found or _precedes(one, found[name])):
            found[name] = one
    return {name: one.metadata.name for name, one in found.items()}


def _precedes(one: DeviceClass, other: DeviceClass) -> bool:
    ages = [_created(one), _created(other)]
    if ages[0] != ages[1]:
        return ages[0] > ages[1]
    return one.metadata.name < other.metadata.name


def _created(one: DeviceClass) -> float:
    text = one.metadata.creation_timestamp
    try:
        return parse_time(text).timestamp() if text else float("-inf")
    except InvalidValue:
        return float("-inf")


def pod_claim(pod: Pod, known: Iterable[ResourceClaim], *, uid: str) -> ResourceClaim:
    """Return the claim for extended resources that *pod* has, or a new one in memory only."""
    for claim in known:
        if claim.metadata.annotations.get(EXTENDED_RESOURCE_CLAIM) == "true" and any(
            owner.uid == pod.metadata.uid and owner.name == pod.metadata.name and owner.controller
            for owner in claim.metadata.owner_references
        ):
            return claim
    owner = OwnerReference(
        api_version="v1",
        kind="Pod",
        name=pod.metadata.name,
        uid=pod.metadata.uid,
        controller=True,
    )
    return ResourceClaim(
        metadata=ObjectMeta(
            namespace=pod.metadata.namespace,
            name=IN_MEMORY_NAME,
            uid=uid,
            generate_name=f"{pod.metadata.name}-extended-resources-",
            owner_references=(owner,),
            annotations={EXTENDED_RESOURCE_CLAIM: "true"},
        )
    )


def requests_and_mappings(
    pod: Pod, resources: Iterable[str], classes: Mapping[str, str]
) -> tuple[tuple[DeviceRequest, ...], tuple[Mapping_, ...]]:
    """Return the requests that serve *resources* to *pod*'s containers, and who uses which."""
    requests: list[DeviceRequest] = []
    mappings: list[Mapping_] = []
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    short = {index for index, one in enumerate(pod.spec.init_containers) if not is_sidecar(one)}
    for resource in sorted(resources):
        builder = _ClaimBuilder(resource, classes[resource], containers, short)
        requests += builder.requests()
        mappings += builder.mappings()
    return tuple(sorted(requests, key=lambda request: request.name)), tuple(mappings)


class _ClaimBuilder:
    """The requests for one resource: each long-lived container has its own, the others share."""

    def __init__(
        self, resource: str, class_name: str, containers: Sequence[Container], short: set[int]
    ) -> None:
        self._resource = resource
        self._class = class_name
        self._long: list[DeviceRequest | None] = [None] * len(containers)
        self._long_mappings: list[Mapping_] = []
        self._short_mappings: list[Mapping_] = []
        self._largest: DeviceRequest | None = None
        for index, container in enumerate(containers):
            if index not in short:
                self._long[index], mappings = self._of(index, container, ())
                self._long_mappings += mappings
        names = set()
        for index in sorted(short):
            request, mappings = self._of(index, containers[index], self._long[index:])
            self._short_mappings += mappings
            if request is not None:
                names.add(request.name)
                if self._largest is None or _count(self._largest) < _count(request):
                    self._largest = request
        self._rename(names)

    def requests(self) -> list[DeviceRequest]:
        """The requests of all containers."""
        own = [one for one in self._long if one is not None]
        return [self._largest, *own] if self._largest is not None else own

    def mappings(self) -> list[Mapping_]:
        """Which container uses which request."""
        return [*self._long_mappings, *self._short_mappings]

    def _rename(self, names: set[str]) -> None:
        """Let all short-lived containers use the largest of their own requests."""
        if self._largest is None:
            return
        self._short_mappings = [
            replace(mapping, request_name=self._largest.name)
            if mapping.request_name in names
            else mapping
            for mapping in self._short_mappings
        ]

    def _of(
        self, index: int, container: Container, reusable: Iterable[DeviceRequest | None]
    ) -> tuple[DeviceRequest | None, list[Mapping_]]:
        asked = container.resources.requests if container.resources is not None else {}
        wanted = parse_quantity(asked[self._resource]).value() if self._resource in asked else 0
        if wanted == 0:
            return None, []
        mappings: list[Mapping_] = []
        total = 0
        for request in reusable:
            if request is not None:
                total += _count(request)
                mappings.append(self._mapping(container, request.name))
                if total >= wanted:
                    return None, mappings
        name = f"container-{index}-request-{sorted(asked).index(self._resource)}"
        mappings.append(self._mapping(container, name))
        exactly = ExactDeviceRequest(device_class_name=self._class, count=wanted - total)
        return DeviceRequest(name=name, exactly=exactly), mappings

    def _mapping(self, container: Container, request: str) -> Mapping_:
        return ContainerExtendedResourceRequest(
            container_name=container.name, resource_name=self._resource, request_name=request
        )


def _count(request: DeviceRequest) -> int:
    return request.exactly.count if request.exactly is not None else 0


def with_requests(claim: ResourceClaim, requests: tuple[DeviceRequest, ...]) -> ResourceClaim:
    """Return *claim* asking for *requests*."""
    return replace(claim, spec=ResourceClaimSpec(devices=DeviceClaim(requests=requests)))


# ------------------------------------------------------------------------------------------------
# Devices that stand for CPUs, memory or other resources of the node (KEP-5517, alpha).
#
# What a claim's devices amount to is added to the requests of the pod that uses it, so that it is
# counted once.

Quantities = dict[str, Quantity]


def find_device(
    slices: Iterable[ResourceSlice], result: DeviceRequestAllocationResult, node: Node | None = None
) -> Device | None:
    """Return the device that *result* names, if one of *slices* has it and *node* reaches it."""
    for resource_slice in slices:
        if (resource_slice.spec.driver, resource_slice.spec.pool.name) != (
            result.driver,
            result.pool,
        ):
            continue
        for device in resource_slice.spec.devices:
            if device.name == result.device:
                if resource_slice.spec.per_device_node_selection and node is not None:
                    return device if _reaches(device, node) else None
                return device
    return None


def _reaches(place: Device, node: Node) -> bool:
    try:
        return reaches(place, node)
    except AllocationError:
        return False


def slices_of(slices: Iterable[ResourceSlice], node: Node) -> list[ResourceSlice]:
    """Return the slices that may have devices for *node*."""
    found = []
    for resource_slice in slices:
        try:
            relevant = bool(resource_slice.spec.per_device_node_selection) or reaches(
                resource_slice.spec, node
            )
        except AllocationError:
            relevant = False
        if relevant:
            found.append(resource_slice)
    return found


def has_mapping(allocation: AllocationResult, slices: Iterable[ResourceSlice]) -> bool:
    """Tell whether any device of *allocation* stands for a resource of the node."""
    listed = list(slices)
    for result in allocation.devices.results:
        device = find_device(listed, result)
        if device is not None and any(
            resource.mapping is not None for resource in device.node_allocatable_resources.values()
        ):
            return True
    return False


def claim_statuses(
    pod: Pod,
    allocations: Mapping[str, tuple[ResourceClaim, AllocationResult]],
    slices: Iterable[ResourceSlice],
    node: Node,
) -> tuple[NodeAllocatableResourceClaimStatus, ...]:
    """Return what the claims of *pod* amount to; *allocations* are by the name in the pod.

    Raises:
        AllocationError: a device cannot be reckoned.
    """
    near = slices_of(slices, node)
    found: dict[str, NodeAllocatableResourceClaimStatus] = {}
    for claim, allocation in allocations.values():
        status = _status(pod, claim, allocation, near, node, allocations)
        if status is not None:
            found[claim.metadata.uid] = status
    return tuple(sorted(found.values(), key=lambda one: one.resource_claim_name))


def _status(
    pod: Pod,
    claim: ResourceClaim,
    allocation: AllocationResult,
    slices: list[ResourceSlice],
    node: Node,
    allocations: Mapping[str, tuple[ResourceClaim, AllocationResult]],
) -> NodeAllocatableResourceClaimStatus | None:
    mapped: Quantities = {}
    per_pod: Quantities = {}
    per_container: Quantities = {}
    for result in allocation.devices.results:
        device = find_device(slices, result, node)
        if device is None:
            continue
        for name, resource in device.node_allocatable_resources.items():
            if resource.mapping is not None:
                amount = _mapped(name, resource.mapping, result, claim)
                if amount is not None:
                    _add(mapped, name, amount)
            if resource.overhead is not None and resource.overhead.per_pod is not None:
                _add(per_pod, name, parse_quantity(resource.overhead.per_pod))
            if resource.overhead is not None and resource.overhead.per_container is not None:
                _add(per_container, name, parse_quantity(resource.overhead.per_container))
    if not mapped and not per_pod and not per_container:
        return None
    return NodeAllocatableResourceClaimStatus(
        resource_claim_name=claim.metadata.name,
        containers=_users(pod, claim, allocations),
        mapping=tuple(
            NodeAllocatableMappedResource(name=name, quantity=str(mapped[name]))
            for name in sorted(mapped)
        ),
        overhead=tuple(
            NodeAllocatableOverheadResource(
                name=name,
                per_pod=str(per_pod[name]) if name in per_pod else None,
                per_container=str(per_container[name]) if name in per_container else None,
            )
            for name in sorted({*per_pod, *per_container})
        ),
    )


def _users(
    pod: Pod,
    claim: ResourceClaim,
    allocations: Mapping[str, tuple[ResourceClaim, AllocationResult]],
) -> tuple[str, ...]:
    names = {name for name, (one, _) in allocations.items() if one is claim}
    return tuple(
        container.name
        for container in (*pod.spec.init_containers, *pod.spec.containers)
        for use in (container.resources.claims if container.resources is not None else ())
        if use.name in names
    )


def _mapped(
    resource: str,
    mapping: NodeAllocatableResourceMapping,
    result: DeviceRequestAllocationResult,
    claim: ResourceClaim,
) -> Quantity | None:
    if not mapping.capacity_key:
        one = mapping.device_multiplier
        return None if one is None else parse_quantity(one)
    if not result.consumed_capacity:
        raise AllocationError(
            f"claim {claim.metadata.key}, device {result.device}: ConsumedCapacity is nil, but "
            f"Capacity key '{mapping.capacity_key}' is set in NodeAllocatableResources for "
            f"resource {resource}"
        )
    if mapping.capacity_key not in result.consumed_capacity:
        return None
    consumed = parse_quantity(result.consumed_capacity[mapping.capacity_key])
    if mapping.capacity_multiplier is None:
        return consumed
    return _multiplied(consumed, parse_quantity(mapping.capacity_multiplier))


def _multiplied(one: Quantity, other: Quantity) -> Quantity:
    return Quantity(one.unscaled * other.unscaled, one.exponent + other.exponent, one.format)


def _add(total: Quantities, name: str, amount: Quantity) -> None:
    total[name] = total[name] + amount if name in total else amount
