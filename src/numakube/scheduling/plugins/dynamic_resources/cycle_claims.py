"""The claims of one pod during one scheduling cycle, and what was found for them on each node."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import msgspec

from numakube.dra.device_places import KNOWN_PLACES
from numakube.dra.pod_claims import is_for
from numakube.scheduling.framework.cycle_state import StateKey
from numakube.scheduling.plugins.dynamic_resources.claim_pairs import PairTrees

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numakube.api.pod import (
        ContainerExtendedResourceRequest,
        NodeAllocatableResourceClaimStatus,
        Pod,
    )
    from numakube.api.resource_claims import AllocationResult, ResourceClaim
    from numakube.dra.allocator import Allocator
    from numakube.dra.device_places import DevicePlaces
    from numakube.dra.pools import Candidate, Inventory, Pool
    from numakube.scheduling.plugins.dynamic_resources.attempt_time import AttemptTime
    from numakube.scheduling.snapshot.cluster_objects import ClusterObjects
    from numakube.scheduling.snapshot.nodes import NodeInfo


class NodeAllocation(msgspec.Struct, frozen=True):
    """What was found for a pod on one node.

    Attributes:
        allocations: one for each claim that had none, in order.
        alike: the pools of the allocations, if those are of another node of the same kind.
        extended: the claim for extended resources, made for the node.
    """

    allocations: tuple[AllocationResult, ...] = ()
    extended: ResourceClaim | None = None
    mappings: tuple[ContainerExtendedResourceRequest, ...] = ()
    resources: tuple[NodeAllocatableResourceClaimStatus, ...] = ()
    alike: Sequence[Pool] | None = None


@dataclass(slots=True)
class CycleClaims:
    """What a cycle knows; what-ifs share it.

    Attributes:
        names: the name that each of the user's claims has in the pod.
        claims: the user's claims, then the one for extended resources if there is one.
        extended: the position of that one, or -1.
        reserved: allocations that were booked for the chosen node, by position.
        unavailable: positions of claims that some node could not use.
        mapped: which claims stand for resources of the node, by uid.
        places: finds out where devices are.
        trees: how they are connected.
        inventory: all devices on offer.
        time: how long devices may be searched for.
        far: why devices are not near the pod's CPUs, by node, where that is allowed.
    """

    objects: ClusterObjects
    names: list[str]
    claims: list[ResourceClaim]
    extended: int = -1
    extended_uid: str = ""
    allocator: Allocator | None = None
    nodes: dict[str, NodeAllocation] = field(default_factory=dict)
    reserved: dict[int, AllocationResult] = field(default_factory=dict)
    unavailable: set[int] = field(default_factory=set)
    mapped: dict[str, bool] = field(default_factory=dict)
    places: DevicePlaces = KNOWN_PLACES
    trees: PairTrees = field(default_factory=PairTrees)
    inventory: Inventory | None = None
    time: AttemptTime | None = None
    far: dict[str, str] = field(default_factory=dict)

    @property
    def has_user_claims(self) -> bool:
        """Whether the pod names claims itself."""
        return bool(self.names)

    @property
    def has_alternatives(self) -> bool:
        """Whether a request would rather have some devices than others."""
        return any(
            request.first_available
            for claim in self.claims
            for request in claim.spec.devices.requests
        )

    @property
    def extended_claim(self) -> ResourceClaim | None:
        """The claim for extended resources."""
        return self.claims[self.extended] if self.extended >= 0 else None

    def has_leftovers(self, pod: Pod) -> bool:
        """Tell whether an earlier attempt has left something with claims of *pod* alone."""
        left = self.extended_claim
        return (left is not None and bool(left.spec.devices.requests)) or any(
            claim.status.allocation is not None and is_for(claim, pod) for claim in self.claims
        )

    def to_allocate(self) -> Iterator[tuple[int, ResourceClaim]]:
        """Yield the claims without allocation, with their positions."""
        for index, claim in enumerate(self.claims):
            if claim.status.allocation is None:
                yield index, claim

    def numa_nodes(self, candidate: Candidate, node: NodeInfo) -> frozenset[int]:
        """Return the NUMA nodes of *node* that a device is local to; none if not known."""
        topology = node.numa.topology if node.numa is not None else None
        # A PCI address means something on the machine of the device alone.
        is_local = node.name in (candidate.slice.spec.node_name, candidate.device.node_name)
        pci = topology.pci if topology is not None and is_local else None
        return self.places.numa_nodes(candidate.device, candidate.id.driver, pci)

    def pcie_root(self, candidate: Candidate) -> str | None:
        """Return the PCIe root complex of a device; None if its driver does not tell it."""
        return self.places.pcie_root(candidate.device, candidate.id.driver)


CYCLE_CLAIMS: Final = StateKey[CycleClaims]("DynamicResources")
