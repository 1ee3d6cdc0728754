"""The devices of one node for the claims of one pod: which of them are on given NUMA nodes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from msgspec.structs import replace

from numakube.dra.allocator import SearchStopped
from numakube.dra.device_ids import AllocationError, DeviceId
from numakube.dra.requests import asks_for_all

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Hashable, Iterator, Mapping

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


@dataclass(frozen=True, slots=True)
class Held:
    """The NUMA nodes that an allocated claim has devices on."""

    index: int
    nodes: Nodes


class NearDevices:
    """Allocates devices on some NUMA nodes only, and knows where allocated ones are.

    Attributes:
        stopped: whether a search had to stop early.
    """

    def __init__(self, known: CycleClaims, node: NodeInfo) -> None:
        self._known = known
        self._node = node
        self.stopped = False
        self._numa_nodes: dict[int, int | None] = {}

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
            at, nodes = self._numa_node(candidate), near.get(positions[position])
            return at is None or nodes is None or at in nodes

        closest = self._allocate(found, within, accepts)
        if closest is None or not any(asks_for_all(one) for _, one in self._known.to_allocate()):
            return closest
        # Requests for all devices have no choice.
        places = zip(positions, map(self._places, closest), strict=True)
        are_near = all(at <= near.get(index, at) for index, at in places)
        return closest if are_near else None

    def available(self) -> list[DeviceId]:
        """Return the devices of the node that a claim may get."""
        allocator = self._known.allocator
        devices = allocator.devices(self._node.node) if allocator is not None else ()
        return [
            one.id for one, is_free in devices if is_free or one.device.allow_multiple_allocations
        ]

    def numa_nodes(self, found: NodeAllocation) -> Nodes:
        """Return the NUMA nodes of the devices in *found*."""
        return frozenset[int]().union(*map(self._places, found.allocations))

    def held_far(self, near: Near) -> Held | None:
        """Return the first allocated claim that has devices on other NUMA nodes than *near*."""
        for held in self.held:
            if not held.nodes <= near.get(held.index, held.nodes):
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
        for place in (self._known.pcie_root, self._numa_node) if several else (self._numa_node,):
            counts = Counter(at for one in free if (at := place(one)) is not None)
            others = {place(one) for one in held}
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

    def _numa_node(self, candidate: Candidate) -> int | None:
        key = id(candidate)
        if key not in self._numa_nodes:
            self._numa_nodes[key] = self._known.numa_node(candidate, self._node)
        return self._numa_nodes[key]

    def _places(self, allocation: AllocationResult) -> Nodes:
        """Return the NUMA nodes of the devices of *allocation*, as far as they are known."""
        devices = (self._candidates.get(one) for one in _devices(allocation))
        places = (self._numa_node(one) for one in devices if one is not None)
        return frozenset(at for at in places if at is not None)

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


def _at(place: Callable[[Candidate], Hashable], wanted: Hashable) -> Within:
    return lambda _, candidate: place(candidate) == wanted
