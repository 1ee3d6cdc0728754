"""The picture as data: what a drawing of a node shows, before anybody draws it.

Owners are positions in `NodePicture.pods`. With exact data every CPU id, device and byte of managed
memory has its owner; without, a zone has `amounts` only, and `NodePicture.why_not_exact` says why.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from string import ascii_lowercase, ascii_uppercase
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from numakube.kubelet.machine import NO_TREE, DeviceTree
from numakube.values.cpuset import CpuSet
from numakube.values.display import short_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numakube.insight.observations import Observation
    from numakube.topology.numa_zones import MachinePart


PodIndex: TypeAlias = int
"""The position of a pod in `NodePicture.pods`."""

# "r" means reserved, and all pods beyond the last letter share a sign.
LETTERS: Final = ascii_uppercase + ascii_lowercase.replace("r", "")
MANY: Final = "#"


POD_COLOURS: Final = (
    "#7cc4f8", "#ffb454", "#8fdc8a", "#f39ab8", "#b9a4f4", "#f5dd5b",
    "#6fd6cb", "#f58f7c", "#c6d96a", "#9fb4d8", "#e0a5ea", "#d1b48c",
)  # fmt: skip
"""Those of pods, soft enough for dark text; after the last one they start again."""


class PictureChange(StrEnum):
    """What a plan does to something."""

    NONE = ""
    TAKEN = "taken"
    FREED = "freed"


@dataclass(frozen=True, slots=True)
class DrawnCpu:
    """One logical CPU.

    Attributes:
        owner: the pod that has it for itself; ``None`` for one of the shared pool.
        reserved: whether it is kept for the system, so that no pod gets it for itself.
        was: the name of the pod that a plan takes it from.
    """

    id: int
    owner: PodIndex | None = None
    reserved: bool = False
    change: PictureChange = PictureChange.NONE
    was: str = ""


@dataclass(frozen=True, slots=True)
class DrawnCore:
    """One physical core with its threads."""

    socket: int
    cpus: tuple[DrawnCpu, ...]


@dataclass(frozen=True, slots=True)
class DrawnCache:
    """The cores that share one L3 cache; ``id`` is ``None`` if the machine does not tell."""

    id: int | None
    cores: tuple[DrawnCore, ...]


@dataclass(frozen=True, slots=True)
class MemoryPart:
    """Bytes that pods hold; in a group of zones, which bytes are whose is unknown.

    Attributes:
        zones: the zones that were taken together.
    """

    owners: tuple[PodIndex, ...]
    size_bytes: int
    zones: tuple[int, ...]
    change: PictureChange = PictureChange.NONE


@dataclass(frozen=True, slots=True)
class DrawnMemory:
    """Memory of one kind, ``memory`` or ``hugepages-...``, in one zone.

    Attributes:
        managed: whether the Memory Manager gives it out; if not, it is unknown who has it.
        freed_bytes: what a plan gives back.
    """

    kind: str
    total_bytes: int
    reserved_bytes: int = 0
    parts: tuple[MemoryPart, ...] = ()
    managed: bool = True
    freed_bytes: int = 0

    @property
    def free_bytes(self) -> int:
        """Bytes that no pod has."""
        held = sum(part.size_bytes for part in self.parts)
        return max(self.total_bytes - self.reserved_bytes - held, 0)


@dataclass(frozen=True, slots=True)
class DrawnDevice:
    """One device.

    Attributes:
        resource: what device plugins call it; of a device of a DRA driver, the driver.
        position: its place among the sorted ids of the resource, by which a report knows it.
        id: its id if known.
        zones: the zones it is near; it is drawn in each of them.
        sharers: further pods that have it, which only claims allow.
        claims: the claims that hold it.
        blocked: whether it cannot be given out because of other devices, which it is a part of.
        trouble: why it is not healthy, if that is known.
        pci: the address of the physical PCI function that it is a part of, if that is known.
    """

    resource: str
    position: int
    id: str = ""
    zones: tuple[int, ...] = ()
    owner: PodIndex | None = None
    sharers: tuple[PodIndex, ...] = ()
    claims: tuple[str, ...] = ()
    healthy: bool = True
    blocked: bool = False
    trouble: str = ""
    pci: str = ""
    change: PictureChange = PictureChange.NONE
    was: str = ""

    @property
    def is_free(self) -> bool:
        """Whether it can be given out."""
        return self.owner is None and self.healthy and not self.blocked

    @property
    def name(self) -> str:
        """Its id, or what is known instead of it."""
        return self.id or f"{short_name(self.resource)} #{self.position}"


@dataclass(frozen=True, slots=True)
class Amount:
    """How much of one resource a zone has, in base units."""

    resource: str
    capacity: int
    allocatable: int
    available: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnZone:
    """One NUMA node.

    Attributes:
        sockets: those of its cores; none for a zone without CPUs.
        within: what it is part of, in its producer's words, where sockets are not known by number.
        distances: to every zone by id; empty if not told.
        amounts: what a report without exact data says; empty otherwise.
        alike: the ids of all zones that it is drawn for, if it is more than itself.
    """

    id: int
    sockets: tuple[int, ...] = ()
    within: tuple[str, ...] = ()
    caches: tuple[DrawnCache, ...] = ()
    memory: tuple[DrawnMemory, ...] = ()
    devices: tuple[DrawnDevice, ...] = ()
    distances: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({}))
    amounts: tuple[Amount, ...] = ()
    alike: tuple[int, ...] = ()

    @property
    def cores(self) -> tuple[DrawnCore, ...]:
        """All cores."""
        return tuple(core for cache in self.caches for core in cache.cores)

    def cpus(self) -> Iterator[DrawnCpu]:
        """Yield all CPUs in the order of their cores."""
        return (cpu for core in self.cores for cpu in core.cpus)

    @property
    def cpu_set(self) -> CpuSet:
        """The ids of all CPUs."""
        return CpuSet.of(cpu.id for cpu in self.cpus())


@dataclass(frozen=True, slots=True)
class PodMark:
    """A pod that holds something, and how it appears: a letter, and a colour by its number."""

    name: str
    letter: str
    cpus: CpuSet = field(default_factory=CpuSet)
    memory: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    devices: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    zones: tuple[int, ...] = ()
    change: PictureChange = PictureChange.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class Kubelet:
    """What the kubelet is configured with, as far as it was told."""

    topology_policy: str = ""
    topology_scope: str = ""
    topology_options: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    cpu_policy: str = ""
    cpu_options: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    memory_policy: str = ""
    version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePicture:
    """One node.

    Attributes:
        parts: the hierarchy that a report without exact data tells; empty if it tells none.
        homeless: devices whose plugin or driver told no NUMA node.
        pods: those that hold something, in order of admission.
        sharing_pods: how many pods hold nothing for themselves.
        why_not_exact: why it is not known who has what; empty if it is.
        stale: why the data may be old; empty if nothing speaks for it.
        notes: what a reader should know besides.
        observed: what was seen of each zone beside what it gave out, if that was asked for.
        planned: whether the picture is that of a plan, its changes marked.
        tree: how the devices are connected; empty if that is not known.
    """

    node: str
    zones: tuple[DrawnZone, ...] = ()
    parts: tuple[MachinePart, ...] = ()
    homeless: tuple[DrawnDevice, ...] = ()
    pods: tuple[PodMark, ...] = ()
    sharing_pods: int = 0
    kubelet: Kubelet = field(default_factory=Kubelet)
    why_not_exact: str = ""
    stale: str = ""
    notes: tuple[str, ...] = ()
    observed: Mapping[int, Observation] = field(default_factory=lambda: MappingProxyType({}))
    planned: bool = False
    tree: DeviceTree = NO_TREE

    @property
    def exact(self) -> bool:
        """Whether it is known who has what."""
        return not self.why_not_exact

    @property
    def bare(self) -> bool:
        """Whether this is a machine of which no kubelet is known, so that nothing is given out."""
        return self.exact and not self.kubelet.topology_policy

    @property
    def sockets(self) -> tuple[int, ...]:
        """All sockets."""
        return tuple(sorted({socket for zone in self.zones for socket in zone.sockets}))

    def cpus(self) -> Iterator[DrawnCpu]:
        """Yield all CPUs, zone by zone."""
        return (cpu for zone in self.zones for cpu in zone.cpus())

    def devices(self) -> Iterator[DrawnDevice]:
        """Yield all devices once, those without zone last."""
        yield from dict.fromkeys(device for zone in self.zones for device in zone.devices)
        yield from self.homeless

    def owner_name(self, owner: PodIndex | None) -> str:
        """Return the name of a pod; empty for none."""
        return "" if owner is None else self.pods[owner].name


class Drawing(Protocol):
    """A format of maps that an annex adds."""

    def __call__(self, picture: NodePicture, *, dark: bool) -> bytes:
        """Return the drawing of *picture*; *dark* is for formats that do not follow the reader."""
        ...


def letter_of(number: PodIndex) -> str:
    """Return the sign of a pod."""
    return LETTERS[number] if number < len(LETTERS) else MANY


# Zones without CPUs that are alike and that no pod uses, drawn as one.
#
# A GPU server has two zones with CPUs and 32 with memory only, most of them empty. A picture of 34
# boxes says less than one of four.


_FEW: Final = 4
"""So many zones without CPUs are drawn one by one."""


def folded(picture: NodePicture) -> NodePicture:
    """Return *picture* with one zone in place of many that are alike."""
    if sum(not zone.cores for zone in picture.zones) <= _FEW:
        return picture
    with_cpus = [zone.id for zone in picture.zones if zone.cores]
    groups: dict[object, list[DrawnZone]] = {}
    for zone in sorted(picture.zones, key=lambda one: one.id):
        groups.setdefault(_kind(zone, with_cpus), []).append(zone)
    return replace(picture, zones=tuple(_together(zones) for zones in groups.values()))


def _kind(zone: DrawnZone, with_cpus: Sequence[int]) -> object:
    """Return what zones have in common that can be drawn as one."""
    in_use = any(bar.parts or bar.freed_bytes for bar in zone.memory) or any(
        amount.available != amount.allocatable for amount in zone.amounts
    )
    if zone.cores or zone.devices or in_use:
        return zone.id
    distances = tuple(zone.distances.get(number) for number in with_cpus)
    return zone.memory, zone.amounts, zone.within, distances


def _together(zones: Sequence[DrawnZone]) -> DrawnZone:
    first, count = zones[0], len(zones)
    if count == 1:
        return first
    return replace(
        first,
        alike=tuple(zone.id for zone in zones),
        memory=tuple(
            replace(
                bar, total_bytes=bar.total_bytes * count, reserved_bytes=bar.reserved_bytes * count
            )
            for bar in first.memory
        ),
        amounts=tuple(
            replace(
                amount,
                capacity=amount.capacity * count,
                allocatable=amount.allocatable * count,
                available=amount.available * count,
            )
            for amount in first.amounts
        ),
    )
