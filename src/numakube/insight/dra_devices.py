"""The devices of DRA drivers on each node: where they are, who holds them, and which are free.

    DraDevices(objects, minor=37).on(node)

Devices are on a node if their slice, or they themselves, name it. Those that several nodes reach
over a network are on none of them, and an incomplete pool has none. Who holds a
device is read from the allocations of claims; one with admin access holds nothing.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from numakube.dra.allocated_state import PoolCounters, state_of
from numakube.dra.device_ids import AllocationError, DeviceId
from numakube.dra.device_places import KNOWN_PLACES
from numakube.dra.features import features_of
from numakube.dra.node_parts import resource_of
from numakube.dra.pools import DeviceInventory, repelling_taint, with_taints
from numakube.errors import InvalidValue
from numakube.scheduling.matching import taint_text
from numakube.values.quantity import parse_quantity
from numakube.values.resources import amount_of, is_extended

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from numakube.api.nodes import Node
    from numakube.api.resource_claims import AllocationResult, ResourceClaim
    from numakube.api.resource_slices import Device
    from numakube.dra.allocated_state import AllocatedState
    from numakube.dra.pools import CandidateDevice, DevicePool
    from numakube.scheduling.snapshot.cluster_objects import ClusterObjects
    from numakube.scheduling.snapshot.zone_belief import ZoneUse
    from numakube.topology.numa_zones import ZoneView
    from numakube.topology.pci_places import PciPlaces
    from numakube.topology.topology_view import NodeTopology


_RESOURCE_NAME: Final = "k8s.cni.cncf.io/resourceName"


@dataclass(frozen=True, slots=True, kw_only=True)
class DraDevice:
    """One device of a node.

    Attributes:
        zones: the NUMA nodes that it is equally local to; none if neither the driver nor the node's
            report tells them.
        claims: ``namespace/name`` of the claims that hold it, or a share of it.
        pods: ``namespace/name`` of the pods that those claims are reserved for.
        pci: the address of its PCI function; empty if the driver does not publish it.
        part_of: the resource of the node that it is a part of, such as ``cpu``; else empty.
        pool_resource: what it would be called by a device plugin, if its driver tells that.
        size: how much of that it is, in base units, and ``used`` how much claims have.
        is_free: whether a claim could get it, or one more share of it.
        trouble: why no further claim gets it: a taint, or a pool that cannot be used.
    """

    id: DeviceId
    zones: tuple[int, ...] = ()
    claims: tuple[str, ...] = ()
    pods: tuple[str, ...] = ()
    is_free: bool = True
    trouble: str = ""
    pci: str = ""
    part_of: str = ""
    pool_resource: str = ""
    size: int = 0
    used: int = 0

    @property
    def called(self) -> str:
        """What people know such devices by: a resource, or else their driver."""
        return self.pool_resource or self.id.driver

    @property
    def holders(self) -> tuple[str, ...]:
        """The pods that use it; claims that no pod uses stand for themselves."""
        return self.pods or tuple(f"claim {key}" for key in self.claims)

    @property
    def is_blocked(self) -> bool:
        """Whether no claim holds it, but devices that it shares counters with leave too little."""
        return not self.is_free and not self.claims and not self.trouble

    def without(self, pods: Collection[str]) -> DraDevice:
        """Return the device after *pods* are gone; claims that no pod uses are deallocated."""
        left = tuple(key for key in self.pods if key not in pods)
        if left == self.pods:
            return self
        if left:
            return replace(self, pods=left)
        return replace(self, pods=(), claims=(), is_free=not self.trouble)


class DraDevices:
    """All devices of a cluster, read node by node when they are asked for."""

    def __init__(
        self,
        objects: ClusterObjects,
        *,
        minor: int,
        pci: Callable[[str], PciPlaces | None] = lambda _: None,
    ) -> None:
        """Read *objects*; *pci* tells what the report of a node says of PCI addresses."""
        self._objects = objects
        self._pci = pci
        self._features = features_of(minor=minor)
        self._found: dict[str, tuple[DraDevice, ...]] = {}

    def on(self, node: Node | None) -> tuple[DraDevice, ...]:
        """Return the devices of *node*, driver by driver."""
        if node is None or not self._objects.resource_slices:
            return ()
        name = node.metadata.name
        if name not in self._found:
            self._found[name] = self._read(node)
        return self._found[name]

    def _read(self, node: Node) -> tuple[DraDevice, ...]:
        try:
            return tuple(sorted(self._devices(node), key=lambda device: device.id.driver))
        except (AllocationError, InvalidValue):
            return ()  # a selector or an amount cannot be read; nothing is allocated from it either

    def _devices(self, node: Node) -> Iterator[DraDevice]:
        pools = self._inventory.pools_for(node)
        pci = self._pci(node.metadata.name)
        for pool in pools:
            counters = PoolCounters(pool, self._state) if pool.counter_sets else None
            for candidate in pool.candidates:
                if node.metadata.name in (
                    candidate.slice.spec.node_name,
                    candidate.device.node_name,
                ):
                    yield self._device(candidate, pool, counters, pci)

    def _device(
        self,
        one: CandidateDevice,
        pool: DevicePool,
        counters: PoolCounters | None,
        pci: PciPlaces | None,
    ) -> DraDevice:
        holders = self._holders.get(one.id, ())
        trouble = self._trouble(one, pool)
        return DraDevice(
            id=one.id,
            zones=tuple(sorted(KNOWN_PLACES.numa_nodes(one.device, one.id.driver, pci))),
            claims=tuple(claim.metadata.key for claim in holders),
            pods=tuple(dict.fromkeys(key for claim in holders for key in _users(claim))),
            is_free=not trouble and self._has_room(one, counters),
            trouble=trouble,
            pci=KNOWN_PLACES.pci_address(one.device, one.id.driver) or "",
            pool_resource=_pool_resource(one.device),
            **self._part(one),
        )

    def _part(self, one: CandidateDevice) -> dict[str, Any]:
        """Return of which resource the device is a part, how much it is, and how much is used."""
        resource = resource_of(one.device, one.id.driver)
        if not resource:
            return {}
        if not one.device.allow_multiple_allocations:
            size = _cpus_of(one.device)
            used = size if self._state.holds(one.id) else 0
        else:
            consumed = self._state.capacity.get(one.id, {}).values()
            offered = (capacity.value for capacity in one.device.capacity.values())
            size = sum(amount_of(resource, amount) for amount in offered)
            used = sum(amount_of(resource, str(amount)) for amount in consumed)
        return {"part_of": resource, "size": size, "used": used}

    def _trouble(self, one: CandidateDevice, pool: DevicePool) -> str:
        if pool.problem:
            return f"its pool is invalid: {pool.problem}"
        if pool.beyond:
            return f"its pool is not used: {pool.beyond}"
        found = repelling_taint(one.device) if self._features.device_taints else None
        return "" if found is None else f"taint {taint_text(found)}"

    def _has_room(self, one: CandidateDevice, counters: PoolCounters | None) -> bool:
        """Tell whether the device, or one more share of it, can be allocated."""
        if one.device.allow_multiple_allocations:
            used = self._state.capacity.get(one.id, {})
            return all(
                name not in used or used[name] < parse_quantity(capacity.value)
                for name, capacity in one.device.capacity.items()
            )
        if self._state.holds(one.id):
            return False
        if counters is None or not one.device.consumes_counters:
            return True
        fits = counters.consume(one.device)
        if fits:
            counters.release(one.device)
        return fits

    @cached_property
    def _inventory(self) -> DeviceInventory:
        rules = self._features.device_taints and self._features.device_taint_rules
        taints = list(self._objects.device_taint_rules.values()) if rules else []
        return DeviceInventory(
            with_taints(self._objects.resource_slices.values(), taints), self._features
        )

    @cached_property
    def _state(self) -> AllocatedState:
        allocations = (allocation for _, allocation in self._allocated())
        return state_of(allocations, sharing=self._features.consumable_capacity)

    @cached_property
    def _holders(self) -> dict[DeviceId, list[ResourceClaim]]:
        found: dict[DeviceId, list[ResourceClaim]] = {}
        for claim, allocation in self._allocated():
            for result in allocation.devices.results:
                if not result.admin_access:
                    device = DeviceId(result.driver, result.pool, result.device)
                    found.setdefault(device, []).append(claim)
        return found

    def _allocated(self) -> Iterator[tuple[ResourceClaim, AllocationResult]]:
        for claim in self._objects.resource_claims.values():
            if claim.status.allocation is not None:
                yield claim, claim.status.allocation


def _pool_resource(device: Device) -> str:
    """Return the resource that a device is told to Multus as; empty if that is no resource."""
    attribute = device.attributes.get(_RESOURCE_NAME)
    name = attribute.string if attribute is not None else None
    return name if name and is_extended(name) else ""


def _cpus_of(device: Device) -> int:
    """Return the CPUs of a core, in thousandths."""
    attribute = device.attributes.get("dra.cpu/numCPUs")
    return 1000 * (attribute.integer or 1) if attribute is not None else 1000


def _users(claim: ResourceClaim) -> Iterator[str]:
    for user in claim.status.reserved_for:
        if user.resource == "pods":
            yield f"{claim.metadata.namespace}/{user.name}"


def amounts_of_devices(devices: Iterable[DraDevice]) -> tuple[dict[str, int], dict[str, int]]:
    """Return how many of *devices* claims may have, and how many are free, by what they are called.

    What is a part of the node counts by the amounts of its resource.
    """
    allocatable: Counter[str] = Counter()
    free: Counter[str] = Counter()
    for device in devices:
        if device.part_of:
            allocatable[device.part_of] += device.size
            free[device.part_of] += device.size - device.used
        elif not device.trouble or device.claims:
            allocatable[device.called] += 1
            free[device.called] += device.is_free
    return dict(allocatable), dict(free)


def with_dra_devices(view: NodeTopology, devices: Sequence[DraDevice]) -> NodeTopology:
    """Return *view* with *devices* in its zones; what they are called stands for a resource."""
    return replace(view, zones=zones_with_devices(view.zones, devices)) if devices else view


def zones_with_devices(
    zones: tuple[ZoneView, ...], devices: Sequence[DraDevice]
) -> tuple[ZoneView, ...]:
    """Return *zones* with those of *devices* that are local to each; some are in several."""
    found = []
    for zone in zones if devices else ():
        allocatable, free = amounts_of_devices(
            device for device in devices if zone.id in device.zones
        )
        found.append(
            replace(
                zone,
                capacity=_with(zone.capacity, allocatable),
                allocatable=_with(zone.allocatable, allocatable),
                available=_with(zone.available, free),
            )
        )
    return tuple(found) or zones


def _with(amounts: Mapping[str, int], devices: Mapping[str, int]) -> dict[str, int]:
    """Return amounts of a zone with those of devices, beside which device plugins may have some."""
    more = {
        name: count + amounts.get(name, 0) * is_extended(name) for name, count in devices.items()
    }
    return {**amounts, **more}


def zones_needed(claimed: Sequence[DraDevice], devices: Sequence[DraDevice]) -> int:
    """Return the fewest NUMA nodes with so many devices, as if all devices were free."""
    needed = 0
    for name, count in Counter(device.called for device in claimed if device.zones).items():
        there = [device.zones for device in devices if device.called == name and device.zones]
        zones = 0
        while count > 0 and there:
            zone, found = _fullest(there)
            there = [one for one in there if zone not in one]
            zones, count = zones + 1, count - found
        needed = max(needed, zones)
    return needed


def zones_of_devices(devices: Iterable[DraDevice], beside: Collection[int] = ()) -> set[int]:
    """Return the zones of *devices*, as few as they can be told to be in.

    One that is local to several counts for a zone *beside* which it is used, if it is local to it.
    """
    zones: set[int] = set()
    elsewhere: list[tuple[int, ...]] = []
    for device in devices:
        near = [zone for zone in device.zones if zone in beside]
        if near:
            zones.add(near[0])
        elif device.zones:
            elsewhere.append(device.zones)
    while elsewhere:
        zone, _ = _fullest(elsewhere)
        zones.add(zone)
        elsewhere = [one for one in elsewhere if zone not in one]
    return zones


def _fullest(places: Iterable[tuple[int, ...]]) -> tuple[int, int]:
    """Return the zone that most are local to, the lowest of equals, and how many are."""
    counts = Counter(zone for zones in places for zone in zones)
    return min(counts.items(), key=lambda item: (-item[1], item[0]))


def counted_again(
    devices: Iterable[DraDevice], zones: Collection[int]
) -> tuple[dict[str, int], dict[str, int]]:
    """Return how often *zones* count devices that others of them count too: all, and free ones."""
    known = ((device, [zone for zone in device.zones if zone in zones]) for device in devices)
    return amounts_of_devices(one for one, again in known for _ in again[1:])


def amounts_outside(
    devices: Iterable[DraDevice], zones: Collection[int]
) -> tuple[dict[str, int], dict[str, int]]:
    """Return the amounts of *devices* in none of *zones*, as far as their drivers tell."""
    return amounts_of_devices(
        device for device in devices if not any(zone in zones for zone in device.zones)
    )


def use_with_devices(use: ZoneUse, devices: Iterable[DraDevice]) -> ZoneUse:
    """Return what a pod holds by zones, with *devices* of its claims."""
    found = {zones: dict(amounts) for zones, amounts in use.items()}
    own = {zone for zones in use for zone in zones}
    for device in (one for one in devices if not one.part_of):
        held = found.setdefault(tuple(zones_of_devices([device], own)), {})
        held[device.called] = held.get(device.called, 0) + 1
    return found
