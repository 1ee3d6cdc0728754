"""Who holds what of a node whose NUMA placement our scheduler decides, and what is left.

A ledger is a value: it follows from the facts of the node and from the allotments of the pods on
it, which their annotations tell. Nothing is written to it; with a pod more or fewer it is another
ledger. Ledgers with equal `Ledger.key` give equal answers to every wish, whatever their nodes and
pods are called, so answers can be remembered by it.

CPU time is counted amplified: a NUMA node has its CPUs times the ratio, and a bound CPU takes the
ratio off it, because no other pod can run there.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from hashlib import blake2b
from types import MappingProxyType
from typing import TYPE_CHECKING

from numakube.koordinator.ledger.held_sums import DeviceUse, Usage
from numakube.koordinator.node.node_capacity import NodeCapacity, amplified, sorted_zones
from numakube.values.resources import CPU, MILLI_PER_CPU

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numakube.koordinator.annotation_values import CpuExclusive
    from numakube.koordinator.ledger.holdings import Allotment
    from numakube.koordinator.node.node_facts import DevicePlace, NodeFacts
    from numakube.values.cpuset import CpuMask
    from numakube.values.resources import Amounts


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
class Ledger:
    """What pods hold of a node and what is left; make one with `Ledger.of`."""

    capacity: NodeCapacity
    allotments: Mapping[str, Allotment]

    @classmethod
    def of(cls, facts: NodeFacts, allotments: Mapping[str, Allotment]) -> Ledger:
        """Return the ledger of a node with the given *allotments* by pod UID."""
        return cls(NodeCapacity(facts), MappingProxyType(dict(allotments)))

    @property
    def facts(self) -> NodeFacts:
        """What is known of the node."""
        return self.capacity.facts

    def with_pod(self, uid: str, allotment: Allotment) -> Ledger:
        """Return the ledger in which pod *uid* holds *allotment* and nothing else."""
        ledger = Ledger(self.capacity, MappingProxyType({**self.allotments, uid: allotment}))
        if uid not in self.allotments and "usage" in self.__dict__:
            ledger.__dict__["usage"] = self.usage.plus(self.capacity, allotment)
        return ledger

    def without(self, uids: Iterable[str]) -> Ledger:
        """Return the ledger in which the pods *uids* hold nothing."""
        gone = self.allotments.keys() & set(uids)
        if not gone:
            return self
        kept = {uid: held for uid, held in self.allotments.items() if uid not in gone}
        return Ledger(self.capacity, MappingProxyType(kept))

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
