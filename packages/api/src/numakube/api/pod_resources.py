"""What a pod amounts to: its QoS class, and the resources it needs all in all.

Init containers run one after the other, sidecars (init containers that restart always) go on
running beside everything that starts after them, and the app containers run together. So a pod
needs the larger of what its app containers and sidecars need together and what each init container
needs beside the sidecars started before it, plus overhead. Pod-level resources (``spec.resources``)
replace the sums. Follows Kubernetes 1.35, k8s.io/component-helpers/resource and
pkg/apis/core/v1/helper/qos.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from msgspec.structs import replace

from numakube.api.pod import PodStatus
from numakube.values.quantity import Quantity, parse_quantity
from numakube.values.resources import CPU, MEMORY, is_pod_level

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numakube.api.codec import QuantityText
    from numakube.api.pod import (
        Container,
        ContainerStatus,
        NodeAllocatableResourceClaimStatus,
        Pod,
        PodCondition,
        ResourceRequirements,
    )

Quantities: TypeAlias = dict[str, Quantity]

GUARANTEED: Final = "Guaranteed"
BURSTABLE: Final = "Burstable"
BEST_EFFORT: Final = "BestEffort"

RESIZE_PENDING: Final = "PodResizePending"
"""The type of the condition of a pod whose resize waits."""

_QOS_RESOURCES: Final = frozenset({CPU, MEMORY})


def is_sidecar(container: Container) -> bool:
    """Tell whether an init container goes on running beside the app containers."""
    return container.restart_policy == "Always"


def has_pod_level_resources(pod: Pod) -> bool:
    """Tell whether ``spec.resources`` asks for or limits anything that it may."""
    resources = pod.spec.resources
    return resources is not None and any(
        is_pod_level(name) for name in (*resources.requests, *resources.limits)
    )


def qos_class(pod: Pod, *, pod_level_resources: bool = True, empty_counts: bool = True) -> str:
    """Return the QoS class that the API server recorded, or else `compute_qos_class`."""
    if pod.status is not None and pod.status.qos_class:
        return pod.status.qos_class
    return compute_qos_class(
        pod, pod_level_resources=pod_level_resources, empty_counts=empty_counts
    )


def disputed_qos_class(pod: Pod) -> str:
    """Return the QoS class that the API server records if a kubelet might compute another.

    That is so for pods with resources of their own, which kubelets without that feature ignore;
    they believe what is recorded. For other pods it is empty, and follows from their containers.
    """
    return "" if pod.spec.resources is None else qos_class(pod)


def compute_qos_class(
    pod: Pod, *, pod_level_resources: bool = True, empty_counts: bool = True
) -> str:
    """Return the QoS class that follows from the pod's requests and limits.

    Args:
        pod: the pod.
        pod_level_resources: whether ``spec.resources``, if set, decides alone.
        empty_counts: whether an empty ``spec.resources`` counts as set, as it does before 1.37.
    """
    level = pod.spec.resources if pod_level_resources else None
    if level is not None and (empty_counts or has_pod_level_resources(pod)):
        # Without any limit Kubernetes does not ask whether both resources are limited; the
        # comparison of requests with limits then refuses "Guaranteed" all the same.
        return _qos_class([level], limits_all=not level.limits or _limits_all(level))
    parts = [
        container.resources
        for container in (*pod.spec.containers, *pod.spec.init_containers)
        if container.resources is not None
    ]
    bare = len(parts) < len(pod.spec.containers) + len(pod.spec.init_containers)
    return _qos_class(parts, limits_all=not bare and all(map(_limits_all, parts)))


def _qos_class(parts: Sequence[ResourceRequirements], *, limits_all: bool) -> str:
    if parts and limits_all and all(p.limits and p.requests == p.limits for p in parts):
        return GUARANTEED
    requests: Quantities = {}
    limits: Quantities = {}
    for part in parts:
        _add(requests, _positive(part.requests))
        _add(limits, _positive(part.limits))
    if not requests and not limits:
        return BEST_EFFORT
    return GUARANTEED if limits_all and requests == limits else BURSTABLE


def _positive(quantities: Mapping[str, QuantityText]) -> Quantities:
    """Return the CPU and memory of *quantities* that are above zero."""
    parsed = {name: parse_quantity(quantities[name]) for name in _QOS_RESOURCES & quantities.keys()}
    return {name: quantity for name, quantity in parsed.items() if quantity.unscaled > 0}


def _limits_all(part: ResourceRequirements) -> bool:
    return _positive(part.limits).keys() == _QOS_RESOURCES


def effective_requests(
    pod: Pod,
    *,
    overhead: bool = True,
    pod_level_resources: bool = True,
    from_status: bool = False,
    defaults: Mapping[str, Quantity] | None = None,
) -> Quantities:
    """Return what *pod* needs of each resource.

    Args:
        pod: the pod.
        overhead: whether to add the pod's overhead.
        pod_level_resources: whether ``spec.resources.requests`` replaces the sums over containers.
        from_status: whether a container that is being resized counts as the larger of what it asks
            for and what the kubelet has given it, as the scheduler must assume.
        defaults: what a container without a request for a resource is taken to ask for.
    """
    statuses = _statuses(pod) if from_status else {}
    infeasible = from_status and is_resize_infeasible(pod)

    def requests_of(container: Container) -> Quantities:
        status = statuses.get(container.name)
        asked = _requests_with_status(container, status, infeasible=infeasible)
        return {**(defaults or {}), **asked}

    total = _aggregate(pod, requests_of)
    _add(total, claimed_resources(pod))
    level = pod.spec.resources if pod_level_resources else None
    if level is not None:
        _replace_pod_level(total, level.requests)
    if overhead:
        _add(total, _parsed(pod.spec.overhead))
    return total


def claimed_resources(pod: Pod) -> Quantities:
    """Return what devices of *pod*'s claims stand for, of the node's own resources (KEP-5517)."""
    total: Quantities = {}
    for claim in pod.status.claimed_node_resources if pod.status else ():
        for resource in claim.mapping:
            if resource.quantity is not None:
                _add(total, {resource.name: parse_quantity(resource.quantity)})
        for cost in claim.overhead:
            if cost.per_pod is not None:
                _add(total, {cost.name: parse_quantity(cost.per_pod)})
            if cost.per_container is not None:
                each = parse_quantity(cost.per_container)
                for _ in claim.containers:
                    _add(total, {cost.name: each})
    return total


def with_claimed(pod: Pod, claimed: tuple[NodeAllocatableResourceClaimStatus, ...]) -> Pod:
    """Return *pod* with a status that says what devices of its claims stand for."""
    status = pod.status if pod.status is not None else PodStatus()
    status = replace(
        status,
        node_allocatable_resource_claim_statuses=claimed,
        additional_node_allocatable_resources=(),
    )
    return replace(pod, status=status)


def claimed_by(pod: Pod, container: str) -> Quantities:
    """Return what devices of the claims that one *container* uses stand for."""
    total: Quantities = {}
    for claim in pod.status.claimed_node_resources if pod.status else ():
        if container not in claim.containers:
            continue
        for resource in claim.mapping:
            if resource.quantity is not None:
                _add(total, {resource.name: parse_quantity(resource.quantity)})
        for cost in claim.overhead:
            for amount in (cost.per_pod, cost.per_container):
                if amount is not None:
                    _add(total, {cost.name: parse_quantity(amount)})
    return total


def resources_by_claim(pod: Pod) -> frozenset[tuple[str, str]]:
    """Return container and name of each extended resource that a claim serves (KEP-5004)."""
    status = pod.status.extended_resource_claim_status if pod.status is not None else None
    mappings = status.request_mappings if status is not None else ()
    return frozenset((mapping.container_name, mapping.resource_name) for mapping in mappings)


def effective_limits(
    pod: Pod, *, overhead: bool = True, pod_level_resources: bool = True
) -> Quantities:
    """Return how much of each resource *pod* may use; a resource without limit is missing."""
    total = _aggregate(pod, lambda one: _parsed(one.resources.limits if one.resources else {}))
    level = pod.spec.resources if pod_level_resources else None
    if level is not None:
        _replace_pod_level(total, level.limits)
    if overhead:
        limited = {name for name, quantity in total.items() if quantity}
        extra = _parsed(pod.spec.overhead)
        _add(total, {name: extra[name] for name in extra.keys() & limited})
    return total


def pending_resize(pod: Pod) -> PodCondition | None:
    """Return the condition that tells of a resize which the kubelet refuses or defers."""
    conditions = pod.status.conditions if pod.status else ()
    return next((condition for condition in conditions if condition.type == RESIZE_PENDING), None)


def is_resize_infeasible(pod: Pod) -> bool:
    """Tell whether the kubelet has refused a resize of *pod* for good."""
    pending = pending_resize(pod)
    return pending is not None and pending.reason == "Infeasible"


def _aggregate(pod: Pod, of: Callable[[Container], Quantities]) -> Quantities:
    """Return the sum over containers as described at the top of the module."""
    total: Quantities = {}
    for container in pod.spec.containers:
        _add(total, of(container))
    sidecars: Quantities = {}
    peak: Quantities = {}
    for container in pod.spec.init_containers:
        own = of(container)
        if is_sidecar(container):
            _add(total, own)
            _add(sidecars, own)
            _raise_to(peak, sidecars)
        else:
            _add(own, sidecars)
            _raise_to(peak, own)
    _raise_to(total, peak)
    return total


def _add(total: Quantities, more: Quantities) -> None:
    for name, quantity in more.items():
        total[name] = total[name] + quantity if name in total else quantity


def _raise_to(total: Quantities, floor: Quantities) -> None:
    for name, quantity in floor.items():
        if name not in total or quantity > total[name]:
            total[name] = quantity


def _replace_pod_level(total: Quantities, level: Mapping[str, QuantityText]) -> None:
    total.update(_parsed({name: level[name] for name in level if is_pod_level(name)}))


def _parsed(quantities: Mapping[str, QuantityText]) -> Quantities:
    return {name: parse_quantity(text) for name, text in quantities.items()}


def _statuses(pod: Pod) -> dict[str, ContainerStatus]:
    """Return the statuses of the containers that can be resized: all but plain init containers."""
    if pod.status is None:
        return {}
    plain = {container.name for container in pod.spec.init_containers if not is_sidecar(container)}
    both = (*pod.status.container_statuses, *pod.status.init_container_statuses)
    return {status.name: status for status in both if status.name not in plain}


def _requests_with_status(
    container: Container, status: ContainerStatus | None, *, infeasible: bool
) -> Quantities:
    asked = _parsed(container.resources.requests if container.resources else {})
    if status is None or status.resources is None:
        return asked
    largest = {} if infeasible else asked
    _raise_to(largest, _parsed(status.resources.requests))
    _raise_to(largest, _parsed(status.allocated_resources))
    return largest
