"""What the scheduler knows of claims: the server's objects, its own writes, what is in flight.

All of it is kept up to date claim by claim: a cycle costs what has changed since the one before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.dra.alike_nodes import NodeKinds
from numakube.dra.allocated_state import AllocatedState
from numakube.dra.device_ids import PoolId
from numakube.dra.device_taints import with_taints
from numakube.dra.pools import Inventory
from numakube.scheduling.plugins.volumes.volume_claims import Assumed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.api.resource_claims import AllocationResult, ResourceClaim
    from numakube.api.resource_slices import DeviceTaintRule
    from numakube.dra.features import Features
    from numakube.scheduling.snapshot.cluster_objects import Changes, ClusterObjects


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
        self._changes: Changes | None = None
        self._uids: dict[str, str] = {}
        self._held: dict[str, AllocationResult] = {}
        self._counted: dict[str, AllocationResult] = {}
        self._touched: set[str] = set()
        self._inventory: Inventory | None = None
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

    def _follow(self, objects: ClusterObjects) -> Changes:
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

    def inventory(self, objects: ClusterObjects) -> Inventory:
        """Return the devices on offer, with the taints of rules; kept while they are the same."""
        slices, rules = objects.resource_slices, objects.device_taint_rules
        offered = slices, slices.version, rules, rules.version
        if self._inventory is None or offered != self._offered:
            tainted = with_taints(slices.values(), self._rules(objects))
            self._inventory = Inventory(tainted, self._features)
            self._offered = offered
            self._kinds = None
        return self._inventory

    def _rules(self, objects: ClusterObjects) -> list[DeviceTaintRule]:
        if not (self._features.device_taints and self._features.device_taint_rules):
            return []
        return list(objects.device_taint_rules.values())
