"""Whether a node has room for what devices of claims stand for (KEP-5517, alpha)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from numakube.api.pod_resources import (
    claimed_by,
    claimed_resources,
    effective_limits,
    effective_requests,
    with_claimed,
)
from numakube.dra.device_ids import AllocationError
from numakube.dra.node_allocatable import claim_statuses
from numakube.scheduling.framework.status import SUCCESS, Code, Status, failure, unresolvable
from numakube.values.quantity import Quantity, parse_quantity
from numakube.values.resources import CPU, EPHEMERAL_STORAGE, MEMORY, is_hugepages, is_pod_level

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numakube.api.codec import QuantityText
    from numakube.api.pod import Pod
    from numakube.api.resource_claims import AllocationResult, ResourceClaim
    from numakube.api.resource_slices import ResourceSlice
    from numakube.scheduling.plugins.dynamic_resources.cycle_claims import (
        CycleClaims,
        NodeAllocation,
    )
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo


_ZERO: Final = Quantity(0)


def node_resources(
    known: CycleClaims,
    pod: PodInfo,
    node: NodeInfo,
    found: NodeAllocation,
    slices: Sequence[ResourceSlice],
) -> tuple[NodeAllocation, Status]:
    """Return *found* with what its devices stand for, and whether *node* has that to give."""
    try:
        statuses = claim_statuses(pod.pod, _allocations(known, found), slices, node.node)
    except AllocationError as error:
        return found, failure(str(error))
    if not statuses:
        return replace(found, resources=()), SUCCESS
    counted = with_claimed(pod.pod, statuses)
    problem = _uncovered(counted) or _over_limit(counted)
    if problem:
        return found, unresolvable(problem)
    return replace(found, resources=statuses), _fits(counted, node)


def _allocations(
    known: CycleClaims, found: NodeAllocation
) -> dict[str, tuple[ResourceClaim, AllocationResult]]:
    fresh = dict(zip((index for index, _ in known.to_allocate()), found.allocations, strict=False))
    by_name: dict[str, tuple[ResourceClaim, AllocationResult]] = {}
    for index, claim in enumerate(known.claims):
        allocation = fresh.get(index, claim.status.allocation)
        if allocation is not None:
            name = known.names[index] if index < len(known.names) else claim.metadata.name
            by_name[name] = (claim, allocation)
    return by_name


def _uncovered(pod: Pod) -> str:
    """Return which pod-level request is less than what containers and claims need together."""
    level = pod.spec.resources
    if level is None:
        return ""
    needed = effective_requests(pod, overhead=False, pod_level_resources=False)
    for name, amount in level.requests.items():
        if is_pod_level(name) and name in needed and needed[name] > parse_quantity(amount):
            return (
                f"pod level request for {name} is insufficient to cover the aggregated container "
                "and node-allocatable DRA requests"
            )
    return ""


def _over_limit(pod: Pod) -> str:
    """Return which pod-level limit is less than what containers and claims may use."""
    level = pod.spec.resources
    if level is None or not level.limits:
        return ""
    claimed = claimed_resources(pod)
    limits = effective_limits(pod, overhead=False, pod_level_resources=False)
    for name in sorted({*limits, *claimed} & level.limits.keys()):
        total = limits.get(name, _ZERO) + claimed.get(name, _ZERO)
        if is_hugepages(name) and total > parse_quantity(level.limits[name]):
            return (
                f"pod level limit for {name} is insufficient to cover the aggregated container "
                "and node-allocatable DRA limits"
            )
    return next(_containers_over(pod, level.limits), "")


def _containers_over(pod: Pod, limits: Mapping[str, QuantityText]) -> Iterator[str]:
    for container in pod.spec.containers:
        own = container.resources.limits if container.resources is not None else {}
        claimed = claimed_by(pod, container.name)
        for name in own.keys() & limits.keys():
            total = parse_quantity(own[name]) + claimed.get(name, _ZERO)
            if not is_hugepages(name) and total > parse_quantity(limits[name]):
                yield (
                    f"pod level limit for {name} is insufficient to cover the limit and DRA "
                    f"overhead for container {container.name}"
                )


def _fits(pod: Pod, node: NodeInfo) -> Status:
    reasons, hopeless = [], False
    for name, quantity in sorted(effective_requests(pod).items(), key=_order):
        amount = quantity.milli_value() if name == CPU else quantity.value()
        if name not in (CPU, MEMORY, EPHEMERAL_STORAGE) and not is_hugepages(name):
            continue
        offered = node.allocatable.get(name, 0)
        if amount > 0 and amount > offered - node.requested.get(name, 0):
            reasons.append(f"Insufficient {name}")
            hopeless = hopeless or amount > offered
    if not reasons:
        return SUCCESS
    code = Code.UNSCHEDULABLE_AND_UNRESOLVABLE if hopeless else Code.UNSCHEDULABLE
    return Status(code, tuple(reasons))


def _order(one: tuple[str, object]) -> tuple[int, str]:
    first = (CPU, MEMORY, EPHEMERAL_STORAGE)
    return (first.index(one[0]) if one[0] in first else len(first), one[0])
