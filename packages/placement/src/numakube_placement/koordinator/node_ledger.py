"""Who holds what of a node whose NUMA placement our scheduler decides, and what is left.

A ledger is a value: it follows from the facts of the node and from the allotments of the pods on
it, which their annotations tell. Nothing is written to it; with a pod more or fewer it is another
ledger. Ledgers with equal `NodeLedger.key` give equal answers to every wish, whatever their nodes
and pods are called, so answers can be remembered by it.

Annotations are what people and other schedulers wrote, so `Usage`, to which one pod after the other
is added, does not trust them: CPUs and NUMA nodes that the node does not have count for nothing,
negative amounts are zero, and CPUs that two pods claim are held, no matter by whom.

CPU time is counted amplified: a NUMA node has its CPUs times the ratio, and a bound CPU takes the
ratio off it, because no other pod can run there.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from hashlib import blake2b
from types import MappingProxyType
from typing import TYPE_CHECKING

from numakube.topology.allotments import CpuExclusive
from numakube.values.cpuset import NO_CPUS, CpuMask
from numakube.values.resources import CPU, MILLI_PER_CPU, Amounts, add_amounts
from numakube_placement.koordinator.node_facts import NodeCapacity, amplified, sorted_zones

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numakube.topology.allotments import Allotment, HeldDevice, Share
    from numakube.values.numamask import NumaMask
    from numakube_placement.koordinator.node_facts import DevicePlace, NodeFacts


DeviceKey = tuple[str, int]
"""Type and minor of a device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceUse:
    """What is taken of one device, and which of its virtual functions."""

    amounts: Amounts = field(default_factory=lambda: MappingProxyType({}))
    vfs: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What is held.

    Attributes:
        cpus: bound CPUs.
        bound: how many bound CPUs each NUMA node has given, counted once for each holder.
        unbound: what else is taken of each NUMA node; its CPU time is that outside bound CPUs.
        single: NUMA nodes with a holder that is on one node alone.
        shared: NUMA nodes with a holder that is on several.
        exclusive: CPUs held under each exclusive policy.
    """

    cpus: CpuMask = NO_CPUS
    bound: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({}))
    unbound: Mapping[int, Amounts] = field(default_factory=lambda: MappingProxyType({}))
    single: NumaMask = 0
    shared: NumaMask = 0
    exclusive: Mapping[CpuExclusive, CpuMask] = field(default_factory=lambda: MappingProxyType({}))
    devices: Mapping[DeviceKey, DeviceUse] = field(default_factory=lambda: MappingProxyType({}))

    @classmethod
    def of(cls, capacity: NodeCapacity, allotments: Iterable[Allotment]) -> Usage:
        """Return what *allotments* take together."""
        usage = cls()
        for allotment in allotments:
            usage = usage.plus(capacity, allotment)
        return usage

    def plus(self, capacity: NodeCapacity, allotment: Allotment) -> Usage:
        """Return what is held with *allotment* as well."""
        share = allotment.total
        masks = [_mask(capacity, holder) for holder in _holders(allotment)]
        single = [mask for mask in masks if mask.bit_count() == 1]
        shared = [mask for mask in masks if mask.bit_count() > 1]
        bound = bound_of(capacity, share.cpus)
        return Usage(
            cpus=self.cpus | share.cpus,
            bound=Counter(self.bound) + Counter(bound),
            unbound=add_zones(self.unbound, unbound_of(capacity, share, bound)),
            single=_union(self.single, single),
            shared=_union(self.shared, shared),
            exclusive=_with_exclusive(self.exclusive, allotment),
            devices=_with_devices(self.devices, share.devices),
        )


def _holders(allotment: Allotment) -> Iterator[Share]:
    """Yield who counts for a NUMA node's status: containers where they were placed one by one."""
    if allotment.containers:
        yield from allotment.containers.values()
    else:
        yield allotment.total


def _mask(capacity: NodeCapacity, share: Share) -> NumaMask:
    """Return where *share* is: by its mask, else by its amounts, else by its CPUs."""
    mask = share.mask or sum(1 << zone for zone in capacity.zone_ids if zone in share.zones)
    if not mask and share.cpus:
        mask = sum(1 << zone for zone in bound_of(capacity, share.cpus))
    return mask & capacity.all_zones


def bound_of(capacity: NodeCapacity, cpus: CpuMask) -> dict[int, int]:
    """Return how many of *cpus* each NUMA node has; nodes without any are left out."""
    if not cpus:
        return {}
    counts = {zone: (cpus & of_zone).bit_count() for zone, of_zone in capacity.cpus_of_zone.items()}
    return {zone: count for zone, count in counts.items() if count}


def unbound_of(
    capacity: NodeCapacity, share: Share, bound: Mapping[int, int]
) -> dict[int, Amounts]:
    """Return what *share* takes besides its bound CPUs."""
    rest: dict[int, Amounts] = {}
    for zone, recorded in share.zones.items():
        if zone not in capacity.totals:
            continue
        amounts = {name: max(0, amount) for name, amount in recorded.items()}
        if CPU in amounts and zone in bound:
            amounts[CPU] = max(0, amounts[CPU] - bound[zone] * MILLI_PER_CPU)
        rest[zone] = amounts
    return rest


def add_zones(*parts: Mapping[int, Amounts]) -> Mapping[int, Amounts]:
    """Return the sum of *parts*, NUMA node by NUMA node."""
    first, *others = (part for part in parts if part) if any(parts) else ({},)
    total = dict(first)
    for part in others:
        for zone, amounts in part.items():
            total[zone] = add_amounts(total[zone], amounts) if zone in total else amounts
    return total


def _union(first: NumaMask, masks: Iterable[NumaMask]) -> NumaMask:
    for mask in masks:
        first |= mask
    return first


def _with_exclusive(
    held: Mapping[CpuExclusive, CpuMask], allotment: Allotment
) -> Mapping[CpuExclusive, CpuMask]:
    policy, cpus = allotment.cpu_exclusive, allotment.total.cpus
    if policy is CpuExclusive.NONE or not cpus:
        return held
    return {**held, policy: held.get(policy, NO_CPUS) | cpus}


def _with_devices(
    devices: Mapping[DeviceKey, DeviceUse], held: Iterable[HeldDevice]
) -> Mapping[DeviceKey, DeviceUse]:
    merged = dict(devices)
    for device in held:
        key = device.type, device.minor
        before = merged.get(key, DeviceUse())
        amounts = {name: max(0, amount) for name, amount in device.resources.items()}
        merged[key] = DeviceUse(
            amounts=add_amounts(before.amounts, amounts), vfs=before.vfs | frozenset(device.vfs)
        )
    return merged


class NumaStatus(Enum):
    """Who is on a NUMA node, for exclusive placement."""

    IDLE = "idle"
    SINGLE = "single"
    """Only holders that are on this node alone."""
    SHARED = "shared"
    """Some holder that is on other nodes as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeDevice:
    """What is left of a device.

    Attributes:
        left: of each of its resources, never negative; all zero for a device that is not healthy.
        vfs: virtual functions that no pod holds, ascending.
        in_use: whether a pod holds a part of it.
    """

    place: DevicePlace
    left: Amounts
    vfs: tuple[str, ...]
    in_use: bool


@dataclass(frozen=True)
class NodeLedger:
    """What pods hold of a node and what is left; make one with `NodeLedger.of`."""

    capacity: NodeCapacity
    allotments: Mapping[str, Allotment]

    @classmethod
    def of(cls, facts: NodeFacts, allotments: Mapping[str, Allotment]) -> NodeLedger:
        """Return the ledger of a node with the given *allotments* by pod UID."""
        return cls(NodeCapacity(facts), MappingProxyType(dict(allotments)))

    @property
    def facts(self) -> NodeFacts:
        """What is known of the node."""
        return self.capacity.facts

    def with_pod(self, uid: str, allotment: Allotment) -> NodeLedger:
        """Return the ledger in which pod *uid* holds *allotment* and nothing else."""
        ledger = NodeLedger(self.capacity, MappingProxyType({**self.allotments, uid: allotment}))
        if uid not in self.allotments and "usage" in self.__dict__:
            ledger.__dict__["usage"] = self.usage.plus(self.capacity, allotment)
        return ledger

    def without(self, uids: Iterable[str]) -> NodeLedger:
        """Return the ledger in which the pods *uids* hold nothing."""
        gone = self.allotments.keys() & set(uids)
        if not gone:
            return self
        kept = {uid: held for uid, held in self.allotments.items() if uid not in gone}
        return NodeLedger(self.capacity, MappingProxyType(kept))

    @cached_property
    def usage(self) -> Usage:
        """What all pods hold together."""
        return Usage.of(self.capacity, self.allotments.values())

    @cached_property
    def free_cpus(self) -> CpuMask:
        """CPUs that may be bound and are not."""
        return self.capacity.bindable & ~self.usage.cpus

    @cached_property
    def free_zones(self) -> Mapping[int, Amounts]:
        """What is left of each NUMA node, amplified, never negative."""
        return {zone: self._free(zone, total) for zone, total in self.capacity.totals.items()}

    @cached_property
    def free_devices(self) -> tuple[FreeDevice, ...]:
        """What is left of each device, in the order of the facts."""
        taken = self.usage.devices
        return tuple(
            _free_device(place, taken.get((place.type, place.minor)))
            for place in self.facts.devices
        )

    @cached_property
    def numa_status(self) -> Mapping[int, NumaStatus]:
        """Who is on each NUMA node."""
        return {zone: self._status(zone) for zone in self.capacity.zone_ids}

    @property
    def exclusive_cpus(self) -> Mapping[CpuExclusive, CpuMask]:
        """CPUs that are held under each exclusive policy."""
        return self.usage.exclusive

    @cached_property
    def key(self) -> bytes:
        """What two ledgers have in common if they give equal answers to every wish."""
        plain = (
            self.capacity.digest,
            self.free_cpus,
            sorted_zones(self.free_zones),
            sorted((policy.value, cpus) for policy, cpus in self.exclusive_cpus.items()),
            [status.value for status in self.numa_status.values()],
            [(sorted(free.left.items()), free.vfs, free.in_use) for free in self.free_devices],
        )
        return blake2b(repr(plain).encode(), digest_size=16).digest()

    def _free(self, zone: int, total: Amounts) -> Amounts:
        taken = dict(self.usage.unbound.get(zone, {}))
        if bound := self.usage.bound.get(zone, 0):
            cpu = amplified(bound * MILLI_PER_CPU, self.capacity.ratio(CPU))
            taken[CPU] = taken.get(CPU, 0) + cpu
        return {name: max(0, amount - taken.get(name, 0)) for name, amount in total.items()}

    def _status(self, zone: int) -> NumaStatus:
        if self.usage.shared >> zone & 1:
            return NumaStatus.SHARED
        return NumaStatus.SINGLE if self.usage.single >> zone & 1 else NumaStatus.IDLE


def _free_device(place: DevicePlace, use: DeviceUse | None) -> FreeDevice:
    if not place.healthy:
        left = dict.fromkeys(place.resources, 0)
        return FreeDevice(place=place, left=left, vfs=(), in_use=use is not None)
    if use is None:
        return FreeDevice(place=place, left=place.resources, vfs=place.vfs, in_use=False)
    return FreeDevice(
        place=place,
        left={
            name: max(0, amount - use.amounts.get(name, 0))
            for name, amount in place.resources.items()
        },
        vfs=tuple(vf for vf in place.vfs if vf not in use.vfs),
        in_use=True,
    )
