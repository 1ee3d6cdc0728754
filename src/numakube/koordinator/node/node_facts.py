"""What is known of a node before any pod is on it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from numakube.koordinator.annotation_values import BindPolicy, Strategy
from numakube.values.cpuset import NO_CPUS, CpuMask, cpu_mask
from numakube.values.topology_policy import TopologyPolicy, TopologyScope

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

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
class Core:
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
    def cores(self) -> tuple[Core, ...]:
        """Physical cores, ascending by socket and core id."""
        numa_of = {1 << place.id: place.numa for place in self.places}
        return tuple(
            Core(cpus, cpus.bit_count(), socket, numa_of[cpus & -cpus])
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
