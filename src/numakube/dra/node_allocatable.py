"""Devices that stand for CPUs, memory or other resources of the node (KEP-5517, alpha).

What a claim's devices amount to is added to the requests of the pod that uses it, so that it is
counted once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.api.pod import (
    NodeAllocatableMappedResource,
    NodeAllocatableOverheadResource,
    NodeAllocatableResourceClaimStatus,
)
from numakube.dra.device_ids import AllocationError
from numakube.dra.node_selection import reaches
from numakube.values.quantity import Quantity, parse_quantity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numakube.api.nodes import Node
    from numakube.api.pod import Pod
    from numakube.api.resource_claims import (
        AllocationResult,
        DeviceRequestAllocationResult,
        ResourceClaim,
    )
    from numakube.api.resource_slices import Device, NodeAllocatableResourceMapping, ResourceSlice

Quantities = dict[str, Quantity]


def find_device(
    slices: Iterable[ResourceSlice], result: DeviceRequestAllocationResult, node: Node | None = None
) -> Device | None:
    """Return the device that *result* names, if one of *slices* has it and *node* reaches it."""
    for one in slices:
        if (one.spec.driver, one.spec.pool.name) != (result.driver, result.pool):
            continue
        for device in one.spec.devices:
            if device.name == result.device:
                if one.spec.per_device_node_selection and node is not None:
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
    for one in slices:
        try:
            relevant = bool(one.spec.per_device_node_selection) or reaches(one.spec, node)
        except AllocationError:
            relevant = False
        if relevant:
            found.append(one)
    return found


def has_mapping(allocation: AllocationResult, slices: Iterable[ResourceSlice]) -> bool:
    """Tell whether any device of *allocation* stands for a resource of the node."""
    listed = list(slices)
    for result in allocation.devices.results:
        device = find_device(listed, result)
        if device is not None and any(
            one.mapping is not None for one in device.node_allocatable_resources.values()
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
