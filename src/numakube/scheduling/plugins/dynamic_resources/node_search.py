"""The filter: whether a node can use claims that are allocated, and has devices for the rest."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from numakube.dra import binding_conditions as conditions
from numakube.dra.allocator import SearchStopped
from numakube.dra.candidate_checks import OPTIONAL_OPERATIONS
from numakube.dra.device_ids import AllocationError
from numakube.dra.extended_resources import is_served_name, requests_and_mappings, with_requests
from numakube.dra.node_selection import selects
from numakube.dra.pod_claims import is_reserved_for
from numakube.scheduling.framework.status import SUCCESS, Status, failure, unresolvable
from numakube.scheduling.plugins.dynamic_resources.claimed_amounts import node_resources
from numakube.scheduling.plugins.dynamic_resources.cycle_claims import NodeAllocation

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from numakube.api.pod import ContainerExtendedResourceRequest, Pod
    from numakube.api.resource_claims import AllocationResult, ResourceClaim
    from numakube.dra.features import Features
    from numakube.dra.pools import Inventory
    from numakube.scheduling.plugins.dynamic_resources.cycle_claims import CycleClaims
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo

NO_DEVICES: Final = unresolvable("cannot allocate all claims")


class NodeSearch:
    """Judges one node after the other for one pod."""

    def __init__(
        self,
        known: CycleClaims,
        features: Features,
        inventory: Inventory,
        classes: Mapping[str, str],
        *,
        now: datetime | None,
        timeout_seconds: float,
    ) -> None:
        self._known = known
        self._features = features
        self._inventory = inventory
        self._classes = classes
        self._counts = features.node_allocatable_resources
        self._now = now
        self._timeout = timeout_seconds

    def judge(self, pod: PodInfo, node: NodeInfo) -> Status:
        """Say whether *node* is possible, and keep what was found for it."""
        known = self._known
        extended, mappings, status = self._extended(pod, node)
        if not status.ok:
            return status
        if extended is None and not known.has_user_claims:
            return SUCCESS
        unavailable, status = self._unavailable(pod.pod, node)
        if not status.ok:
            return status
        found, status = self._found(node, extended)
        if not status.ok:
            return status
        found = replace(found, extended=extended, mappings=mappings)
        if self._counts:
            found, status = self._counted(pod, node, found)
            if not status.ok:
                return status
        if unavailable:
            known.unavailable |= unavailable
            return unresolvable("resourceclaim not available on the node")
        if known.allocator is not None or found.resources:
            known.nodes[node.name] = found
        return SUCCESS

    def _extended(
        self, pod: PodInfo, node: NodeInfo
    ) -> tuple[ResourceClaim | None, tuple[ContainerExtendedResourceRequest, ...], Status]:
        claim = self._known.extended_claim
        if claim is None:
            return None, (), SUCCESS
        if claim.spec.devices.requests:
            return None, (), unresolvable("cannot schedule extended resource claim")
        wanted: list[str] = []
        for name, amount in pod.requests.items():
            if not amount or not is_served_name(name):
                continue
            if name in self._classes and node.allocatable.get(name, 0) == 0:
                wanted.append(name)
            elif name not in node.allocatable:
                return None, (), unresolvable("cannot fit resource")
        if not self._known.has_user_claims and not wanted:
            return None, (), SUCCESS
        if claim.status.allocation is not None:
            return None, (), SUCCESS
        requests, mappings = requests_and_mappings(pod.pod, wanted, self._classes)
        return with_requests(claim, requests), mappings, SUCCESS

    def _unavailable(self, pod: Pod, node: NodeInfo) -> tuple[set[int], Status]:
        found: set[int] = set()
        for index, claim in enumerate(self._known.claims):
            allocation = claim.status.allocation
            if allocation is None:
                continue
            if not self._is_available(claim, allocation, node):
                found.add(index)
                continue
            if self._is_broken(claim):
                found.add(index)
            if self._is_taken(claim, pod):
                return found, unresolvable(
                    f"node allocatable resource claim {claim.metadata.name} has a mapped device "
                    "and cannot be shared across pods"
                )
        return found, SUCCESS

    def _is_available(
        self, claim: ResourceClaim, allocation: AllocationResult, node: NodeInfo
    ) -> bool:
        selector = allocation.node_selector
        if selector is not None and not selects(selector, node.node):
            return False
        skipping = any(one.skip_node_operations for one in allocation.devices.results)
        return not skipping or OPTIONAL_OPERATIONS in node.node.status.declared_features

    def _is_broken(self, claim: ResourceClaim) -> bool:
        """Tell whether a driver failed to get the devices ready, or takes too long."""
        if not self._features.binding_conditions or not conditions.has_conditions(claim):
            return False
        if conditions.failed_condition(claim):
            return True
        late = self._now is not None and conditions.is_late(claim, self._now, self._timeout)
        return late and not conditions.is_ready(claim)

    def _is_taken(self, claim: ResourceClaim, pod: Pod) -> bool:
        return (
            self._features.node_allocatable_resources
            and self._known.mapped.get(claim.metadata.uid, False)
            and bool(claim.status.reserved_for)
            and not is_reserved_for(claim, pod)
        )

    def exact(self, node: NodeInfo, found: NodeAllocation) -> tuple[NodeAllocation, Status]:
        """Return *found* with the devices of *node* itself, if they are those of another one."""
        if not found.is_alike:
            return found, SUCCESS
        allocations, status = self._allocated(node, found.extended)
        return replace(found, allocations=allocations, is_alike=False), status

    def _found(
        self, node: NodeInfo, extended: ResourceClaim | None
    ) -> tuple[NodeAllocation, Status]:
        """Search the node, unless one of its kind has been searched."""
        known = self._known
        shares = known.allocator is not None and extended is None
        kind = known.allocator.kind_of(node.node) if known.allocator and shares else None
        if kind is not None and kind in known.judged and not self._counts:
            allocations, status = known.judged[kind]
            return NodeAllocation(allocations, is_alike=True), status
        allocations, status = self._allocated(node, extended)
        if kind is not None and (status.ok or status is NO_DEVICES):
            known.judged[kind] = allocations, status
        return NodeAllocation(allocations), status

    def _allocated(
        self, node: NodeInfo, extended: ResourceClaim | None
    ) -> tuple[tuple[AllocationResult, ...], Status]:
        known = self._known
        if known.allocator is None:
            return (), SUCCESS
        claims = [
            extended if index == known.extended and extended is not None else claim
            for index, claim in known.to_allocate()
        ]
        try:
            found = known.allocator.allocate(node.node, claims)
        except SearchStopped:
            return (), failure(f"node {node.name}: timed out trying to allocate devices")
        except AllocationError as error:
            refuse = unresolvable if error.node_only else failure
            return (), refuse(str(error))
        if found is None:
            return (), NO_DEVICES
        return tuple(found), SUCCESS

    def _counted(
        self, pod: PodInfo, node: NodeInfo, found: NodeAllocation
    ) -> tuple[NodeAllocation, Status]:
        return node_resources(self._known, pod, node, found, self._inventory.slices)
