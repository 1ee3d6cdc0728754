"""Pools of devices as one node sees them: generations, completeness, validity and order.

Follows ``GatherPools`` of kube-scheduler 1.37. Slices that no longer count are ignored. A pool of
which slices are missing is incomplete, one that contradicts itself is invalid; nothing is allocated
from either, and both stay in the list, because requests for all devices fail on them.

The same goes for a pool with a device that takes from a counter what a request asks for, and not a
fixed amount (KEP-5941, beta in 1.38 by its milestones). Where a claim keeps what it took is not
settled upstream. A scheduler that does not know the field takes such a device to consume nothing,
and promises the counter many times over.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from numakube.dra.device_ids import AllocationError, DeviceId, PoolId
from numakube.dra.node_selection import reaches

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numakube.api.nodes import Node
    from numakube.api.resource_slices import CounterSet, Device, ResourceSlice
    from numakube.dra.features import Features


@dataclass(slots=True, eq=False)
class Candidate:
    """A device where it is offered.

    Attributes:
        verdicts: those of selectors that judged it before, or that took too much to say why; equal
            devices of nodes share them.
    """

    id: DeviceId
    device: Device
    slice: ResourceSlice
    pool: Pool
    verdicts: dict[str, bool | AllocationError] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Pool:
    """A pool of devices as one node sees it.

    Attributes:
        candidates: devices that the node can reach, in order.
        elsewhere: devices of slices that the node cannot reach; they may consume counters, too.
        problem: why the pool is invalid; empty if it is not.
        beyond: what it uses that is not known how to count; empty if there is nothing.
    """

    id: PoolId
    candidates: tuple[Candidate, ...] = ()
    elsewhere: tuple[tuple[DeviceId, Device], ...] = ()
    counter_sets: Mapping[str, CounterSet] = field(default_factory=dict)
    incomplete: bool = False
    problem: str = ""
    beyond: str = ""

    @property
    def usable(self) -> bool:
        """Whether devices can be allocated from it."""
        return not self.incomplete and not self.problem and not self.beyond


class Inventory:
    """All slices of a cluster, with the order in which the API lists them, found by node and pool.

    Pools are built when a node is first asked for and kept for as long as the slices are the same.
    """

    def __init__(self, slices: Iterable[ResourceSlice], features: Features) -> None:
        self.slices = tuple(slices)
        self.features = features
        self._local: dict[str, list[int]] = {}
        self._shared: list[int] = []
        self._by_pool: dict[PoolId, list[ResourceSlice]] = {}
        self._kinds: dict[str, tuple[list[Pool], int | None]] = {}
        self._firsts: dict[bytes, tuple[int, Sequence[Pool]]] = {}
        self._pools: dict[str, tuple[Mapping[str, str], list[Pool]]] = {}
        for position, one in enumerate(self.slices):
            self._by_pool.setdefault(pool_id(one), []).append(one)
            # The stable allocator lets every node see the counters of all others.
            if one.spec.node_name and not (features.stable and one.spec.shared_counters):
                self._local.setdefault(one.spec.node_name, []).append(position)
            else:
                self._shared.append(position)

    @cached_property
    def counts_node_resources(self) -> bool:
        """Whether any device stands for resources of its node, or takes some (KEP-5517)."""
        return self.features.node_allocatable_resources and any(
            device.node_allocatable_resources for one in self.slices for device in one.spec.devices
        )

    def pools_for(self, node: Node) -> list[Pool]:
        """Return the pools that *node* sees, in the order in which they are searched.

        Raises:
            AllocationError: a node selector cannot be read.
        """
        labels = node.metadata.labels
        known = self._pools.get(node.metadata.name)
        if known is None or known[0] != labels:
            known = self._pools[node.metadata.name] = (labels, self._gathered(node))
        return known[1]

    def _gathered(self, node: Node) -> list[Pool]:
        grouped = self._grouped(node)
        pools = [
            pool
            for identity, slices in grouped.items()
            if (pool := self._pool(identity, slices)) is not None
        ]
        if self.features.stable:
            return pools
        return sorted(pools, key=lambda pool: (_has_conditions(pool), pool.id))

    def kind_of(self, node: Node) -> int | None:
        """Return a number for nodes whose own devices differ in nothing but the names of pools.

        None means that the node reaches devices that are not its own.

        Raises:
            AllocationError: a node selector cannot be read.
        """
        pools = self.pools_for(node)
        known = self._kinds.get(node.metadata.name)
        if known is None or known[0] is not pools:
            known = self._kinds[node.metadata.name] = pools, self._kind(pools)
        return known[1]

    def _kind(self, pools: Sequence[Pool]) -> int | None:
        foreign = any(not one.slice.spec.node_name for pool in pools for one in pool.candidates)
        if foreign or any(pool.elsewhere for pool in pools):
            return None
        kind = msgspec.json.encode([_told(pool) for pool in pools])
        number, first = self._firsts.setdefault(kind, (len(self._firsts), pools))
        for pool, equal in zip(pools, first, strict=True):
            for one, other in zip(pool.candidates, equal.candidates, strict=True):
                one.verdicts = other.verdicts
        return number

    def _grouped(self, node: Node) -> dict[PoolId, list[ResourceSlice]]:
        """Return the newest slices of each pool among those that *node* can reach."""
        grouped: dict[PoolId, list[ResourceSlice]] = {}
        for one in self._considered(node):
            if not self._is_known(one) or not self._is_relevant(one, node):
                continue
            identity = pool_id(one)
            found = grouped.get(identity)
            generation = one.spec.pool.generation
            if not found or generation > found[0].spec.pool.generation:
                grouped[identity] = [one]
            elif generation == found[0].spec.pool.generation:
                found.append(one)
        return grouped

    def _considered(self, node: Node) -> Iterator[ResourceSlice]:
        """Yield the slices that *node* may reach: in the API's order, or its own ones first."""
        positions = [*self._local.get(node.metadata.name, ()), *self._shared]
        if self.features.stable:
            positions.sort()
        return map(self.slices.__getitem__, positions)

    def _is_known(self, one: ResourceSlice) -> bool:
        spec = one.spec
        if not self.features.partitionable_devices and (
            spec.per_device_node_selection is not None or spec.shared_counters
        ):
            return False
        return self.features.device_compatibility_groups or not uses_groups(one)

    def _is_relevant(self, one: ResourceSlice, node: Node) -> bool:
        spec = one.spec
        if self.features.stable and spec.shared_counters:
            return True
        if spec.node_name or spec.all_nodes or spec.node_selector is not None:
            return _reaches(one, node)
        if not spec.per_device_node_selection:
            return False
        return any(_device_reaches(device, one, node) for device in spec.devices)

    def _pool(self, identity: PoolId, slices: list[ResourceSlice]) -> Pool | None:
        wanted = slices[0].spec.pool.resource_slice_count
        if len(slices) == wanted:
            return self._built(identity, slices, None)
        generation = slices[0].spec.pool.generation
        every = [one for one in self._by_pool[identity] if one.spec.pool.generation >= generation]
        if any(one.spec.pool.generation > generation for one in every):
            return None
        if not self.features.device_compatibility_groups:
            every = [one for one in every if not uses_groups(one)]
        if len(every) != wanted:
            return Pool(identity, incomplete=True)
        return self._built(identity, slices, every)

    def _built(
        self, identity: PoolId, slices: list[ResourceSlice], every: list[ResourceSlice] | None
    ) -> Pool:
        if not self.features.stable:
            slices = sorted(slices, key=lambda one: one.metadata.name)
        own = {one.metadata.name for one in slices}
        others = [one for one in every or () if one.metadata.name not in own]
        partitioned = self.features.partitionable_devices
        with_counters = [one for one in (*slices, *others) if one.spec.shared_counters]
        pool = Pool(identity)
        pool.candidates = tuple(
            Candidate(DeviceId(*identity, device.name), device, one, pool)
            for one in slices
            if not (partitioned and one.spec.shared_counters)
            for device in one.spec.devices
        )
        pool.elsewhere = tuple(
            (DeviceId(*identity, device.name), device)
            for one in others
            if not (partitioned and one.spec.shared_counters)
            for device in one.spec.devices
        )
        pool.problem = _problem(pool, with_counters if partitioned else None)
        pool.beyond = _beyond(pool)
        return pool


def pool_id(one: ResourceSlice) -> PoolId:
    """Return the pool that a slice belongs to."""
    return PoolId(one.spec.driver, one.spec.pool.name)


def uses_groups(one: ResourceSlice) -> bool:
    """Tell whether any device of the slice names compatibility groups."""
    return any(
        consumption.compatibility_groups
        for device in one.spec.devices
        for consumption in device.consumes_counters
    )


def _reaches(one: ResourceSlice, node: Node) -> bool:
    try:
        return reaches(one.spec, node)
    except AllocationError as error:
        raise AllocationError(
            "gather pool information: failed to perform node selection for slice "
            f"{one.metadata.name}: {error}"
        ) from None


def _device_reaches(device: Device, one: ResourceSlice, node: Node) -> bool:
    try:
        return reaches(device, node)
    except AllocationError as error:
        raise AllocationError(
            "gather pool information: failed to perform node selection for device "
            f"{device.name} in slice {one.metadata.name}: {error}"
        ) from None


def _has_conditions(pool: Pool) -> bool:
    return pool.usable and any(
        candidate.device.binding_conditions is not None for candidate in pool.candidates
    )


def _problem(pool: Pool, with_counters: list[ResourceSlice] | None) -> str:
    """Return what is wrong with *pool*, and give it its counter sets."""
    seen: set[str] = set()
    for candidate in pool.candidates:
        if candidate.device.name in seen:
            return f"duplicate device name {candidate.device.name}"
        seen.add(candidate.device.name)
    if with_counters is None:
        return ""
    sets: dict[str, CounterSet] = {}
    for one in with_counters:
        for counters in one.spec.shared_counters:
            if counters.name in sets:
                return f"duplicate counter set name {counters.name}"
            sets[counters.name] = counters
    pool.counter_sets = sets
    devices = [candidate.device for candidate in pool.candidates]
    return _consumption_problem([*devices, *(device for _, device in pool.elsewhere)], sets)


def _consumption_problem(devices: list[Device], sets: Mapping[str, CounterSet]) -> str:
    for device in devices:
        for consumption in device.consumes_counters:
            counters = sets.get(consumption.counter_set)
            if counters is None:
                return f"counter set {consumption.counter_set} not found"
            for name in consumption.counters:
                if name not in counters.counters:
                    return f"counter {name} not found in counter set {counters.name}"
    return ""


def _beyond(pool: Pool) -> str:
    """Return which device makes the pool one that cannot be counted, if there is one."""
    devices = (*(one.device for one in pool.candidates), *(device for _, device in pool.elsewhere))
    for device in devices:
        for consumption in device.consumes_counters:
            for name, counter in consumption.counters.items():
                if counter.value_from is not None:
                    return (
                        f"device {device.name} takes from counter {name} of set "
                        f"{consumption.counter_set} what a request asks for (valueFrom, KEP-5941), "
                        "which is not supported"
                    )
    return ""


def _told(pool: Pool) -> tuple[object, ...]:
    """Return what counts of a pool of a node's own devices, besides its name."""
    devices = [one.device for one in pool.candidates]
    return pool.id.driver, pool.incomplete, pool.problem, pool.counter_sets, devices
