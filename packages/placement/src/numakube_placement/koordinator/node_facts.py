"""What is known of a node, and what it has for pods that our scheduler places, before any is there.

`NodeCapacity` follows from `NodeFacts` alone, so that ledgers of one node share it. Reserved CPUs
are taken off their NUMA nodes first and the rest is amplified: what is kept back is real hardware.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache
from hashlib import blake2b
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from numakube.api.koordinator.devices import device_type_of
from numakube.values.cpuset import NO_CPUS, CpuMask, cpu_mask
from numakube.values.numamask import MAX_NODE_ID, mask_of
from numakube.values.resources import CPU, MILLI_PER_CPU
from numakube.values.topology_policy import TopologyPolicy, TopologyScope
from numakube_placement.koordinator.annotation_values import BindPolicy, Strategy

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numakube.values.numamask import NumaMask
    from numakube.values.resources import Amounts


Key = TypeVar("Key", int, tuple[int, int])


@dataclass(frozen=True, slots=True)
class CpuPlace:
    """Where a logical CPU is. ``core`` is unique only within its socket."""

    id: int
    core: int
    socket: int
    numa: int


@dataclass(frozen=True, slots=True)
class CoreBits:
    """A physical core: its logical CPUs as bits, how many they are, and where it is."""

    cpus: CpuMask
    width: int
    socket: int
    numa: int


@dataclass(frozen=True)
class CpuLayout:
    """The logical CPUs of a node, ascending by id."""

    places: tuple[CpuPlace, ...]

    @cached_property
    def all(self) -> CpuMask:
        """Every CPU."""
        return cpu_mask(place.id for place in self.places)

    @cached_property
    def by_numa(self) -> Mapping[int, CpuMask]:
        """CPUs of each NUMA node, ascending by its id."""
        return _grouped((place.numa, place.id) for place in self.places)

    @cached_property
    def by_core(self) -> Mapping[tuple[int, int], CpuMask]:
        """CPUs of each core, by socket and core id."""
        return _grouped(((place.socket, place.core), place.id) for place in self.places)

    @cached_property
    def by_socket(self) -> Mapping[int, CpuMask]:
        """CPUs of each socket."""
        return _grouped((place.socket, place.id) for place in self.places)

    @cached_property
    def cores(self) -> tuple[CoreBits, ...]:
        """Physical cores, ascending by socket and core id."""
        numa_of = {1 << place.id: place.numa for place in self.places}
        return tuple(
            CoreBits(cpus, cpus.bit_count(), socket, numa_of[cpus & -cpus])
            for (socket, _), cpus in self.by_core.items()
        )

    @cached_property
    def core_of(self) -> Mapping[int, int]:
        """For each CPU the position of its core in `cores`."""
        at = {key: index for index, key in enumerate(self.by_core)}
        return {place.id: at[place.socket, place.core] for place in self.places}

    @property
    def has_threads(self) -> bool:
        """Whether some core has more than one CPU."""
        return len(self.by_core) < len(self.places)

    @property
    def cpus_per_core(self) -> int:
        """Average threads a core, rounded down; 0 without CPUs."""
        return len(self.places) // len(self.by_core) if self.places else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DevicePlace:
    """A device of a node.

    Attributes:
        type: ``gpu``, ``rdma`` or ``fpga``.
        numa: its NUMA node; ``None`` if it is close to all of them.
        pcie: what devices behind one PCIe switch or root complex have in common.
        bridges: addresses of the PCI bridges above it, the root port first, as far as the node's
            exact report knows them.
        resources: what it has of each device resource, such as 100 of ``koordinator.sh/gpu-core``.
        labels: for selectors of pods.
        vfs: bus ids of its virtual functions, ascending.
        vf_labels: labels of virtual functions by bus id, where they have any.
    """

    type: str
    minor: int
    id: str = ""
    numa: int | None = None
    pcie: str = ""
    bridges: tuple[str, ...] = ()
    healthy: bool = True
    resources: Amounts = field(default_factory=lambda: MappingProxyType({}))
    labels: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    vfs: tuple[str, ...] = ()
    vf_labels: Mapping[str, Mapping[str, str]] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class GpuPartition:
    """GPUs that can be given together; a higher *score* leaves the node in a better state."""

    minors: frozenset[int]
    score: int = 0
    bandwidth: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """What is known of a node: hardware, what is kept back, and what its owner has set.

    Attributes:
        zones: what each NUMA node has for pods, in base units, not amplified, reserved CPUs not
            taken off yet; ids may have holes.
        cpus: ``None`` if the layout is not known; then no CPUs can be bound.
        reserved_cpus: CPUs that are never bound: the kubelet's, the node's, those of the system and
            of pods that the kubelet has pinned.
        kubelet_policy: of a Topology Manager that is at work, else `TopologyPolicy.NONE`; then
            `kubelet_scope` means nothing.
        label_policy: from the node's labels; so are ``label_scope``, ``bind_policy``, ``strategy``.
            ``bind_policy`` also follows from the kubelet's ``full-pcpus-only``.
        binds_all: whether every pod that asks for CPUs is bound, as the label has it; the kubelet's
            option only says how those are that are bound anyway.
        ratios: amplification by resource, each above 1.
        gpu_partitions: sets of GPUs that can be given together; none if its Device lists none.
        honors_partitions: whether whole GPUs are given as one of these or not at all.
        problems: what was passed over, each naming the object and the field.
    """

    node: str
    zones: Mapping[int, Amounts] = field(default_factory=lambda: MappingProxyType({}))
    cpus: CpuLayout | None = None
    reserved_cpus: CpuMask = NO_CPUS
    kubelet_policy: TopologyPolicy = TopologyPolicy.NONE
    kubelet_scope: TopologyScope = TopologyScope.CONTAINER
    label_policy: TopologyPolicy = TopologyPolicy.NONE
    label_scope: TopologyScope | None = None
    bind_policy: BindPolicy = BindPolicy.NONE
    binds_all: bool = False
    strategy: Strategy | None = None
    ratios: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    devices: tuple[DevicePlace, ...] = ()
    gpu_partitions: tuple[GpuPartition, ...] = ()
    honors_partitions: bool = False
    problems: tuple[str, ...] = ()


def _grouped(pairs: Iterable[tuple[Key, int]]) -> dict[Key, CpuMask]:
    groups: dict[Key, CpuMask] = {}
    for key, cpu in pairs:
        groups[key] = groups.get(key, NO_CPUS) | 1 << cpu
    return {key: groups[key] for key in sorted(groups)}


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
            [
                (sorted(partition.minors), partition.score, partition.bandwidth)
                for partition in facts.gpu_partitions
            ],
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
