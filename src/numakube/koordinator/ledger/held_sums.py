"""What the pods of a node hold together: a sum to which one pod after the other is added.

Annotations are what people and other schedulers wrote, so nothing here trusts them: CPUs and NUMA
nodes that the node does not have count for nothing, negative amounts are zero, and CPUs that two
pods claim are held, no matter by whom.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from numakube.koordinator.annotation_values import CpuExclusive
from numakube.values.cpuset import NO_CPUS, CpuMask
from numakube.values.resources import CPU, MILLI_PER_CPU, Amounts, add_amounts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numakube.koordinator.ledger.holdings import Allotment, HeldDevice, Share
    from numakube.koordinator.node.node_capacity import NodeCapacity
    from numakube.values.numamask import NumaMask

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
