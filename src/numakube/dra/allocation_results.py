"""What an allocation says: devices, configuration, and the nodes that can use it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.api.affinity_and_taints import (
    NAME_FIELD,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
)
from numakube.api.resource_claims import (
    AllocationResult,
    DeviceAllocationConfiguration,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
)
from numakube.dra.device_ids import AllocationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numakube.api.resource_claims import ResourceClaim
    from numakube.dra.candidate_checks import Chosen
    from numakube.dra.features import Features
    from numakube.dra.requests import Request


def allocation_of(
    claim: ResourceClaim,
    requests: Sequence[Request],
    chosen: Sequence[Chosen],
    node: str,
    features: Features,
) -> AllocationResult:
    """Return the allocation of *claim* on *node*.

    Raises:
        AllocationError: a node selector of a slice is more than one can be made of.
    """
    return AllocationResult(
        devices=DeviceAllocationResult(
            results=tuple(_result(one, features) for one in chosen),
            config=tuple(_config(claim, requests)),
        ),
        node_selector=_node_selector(claim, chosen, node),
    )


def _result(one: Chosen, features: Features) -> DeviceRequestAllocationResult:
    device = one.candidate.device
    bound = features.binding_conditions
    return DeviceRequestAllocationResult(
        request=one.wanted.full_name,
        driver=one.candidate.id.driver,
        pool=one.candidate.id.pool,
        device=one.candidate.id.device,
        admin_access=True if one.wanted.admin else None,
        tolerations=one.wanted.body.tolerations,
        binding_conditions=(device.binding_conditions or ()) if bound else (),
        binding_failure_conditions=(device.binding_failure_conditions or ()) if bound else (),
        share_id=one.share_id,
        consumed_capacity={name: str(amount) for name, amount in one.consumed.items()},
        skip_node_operations=(
            one.candidate.slice.spec.skip_node_operations if features.experimental else ()
        ),
    )


def _config(
    claim: ResourceClaim, requests: Sequence[Request]
) -> list[DeviceAllocationConfiguration]:
    found = [*_class_config(requests), *_claim_config(claim, requests)]
    return [_for_all(one, requests) for one in found]


def _class_config(requests: Sequence[Request]) -> list[DeviceAllocationConfiguration]:
    names: dict[str, list[str]] = {}
    for request in requests:
        name = request.selected.device_class.metadata.name
        names.setdefault(name, []).append(request.selected.full_name)
    classes = {one.selected.device_class.metadata.name: one.selected for one in reversed(requests)}
    return [
        DeviceAllocationConfiguration(
            source="FromClass", requests=tuple(listed), opaque=config.opaque
        )
        for name, listed in names.items()
        for config in classes[name].device_class.spec.config
    ]


def _claim_config(
    claim: ResourceClaim, requests: Sequence[Request]
) -> list[DeviceAllocationConfiguration]:
    return [
        DeviceAllocationConfiguration(
            source="FromClaim", requests=config.requests, opaque=config.opaque
        )
        for config in claim.spec.devices.config
        if not config.requests or any(_names(config.requests, request) for request in requests)
    ]


def _names(listed: tuple[str, ...], request: Request) -> bool:
    """Tell whether a list names *request*, or the alternative that was chosen for it."""
    return request.name in listed or (
        request.has_alternatives and request.selected.full_name in listed
    )


def _for_all(
    config: DeviceAllocationConfiguration, requests: Sequence[Request]
) -> DeviceAllocationConfiguration:
    """Return *config* without its list of requests if that names every request."""
    if not all(_names(config.requests, request) for request in requests):
        return config
    return DeviceAllocationConfiguration(source=config.source, opaque=config.opaque)


def _node_selector(
    claim: ResourceClaim, chosen: Sequence[Chosen], node: str
) -> NodeSelector | None:
    fields: list[NodeSelectorRequirement] = []
    expressions: list[NodeSelectorRequirement] = []
    for one in chosen:
        spec, device = one.candidate.slice.spec, one.candidate.device
        place = device if spec.per_device_node_selection else spec
        if place.node_name is not None or device.binds_to_node:
            return only_on(node)
        terms = place.node_selector.node_selector_terms if place.node_selector else ()
        if len(terms) > 1:
            raise AllocationError(
                f"create NodeSelector for claim {claim.metadata.name}: unsupported "
                f"ResourceSlice.NodeSelector with {len(terms)} terms"
            )
        for term in terms:
            _add_new(fields, term.match_fields)
            _add_new(expressions, term.match_expressions)
    if not fields and not expressions:
        return None
    term = NodeSelectorTerm(match_expressions=tuple(expressions), match_fields=tuple(fields))
    return NodeSelector(node_selector_terms=(term,))


def only_on(node: str) -> NodeSelector:
    """Return what selects the node with that name."""
    name = NodeSelectorRequirement(key=NAME_FIELD, operator="In", values=(node,))
    return NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(name,)),))


def _add_new(
    known: list[NodeSelectorRequirement], more: tuple[NodeSelectorRequirement, ...]
) -> None:
    for one in more:
        same = (
            other.key == one.key
            and other.operator == one.operator
            and set(other.values) == set(one.values)
            for other in known
        )
        if not any(same):
            known.append(one)
