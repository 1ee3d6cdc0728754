"""What a node has for pods that our scheduler places, before any of them is there.

Follows from the facts of the node alone, so that ledgers of one node share it. Reserved CPUs are
taken off their NUMA nodes first and the rest is amplified: what is kept back is real hardware.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING

from numakube.koordinator.device_resources import device_type_of
from numakube.values.cpuset import NO_CPUS, CpuMask
from numakube.values.numamask import MAX_NODE_ID, mask_of
from numakube.values.resources import CPU, MILLI_PER_CPU

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numakube.koordinator.node.node_facts import CpuLayout, DevicePlace, NodeFacts
    from numakube.values.numamask import NumaMask
    from numakube.values.resources import Amounts


def amplified(amount: int, ratio: float) -> int:
    """Return *amount* times *ratio*, rounded up; ratios up to 1 change nothing."""
    return amount if ratio <= 1 else math.ceil(amount * _decimal(ratio))


@lru_cache(maxsize=64)
def _decimal(ratio: float) -> Fraction:
    """Return what *ratio* looks like in decimal, so that 1.1 times 1000 is 1100 and no more."""
    return Fraction(repr(ratio))


@dataclass(frozen=True)
class NodeCapacity:
    """What a node has; `node_ledger.Ledger` has what is left of it."""

    facts: NodeFacts

    @cached_property
    def zone_ids(self) -> tuple[int, ...]:
        """NUMA nodes that pods can be placed on, ascending."""
        return tuple(sorted(zone for zone in self.facts.zones if 0 <= zone <= MAX_NODE_ID))

    @cached_property
    def all_zones(self) -> NumaMask:
        """The mask of `zone_ids`."""
        return mask_of(self.zone_ids)

    @cached_property
    def resources(self) -> frozenset[str]:
        """Resources that are placed by the figures of NUMA nodes: those that some node has one for.

        Devices that the node lists one by one are placed as such, which says more than figures.
        """
        listed = {device.type for device in self.facts.devices}
        names = {name for zone in self.zone_ids for name in self.facts.zones[zone]}
        return frozenset(name for name in names if device_type_of(name) not in listed)

    @property
    def layout(self) -> CpuLayout | None:
        """Where the CPUs are; ``None`` if that is not known."""
        return self.facts.cpus

    @cached_property
    def bindable(self) -> CpuMask:
        """CPUs that may be bound."""
        layout = self.layout
        return layout.all & ~self.facts.reserved_cpus if layout else NO_CPUS

    @cached_property
    def cpus_of_zone(self) -> Mapping[int, CpuMask]:
        """All CPUs of each NUMA node."""
        layout = self.layout
        by_numa = layout.by_numa if layout else {}
        return {zone: by_numa.get(zone, NO_CPUS) for zone in self.zone_ids}

    @cached_property
    def totals(self) -> Mapping[int, Amounts]:
        """What each NUMA node has for pods, amplified."""
        return {zone: self._total(zone) for zone in self.zone_ids}

    def ratio(self, resource: str) -> float:
        """Return how many times its amount *resource* counts for."""
        ratio = self.facts.ratios.get(resource, 1.0)
        return ratio if math.isfinite(ratio) and ratio > 1 else 1.0

    @cached_property
    def digest(self) -> bytes:
        """What is equal for nodes on which equal ledgers give equal answers."""
        facts = self.facts
        places = facts.cpus.places if facts.cpus else ()
        plain = (
            [(cpu.id, cpu.core, cpu.socket, cpu.numa) for cpu in places],
            facts.reserved_cpus,
            (facts.bind_policy.value, facts.binds_all),
            sorted(facts.ratios.items()),
            sorted_zones(self.totals),
            [_plain_device(device) for device in facts.devices],
            [(sorted(one.minors), one.score, one.bandwidth) for one in facts.gpu_partitions],
            facts.honors_partitions,
        )
        return blake2b(repr(plain).encode(), digest_size=16).digest()

    def _total(self, zone: int) -> Amounts:
        amounts = dict(self.facts.zones[zone])
        if CPU in amounts:
            kept = (self.cpus_of_zone[zone] & self.facts.reserved_cpus).bit_count()
            amounts[CPU] -= kept * MILLI_PER_CPU
        return {
            name: amplified(max(0, amount), self.ratio(name)) for name, amount in amounts.items()
        }


def sorted_zones(zones: Mapping[int, Amounts]) -> list[tuple[int, list[tuple[str, int]]]]:
    """Return *zones* in an order that depends on nothing but their content."""
    return [(zone, sorted(amounts.items())) for zone, amounts in sorted(zones.items())]


def _plain_device(device: DevicePlace) -> tuple[object, ...]:
    return (
        device.type, device.minor, device.id, device.numa, device.pcie, device.bridges,
        device.healthy,
        _sorted_items(device.resources.items()), _sorted_items(device.labels.items()), device.vfs,
        [(vf, _sorted_items(labels.items())) for vf, labels in sorted(device.vf_labels.items())],
    )  # fmt: skip


def _sorted_items(items: Iterable[tuple[str, object]]) -> list[tuple[str, object]]:
    return sorted(items, key=lambda item: item[0])
