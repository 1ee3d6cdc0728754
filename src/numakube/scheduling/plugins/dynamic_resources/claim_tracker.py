"""What the scheduler knows of claims: the server's objects, its own writes, what is in flight."""

from __future__ import annotations

from operator import is_
from typing import TYPE_CHECKING

from numakube.dra.allocated_state import AllocatedState
from numakube.dra.pools import Inventory
from numakube.dra.taint_rules import with_taints
from numakube.scheduling.plugins.volumes.volume_claims import Assumed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.api.resource_claims import AllocationResult, ResourceClaim
    from numakube.api.resource_slices import DeviceTaintRule
    from numakube.dra.features import Features
    from numakube.scheduling.snapshot.objects import ClusterObjects


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
        self._counted: dict[str, AllocationResult] = {}
        self._inventory: Inventory | None = None
        self._sources: list[object] = []

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

    def settle(self, uid: str) -> bool:
        """End the flight of an allocation; tell whether there was one."""
        return self._in_flight.pop(uid, None) is not None

    def assume(self, claim: ResourceClaim) -> None:
        """Take *claim*, as the server returned it, for the latest version."""
        self._assumed.assume(claim)

    def restore(self, claim: ResourceClaim) -> None:
        """Go back to what the server tells of *claim*."""
        self._assumed.restore(claim)

    def state(self, objects: ClusterObjects) -> AllocatedState:
        """Return what is allocated or in flight now."""
        self._assumed.keep(objects.resource_claims)
        wanted: dict[str, AllocationResult] = {
            claim.metadata.uid: claim.status.allocation
            for claim in self.all(objects)
            if claim.status.allocation is not None
        }
        for uid, claim in self._in_flight.items():
            if claim.status.allocation is not None:
                wanted[uid] = claim.status.allocation
        sharing = self._features.consumable_capacity
        for uid in [uid for uid in self._counted if wanted.get(uid) is not self._counted[uid]]:
            self._state.remove(self._counted.pop(uid), sharing=sharing)
        for uid, allocation in wanted.items():
            if uid not in self._counted:
                self._counted[uid] = allocation
                self._state.add(allocation, sharing=sharing)
        return self._state

    def inventory(self, objects: ClusterObjects) -> Inventory:
        """Return the devices on offer, with the taints of rules; kept while they are the same."""
        rules = self._rules(objects)
        sources: list[object] = [*objects.resource_slices.values(), *rules]
        same = len(sources) == len(self._sources) and all(map(is_, sources, self._sources))
        if self._inventory is None or not same:
            slices = with_taints(objects.resource_slices.values(), rules)
            self._inventory = Inventory(slices, self._features)
            self._sources = sources
        return self._inventory

    def _rules(self, objects: ClusterObjects) -> list[DeviceTaintRule]:
        if not (self._features.device_taints and self._features.device_taint_rules):
            return []
        return list(objects.device_taint_rules.values())
