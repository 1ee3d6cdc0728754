"""What the scheduler knows of claims: those of the cluster, and those of the pod in its cycle.

All of it is kept up to date claim by claim: a cycle costs what has changed since the one before.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import msgspec

from numakube.dra.alike_nodes import NodeKinds
from numakube.dra.allocated_state import AllocatedState
from numakube.dra.device_ids import PoolId
from numakube.dra.device_places import KNOWN_PLACES
from numakube.dra.extended_resources import classes_by_resource, is_served_name, pod_claim
from numakube.dra.pod_claims import is_for
from numakube.dra.pools import DeviceInventory, with_taints
from numakube.scheduling.framework.cycle_state import StateKey
from numakube.scheduling.plugins.dynamic_resources.claim_pairs import PairTrees
from numakube.scheduling.plugins.volumes.volume_claims import Assumed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numakube.api.pod import (
        ContainerExtendedResourceRequest,
        NodeAllocatableResourceClaimStatus,
        Pod,
    )
    from numakube.api.resource_claims import AllocationResult, ResourceClaim
    from numakube.api.resource_slices import DeviceTaintRule
    from numakube.dra.allocator import Allocator
    from numakube.dra.device_places import DevicePlaces
    from numakube.dra.features import Features
    from numakube.dra.pools import CandidateDevice, DevicePool
    from numakube.scheduling.plugins.dynamic_resources.node_search import AttemptTime
    from numakube.scheduling.snapshot.cluster_objects import ClusterObjects, ObjectChanges
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo


# ------------------------------------------------------------------------------------------------
# Which extended resources claims serve in a cluster (KEP-5004), and the claim of one pod for them.
#
# Kubernetes 1.34 and 1.35 have the feature behind a gate. A server whose gate is off drops the
# names of extended resources from device classes, so a class that has kept one tells that the gate
# is on.

GATE: Final = "DRAExtendedResource"


class ServedResources:
    """The class that serves each extended resource, where the feature is on."""

    def __init__(self, *, on: bool, detects: bool) -> None:
        """Prepare for a cluster where the feature is *on*, or *detects* it from the classes."""
        self._on = on
        self._detects = detects
        self._sources: tuple[object, ...] = ()
        self._classes: Mapping[str, str] = {}

    def classes(self, objects: ClusterObjects) -> Mapping[str, str]:
        """Return the name of the class by resource; empty while the feature is off."""
        if not objects.device_classes:
            return {}
        sources = objects.device_classes, objects.device_classes.version
        if sources != self._sources:
            classes = list(objects.device_classes.values())
            named = any(one.spec.extended_resource_name for one in classes)
            on = self._on or (self._detects and named)
            self._classes = classes_by_resource(classes) if on else {}
            self._sources = sources
        return self._classes

    def add_claim(self, known: CycleClaims, pod: PodInfo, tracker: ClaimTracker) -> None:
        """Add the claim for extended resources if a class serves one of those that *pod* wants."""
        classes = self.classes(known.objects)
        if not any(
            amount and is_served_name(name) and name in classes
            for name, amount in pod.requests.items()
        ):
            return
        claim = pod_claim(pod.pod, tracker.all(known.objects), uid=f"extended-{pod.uid}")
        known.extended = len(known.claims)
        known.extended_uid = claim.metadata.uid
        known.claims.append(claim)


# ------------------------------------------------------------------------------------------------
# What the scheduler knows of claims: the server's objects, its own writes, what is in flight.


class ClaimTracker:
    """Claims of the whole cluster as allocation has to see them.

    Our own writes stand in for the server's objects until those are newer. An allocation is in
    flight from `signal` to `settle`.
    """

    def __init__(self, features: Features) -> None:
        self._features = features
        self._assumed: Assumed[ResourceClaim] = Assumed()
        self._in_flight: dict[str, ResourceClaim] = {}
        self._state = AllocatedState()
        self._changes: ObjectChanges | None = None
        self._uids: dict[str, str] = {}
        self._held: dict[str, AllocationResult] = {}
        self._counted: dict[str, AllocationResult] = {}
        self._touched: set[str] = set()
        self._inventory: DeviceInventory | None = None
        self._offered: tuple[object, ...] = ()
        self._kinds: NodeKinds | None = None

    def find(self, objects: ClusterObjects, key: str) -> ResourceClaim | None:
        """Return the latest version of the claim with that key."""
        known = objects.resource_claims.get(key)
        return None if known is None else self._assumed.latest(known)

    def all(self, objects: ClusterObjects) -> Iterator[ResourceClaim]:
        """Yield the latest version of every claim."""
        return map(self._assumed.latest, objects.resource_claims.values())

    def pending(self, uid: str) -> AllocationResult | None:
        """Return the allocation of a claim that is in flight."""
        claim = self._in_flight.get(uid)
        return None if claim is None else claim.status.allocation

    def signal(self, uid: str, allocated: ResourceClaim) -> None:
        """Take note that *allocated* is going to be written."""
        self._in_flight[uid] = allocated
        self._touched.add(uid)

    def settle(self, uid: str) -> bool:
        """End the flight of an allocation; tell whether there was one."""
        self._touched.add(uid)
        return self._in_flight.pop(uid, None) is not None

    def assume(self, claim: ResourceClaim) -> None:
        """Take *claim*, as the server returned it, for the latest version."""
        self._assumed.assume(claim)
        self._note(claim)

    def restore(self, claim: ResourceClaim) -> None:
        """Go back to what the server tells of *claim*."""
        self._assumed.restore(claim)
        self._note(claim)

    def _note(self, claim: ResourceClaim) -> None:
        if self._changes is not None:
            self._changes.add(claim.metadata.key)

    def state(self, objects: ClusterObjects) -> AllocatedState:
        """Return what is allocated or in flight now."""
        changes = self._changes
        if changes is None or changes.followed is not objects.resource_claims:
            changes = self._follow(objects)
        for key in changes.take():
            self._read(objects, key)
        for uid in self._touched:
            claim = self._in_flight.get(uid)
            flying = claim.status.allocation if claim is not None else None
            self._count(uid, flying or self._held.get(uid))
        self._touched.clear()
        return self._state

    def _follow(self, objects: ClusterObjects) -> ObjectChanges:
        """Begin again with the claims of *objects*."""
        self._touched.update(self._counted)
        self._held.clear()
        self._uids.clear()
        changes = self._changes = objects.resource_claims.follow()
        return changes

    def _read(self, objects: ClusterObjects, key: str) -> None:
        """Take over what one claim holds."""
        before = self._uids.pop(key, None)
        if before is not None:
            self._held.pop(before, None)
            self._touched.add(before)
        known = objects.resource_claims.get(key)
        if known is None:
            self._assumed.forget(key)
            return
        claim = self._assumed.latest(known)
        if claim.status.allocation is not None:
            uid = self._uids[key] = claim.metadata.uid
            self._held[uid] = claim.status.allocation
            self._touched.add(uid)

    def _count(self, uid: str, wanted: AllocationResult | None) -> None:
        """Let what the claim with that uid holds count as *wanted*."""
        counted = self._counted.pop(uid, None)
        if wanted is not None:
            self._counted[uid] = wanted
        if counted == wanted:
            return
        sharing = self._features.consumable_capacity
        if counted is not None:
            self._state.remove(counted, sharing=sharing)
            self._tell_kinds(counted)
        if wanted is not None:
            self._state.add(wanted, sharing=sharing)
            self._tell_kinds(wanted)

    def _tell_kinds(self, allocation: AllocationResult) -> None:
        if self._kinds is not None:
            for result in allocation.devices.results:
                self._kinds.pool_changed(PoolId(result.driver, result.pool))

    def kinds(self, objects: ClusterObjects) -> NodeKinds:
        """Return the kinds of nodes, for what is offered and allocated now."""
        inventory, state = self.inventory(objects), self.state(objects)
        if self._kinds is None or self._kinds.is_worn:
            self._kinds = NodeKinds(inventory, state)
        return self._kinds

    def inventory(self, objects: ClusterObjects) -> DeviceInventory:
        """Return the devices on offer, with the taints of rules; kept while they are the same."""
        slices, rules = objects.resource_slices, objects.device_taint_rules
        offered = slices, slices.version, rules, rules.version
        if self._inventory is None or offered != self._offered:
            tainted = with_taints(slices.values(), self._rules(objects))
            self._inventory = DeviceInventory(tainted, self._features)
            self._offered = offered
            self._kinds = None
        return self._inventory

    def _rules(self, objects: ClusterObjects) -> list[DeviceTaintRule]:
        if not (self._features.device_taints and self._features.device_taint_rules):
            return []
        return list(objects.device_taint_rules.values())


# ------------------------------------------------------------------------------------------------
# The claims of one pod during one scheduling cycle, and what was found for them on each node.


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
    alike: Sequence[DevicePool] | None = None


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
    inventory: DeviceInventory | None = None
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

    def numa_nodes(self, candidate: CandidateDevice, node: NodeInfo) -> frozenset[int]:
        """Return the NUMA nodes of *node* that a device is local to; none if not known."""
        topology = node.numa.topology if node.numa is not None else None
        # A PCI address means something on the machine of the device alone.
        is_local = node.name in (candidate.slice.spec.node_name, candidate.device.node_name)
        pci = topology.pci if topology is not None and is_local else None
        return self.places.numa_nodes(candidate.device, candidate.id.driver, pci)

    def pcie_root(self, candidate: CandidateDevice) -> str | None:
        """Return the PCIe root complex of a device; None if its driver does not tell it."""
        return self.places.pcie_root(candidate.device, candidate.id.driver)


CYCLE_CLAIMS: Final = StateKey[CycleClaims]("DynamicResources")
