"""The devices of one node for the claims of one pod: which of them are on given NUMA nodes.

A device may be local to several NUMA nodes: it is on given ones if it is local to one of them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final, TypeAlias

from msgspec.structs import replace

from numakube.dra.device_ids import AllocationError, DeviceId
from numakube.dra.requests import asks_for_all
from numakube.dra.search_time import SearchStopped

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Container, Hashable, Iterator, Mapping

    from numakube.api.resource_claims import AllocationResult
    from numakube.dra.allocator import Accepts, Within
    from numakube.dra.pools import Candidate
    from numakube.scheduling.plugins.dynamic_resources.cycle_claims import (
        CycleClaims,
        NodeAllocation,
    )
    from numakube.scheduling.snapshot.nodes import NodeInfo

Nodes: TypeAlias = "frozenset[int]"
Near: TypeAlias = "Mapping[int, Nodes]"
"""The NUMA nodes that claims should be on, by their positions among the pod's claims."""

NOWHERE: Final[Nodes] = frozenset()


@dataclass(frozen=True, slots=True)
class Held:
    """The NUMA nodes that the devices of an allocated claim are local to, device by device."""

    index: int
    places: tuple[Nodes, ...]

    @property
    def nodes(self) -> Nodes:
        """All of them."""
        return frozenset[int]().union(*self.places)

    def is_near(self, nodes: Nodes) -> bool:
        """Tell whether every device is local to one of *nodes*."""
        return all(at & nodes for at in self.places)


class NearDevices:
    """Allocates devices on some NUMA nodes only, and knows where allocated ones are.

    Attributes:
        stopped: whether a search had to stop early.
    """

    def __init__(self, known: CycleClaims, node: NodeInfo) -> None:
        self._known = known
        self._node = node
        self.stopped = False
        self._numa_nodes: dict[int, Nodes] = {}

    def allocate(
        self,
        found: NodeAllocation,
        near: Near,
        accepts: Accepts | None = None,
        without: Container[DeviceId] = (),
    ) -> tuple[AllocationResult, ...] | None:
        """Return allocations on the NUMA nodes *near* for the claims that have none.

        Returns:
            ``None`` if there are none on the node.
        """
        positions = [index for index, _ in self._known.to_allocate()]
        if not positions or not found.allocations:
            return found.allocations

        def within(position: int, candidate: Candidate) -> bool:
            if candidate.id in without:
                return False
            at, nodes = self._local(candidate), near.get(positions[position])
            return not at or nodes is None or bool(at & nodes)

        closest = self._allocate(found, within, accepts)
        if closest is None or not any(asks_for_all(one) for _, one in self._known.to_allocate()):
            return closest
        # Requests for all devices have no choice.
        places = zip(positions, map(self._places, closest), strict=True)
        found_near = (
            index not in near or Held(index, places).is_near(near[index])
            for index, places in places
        )
        return closest if all(found_near) else None

    def available(self) -> list[DeviceId]:
        """Return the devices of the node that a claim may get."""
        allocator = self._known.allocator
        devices = allocator.devices(self._node.node) if allocator is not None else ()
        return [
            one.id for one, is_free in devices if is_free or one.device.allow_multiple_allocations
        ]

    def numa_nodes(self, found: NodeAllocation) -> Nodes:
        """Return the NUMA nodes that all devices in *found* are local to, or else some of them."""
        places = [at for one in found.allocations for at in self._places(one)]
        return frozenset.intersection(*places) or frozenset.union(*places) if places else NOWHERE

    def held_far(self, near: Near) -> Held | None:
        """Return the first allocated claim that has devices on other NUMA nodes than *near*."""
        for held in self.held:
            if held.index in near and not held.is_near(near[held.index]):
                return held
        return None

    def together(self, found: NodeAllocation) -> NodeAllocation:
        """Return devices on one PCIe root or else one NUMA node: the fullest that has room.

        If the pod's other claims have devices, those places come first.
        """
        allocator = self._known.allocator
        if allocator is None or not found.allocations:
            return found
        free = [one for one, is_free in allocator.devices(self._node.node) if is_free]
        held = [self._candidates[one] for one in self._held_devices() if one in self._candidates]
        several = sum(len(one.devices.results) for one in found.allocations) + len(held) > 1
        for place in (self._roots, self._local) if several else (self._local,):
            counts = Counter(at for one in free for at in place(one))
            others = {at for one in held for at in place(one)}
            for wanted in sorted(counts, key=lambda at: (at not in others, counts[at], str(at))):
                closest = self._allocate(found, _at(place, wanted))
                if closest is not None:
                    return replace(found, allocations=closest, alike=None)
        return found

    def _allocate(
        self, found: NodeAllocation, within: Within, accepts: Accepts | None = None
    ) -> tuple[AllocationResult, ...] | None:
        known = self._known
        if known.allocator is None:
            return None
        claims = [
            found.extended if index == known.extended and found.extended is not None else claim
            for index, claim in known.to_allocate()
        ]
        try:
            closest = known.allocator.allocate(self._node.node, claims, within, accepts)
        except AllocationError:
            return None
        except SearchStopped:
            self.stopped = True
            return None
        return None if closest is None else tuple(closest)

    def _local(self, candidate: Candidate) -> Nodes:
        key = id(candidate)
        if key not in self._numa_nodes:
            self._numa_nodes[key] = self._known.numa_nodes(candidate, self._node)
        return self._numa_nodes[key]

    def _roots(self, candidate: Candidate) -> Collection[str]:
        root = self._known.pcie_root(candidate)
        return () if root is None else (root,)

    def _places(self, allocation: AllocationResult) -> tuple[Nodes, ...]:
        """Return where the devices of *allocation* are, those of which it is known."""
        devices = (self._candidates.get(one) for one in _devices(allocation))
        places = (self._local(one) for one in devices if one is not None)
        return tuple(at for at in places if at)

    @cached_property
    def held(self) -> tuple[Held, ...]:
        """The pod's claims that are allocated, and where."""
        return tuple(
            Held(index, self._places(claim.status.allocation))
            for index, claim in enumerate(self._known.claims)
            if claim.status.allocation is not None
        )

    def _held_devices(self) -> Iterator[DeviceId]:
        for claim in self._known.claims:
            if claim.status.allocation is not None:
                yield from _devices(claim.status.allocation)

    @cached_property
    def _candidates(self) -> dict[DeviceId, Candidate]:
        inventory = self._known.inventory
        try:
            pools = inventory.pools_for(self._node.node) if inventory is not None else ()
        except AllocationError:
            return {}
        return {one.id: one for pool in pools for one in pool.candidates}


def _devices(allocation: AllocationResult) -> Iterator[DeviceId]:
    """Yield the devices of *allocation*; who only administers one need not be near."""
    for one in allocation.devices.results:
        if not one.admin_access:
            yield DeviceId(one.driver, one.pool, one.device)


def _at(place: Callable[[Candidate], Collection[Hashable]], wanted: Hashable) -> Within:
    return lambda _, candidate: wanted in place(candidate)
