"""The shape of a machine: what the one-line notation says, before any CPU has got its number.

A shape is a short sentence about a regular machine (`2 sockets, 2 numa each, 8 cores, smt 2,
64Gi`). `shape_parse` reads the sentence, `shape_build` makes a machine of the shape, `shape_infer`
finds the shape of a machine, and `shape_text` writes it and offers all of this in two functions.

NUMA nodes have a *position* here: socket after socket, then the memory-only nodes. Their ids come
later and may be in any order and have holes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, TypeVar

from numakube.values.cpuset import MAX_CPU_ID
from numakube.values.numamask import MAX_NODE_ID

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


T = TypeVar("T")

SHORT_DOMAIN: Final = "vendor.example"
"""The domain of a device that is named by a bare word: ``gpu`` is ``vendor.example/gpu``."""

UNITS: Final = {
    "B": 1,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
    "Pi": 2**50,
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
}

SMT_LEVELS: Final = (1, 2, 4, 8)

MAX_DEVICES: Final = 4096
"""Of one resource on one machine: a guard against typing errors, far above any real node."""


def size_text(size: int) -> str:
    """Return *size* in the largest binary unit that expresses it exactly."""
    for unit in ("Pi", "Ti", "Gi", "Mi", "Ki"):
        if size and size % UNITS[unit] == 0:
            return f"{size // UNITS[unit]}{unit}"
    return f"{size}B"


class Numbering(StrEnum):
    """How the kernel has numbered the CPUs."""

    SIBLINGS_LAST = "siblings-last"
    """First threads of all cores, node after node, then all second threads: the usual one."""

    ADJACENT = "adjacent"
    """Core after core, the threads of a core next to each other."""

    INTERLEAVED = "interleaved"
    """First threads dealt to the NUMA nodes in turn, then second threads likewise."""


class CoreIds(StrEnum):
    """Where the kernel starts to count core ids; the kubelet does not look at them."""

    SOCKET = "socket"
    MACHINE = "machine"


class Uncore(StrEnum):
    """An uncore cache whose extent is not a number of cores."""

    NODE = "node"
    SOCKET = "socket"


@dataclass(frozen=True, slots=True)
class CoreCount:
    """The cores of one NUMA node: *full* ones with every thread, then *single*-thread ones."""

    full: int
    single: int = 0


@dataclass(frozen=True, slots=True)
class DeviceGroup:
    """Devices in one place: on the NUMA nodes with the given ids, or on none that is known."""

    count: int
    nodes: tuple[int, ...] = ()


DevicesPerNode: TypeAlias = tuple[int, ...]
"""Device counts by position; a single one is for every node with a socket."""


class DistanceLevels(NamedTuple):
    """Distances of a regular machine; the defaults are close to those of common servers."""

    itself: int = 10
    same_socket: int = 12
    other_socket: int = 20
    memory_only: int = 30


DEFAULT_DISTANCES: Final = DistanceLevels()

DistanceMatrix: TypeAlias = tuple[tuple[int, ...], ...]
"""Distances by ascending node id, a row a node."""


@dataclass(frozen=True, slots=True)
class DeviceClause:
    """The devices of one resource."""

    resource: str
    items: tuple[DevicesPerNode | DeviceGroup, ...]


class Attachment(StrEnum):
    """What devices are attached to."""

    SWITCHES = "switches"
    """A PCIe switch has a root port to itself, and devices of all resources behind it."""

    CASCADES = "switches cascaded"
    """The same, and each device has a second switch to itself behind the first one."""

    SLOTS = "slots"
    """A card has a root port to itself, and devices of one resource as parts of it."""


@dataclass(frozen=True, slots=True)
class PciClause:
    """How many switches or slots each NUMA node has; its devices lie evenly on them, in order."""

    kind: Attachment
    count: int


@dataclass(frozen=True, slots=True)
class LinksClause:
    """NVLink, xGMI or HCCS links between any two devices of a resource that are in one island.

    Attributes:
        count: of the links between two.
        islands: into how many islands the devices are parted, in order and as evenly as possible.
    """

    resource: str
    count: int
    islands: int = 1


@dataclass(frozen=True, slots=True)
class HugePagesClause:
    """Pools of one page size; ``None`` at a position means that the node has no such pool."""

    page_bytes: int
    counts: tuple[int | None, ...]


class Defect(NamedTuple):
    """Why a shape cannot be built: the field or resource at fault, and what is wrong with it."""

    field: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A machine in a sentence.

    Tuples by position hold either one value for every node with a socket or a value for each.

    Attributes:
        numa: NUMA nodes of each socket, or of the whole machine if ``numa_is_total``.
        extra_memory: bytes of each memory-only node.
        distances: levels, a matrix, or ``None`` if the machine reports no distances.
        ids: node ids by position; empty means 0, 1, 2...
        pci: what devices are attached to; ``None`` if that is not known.
    """

    sockets: int = 1
    numa: int = 1
    numa_is_total: bool = False
    cores: tuple[CoreCount, ...]
    smt: int = 1
    memory: tuple[int, ...]
    hugepages: tuple[HugePagesClause, ...] = ()
    uncore: int | Uncore | None = None
    numbering: Numbering = Numbering.SIBLINGS_LAST
    core_ids: CoreIds = CoreIds.SOCKET
    extra_memory: tuple[int, ...] = ()
    distances: DistanceLevels | DistanceMatrix | None = DEFAULT_DISTANCES
    ids: tuple[int, ...] = ()
    devices: tuple[DeviceClause, ...] = ()
    pci: PciClause | None = None
    links: tuple[LinksClause, ...] = ()

    @property
    def socketed_nodes(self) -> int:
        """How many NUMA nodes belong to a socket."""
        return self.numa if self.numa_is_total else self.sockets * self.numa

    @property
    def sockets_per_node(self) -> int:
        """How many sockets a NUMA node spans; more than one only on machines without NUMA."""
        return max(1, self.sockets // self.numa) if self.numa_is_total else 1

    @property
    def nodes(self) -> int:
        """How many NUMA nodes there are, memory-only ones included."""
        return self.socketed_nodes + len(self.extra_memory)

    @property
    def node_ids(self) -> tuple[int, ...]:
        """The id of every NUMA node, by position."""
        return self.ids or tuple(range(self.nodes))

    def at(self, position: int, values: tuple[T, ...]) -> T | None:
        """Return what *values* (one for all, or one a node) say of the node at *position*."""
        if len(values) == 1:
            return values[0] if position < self.socketed_nodes else None
        return values[position] if position < len(values) else None

    def defect(self) -> Defect | None:
        """Return the first contradiction in the shape, or ``None`` if it can be built."""
        return next(self._defects(), None)

    def _defects(self) -> Iterator[Defect]:
        yield from self._wrong_sizes()
        yield from self._wrong_lengths()
        yield from self._wrong_ids()
        yield from self._wrong_devices()
        yield from self._wrong_links()

    def _wrong_sizes(self) -> Iterator[Defect]:
        if self.smt not in SMT_LEVELS:
            yield Defect("smt", "a core has 1, 2, 4 or 8 threads")
        if self.numa_is_total and self.numa % self.sockets and self.sockets % self.numa:
            yield Defect("numa", f"{self.numa} in total do not divide over {self.sockets} sockets")
        if self.nodes > MAX_NODE_ID + 1:
            yield Defect("numa", f"{self.nodes} NUMA nodes; {MAX_NODE_ID + 1} is the limit")
        if self.socketed_nodes * max(c.full + c.single for c in self.cores) * self.smt > MAX_CPU_ID:
            yield Defect("cores", f"more than {MAX_CPU_ID} CPUs")
        if not any(count.full + count.single for count in self.cores):
            yield Defect("cores", "a machine needs at least one core")
        if self.sockets_per_node > 1 and any(
            count.full % self.sockets_per_node or count.single % self.sockets_per_node
            for count in self.cores
        ):
            yield Defect(
                "cores", f"do not divide over the {self.sockets_per_node} sockets of a node"
            )

    def _wrong_lengths(self) -> Iterator[Defect]:
        lists: list[tuple[str, int]] = [("cores", len(self.cores)), ("memory", len(self.memory))]
        lists += [("hugepages", len(clause.counts)) for clause in self.hugepages]
        lists += [
            (clause.resource, len(item))
            for clause in self.devices
            for item in clause.items
            if not isinstance(item, DeviceGroup)
        ]
        for field, length in lists:
            most = self.socketed_nodes if field in ("cores", "memory") else self.nodes
            if length not in {1, self.socketed_nodes, most}:
                yield Defect(field, f"{length} values for {self.socketed_nodes} NUMA nodes")
        if self.distances is None or isinstance(self.distances, DistanceLevels):
            return
        if {len(self.distances), *map(len, self.distances)} != {self.nodes}:
            yield Defect("distances", f"the matrix must be {self.nodes} by {self.nodes}")

    def _wrong_ids(self) -> Iterator[Defect]:
        if self.ids and len(self.ids) != self.nodes:
            yield Defect("ids", f"{len(self.ids)} ids for {self.nodes} NUMA nodes")
        if len(set(self.ids)) != len(self.ids):
            yield Defect("ids", "an id appears twice")
        if self.ids and max(self.ids) > MAX_NODE_ID:
            yield Defect("ids", f"{max(self.ids)} is above {MAX_NODE_ID}, the highest id of a node")

    def _wrong_devices(self) -> Iterator[Defect]:
        known = set(self.node_ids)
        for clause in self.devices:
            groups = [item for item in clause.items if isinstance(item, DeviceGroup)]
            counts = [sum(item) for item in clause.items if not isinstance(item, DeviceGroup)]
            if max((*counts, *(group.count for group in groups)), default=0) > MAX_DEVICES:
                yield Defect(clause.resource, f"more than {MAX_DEVICES} devices")
            if unknown := {node for group in groups for node in group.nodes} - known:
                yield Defect(clause.resource, f"there is no NUMA node {min(unknown)}")

    def _wrong_links(self) -> Iterator[Defect]:
        known = {clause.resource for clause in self.devices}
        for clause in self.links:
            if clause.resource not in known:
                yield Defect("links", f"there are no devices {clause.resource}")
            if self.pci is None:
                yield Defect("links", "say what the devices are attached to: `2 switches`")


# Real machines by name, as shapes.
#
# Sizes of memory and devices are common configurations; add clauses after the name to change them:
# ``epyc-9654-2s-nps4, 192Gi, gpu 1``.


PRESETS: Final[Mapping[str, str]] = MappingProxyType(
    {
        # A Google Cloud machine of 208 virtual CPUs with eight H100.
        "a3-highgpu-8g": (
            "2 sockets, 52 cores, smt 2, 936Gi, hugepages-1Gi 0, hugepages-2Mi 0,"
            " distances 10 20 20, nvidia.com/gpu 4"
        ),
        # 80 single-thread cores a socket; no L3 that the kernel describes.
        "ampere-altra-2s": "2 sockets, 80 cores, 256Gi, distances 10 20 20",
        # Eight B200 around Xeon 8570. Each GPU has a network card behind the same PCIe switch, with
        # a second stage in between.
        "dgx-b200": (
            "2 sockets, 56 cores, smt 2, 1Ti, hugepages-1Gi 0, hugepages-2Mi 0,"
            " distances 10 21 21, nvidia.com/gpu 4, nvidia.com/hostdev 4,"
            " 4 switches cascaded, links 18 nvidia.com/gpu"
        ),
        # The same with H100 around Xeon 8480C, and with H200.
        "dgx-h100": (
            "2 sockets, 56 cores, smt 2, 1Ti, hugepages-1Gi 0, hugepages-2Mi 0,"
            " distances 10 21 21, nvidia.com/gpu 4, nvidia.com/hostdev 4,"
            " 4 switches cascaded, links 18 nvidia.com/gpu"
        ),
        "dgx-h200": (
            "2 sockets, 56 cores, smt 2, 1Ti, hugepages-1Gi 0, hugepages-2Mi 0,"
            " distances 10 21 21, nvidia.com/gpu 4, nvidia.com/hostdev 4,"
            " 4 switches cascaded, links 18 nvidia.com/gpu"
        ),
        # Twelve 8-core complexes with an L3 each; the whole socket is one NUMA node.
        "epyc-9654-2s-nps1": (
            "2 sockets, 96 cores, smt 2, uncore 8, 768Gi, hugepages-1Gi 0, hugepages-2Mi 0,"
            " distances 10 12 32"
        ),
        # The same with four NUMA nodes a socket.
        "epyc-9654-2s-nps4": (
            "2 sockets, 4 numa each, 24 cores, smt 2, uncore 8, 192Gi,"
            " hugepages-1Gi 0, hugepages-2Mi 0, distances 10 12 32"
        ),
        # The fifth generation (Turin): sixteen 8-core complexes a socket.
        "epyc-9755-2s-nps4": (
            "2 sockets, 4 numa each, 32 cores, smt 2, uncore 8, 192Gi,"
            " hugepages-1Gi 0, hugepages-2Mi 0, distances 10 12 32"
        ),
        # A compute tray of Grace-Blackwell: two Grace processors with two GPUs each.
        "gb200": "2 sockets, 72 cores, 480Gi, distances 10 40 40, nvidia.com/gpu 2",
        # The same with the memory of the GPUs online. Each GPU has eight NUMA nodes, so that it can
        # be parted; those of a whole GPU are empty but one.
        "gb200-nvl4": (
            "2 sockets, 72 cores, 480Gi, cxl 186Gi, 7 cxl 0, cxl 186Gi, 7 cxl 0, cxl 186Gi,"
            " 7 cxl 0, cxl 186Gi, 7 cxl 0, distances 10 40 40 80, nvidia.com/gpu 2"
        ),
        # Likewise, with a network card for each GPU whose own switch the GPU is behind.
        "gb300": (
            "2 sockets, 72 cores, 480Gi, cxl 278Gi, 7 cxl 0, cxl 278Gi, 7 cxl 0, cxl 278Gi,"
            " 7 cxl 0, cxl 278Gi, 7 cxl 0, distances 10 40 40 80, nvidia.com/gpu 2,"
            " nvidia.com/hostdev 2, 2 switches, links 18 nvidia.com/gpu"
        ),
        # Two Grace processors on one board, without GPUs.
        "grace": "2 sockets, 72 cores, 480Gi, distances 10 40 40",
        # Eight B200 as most makers build them: two GPUs and two network cards behind each switch.
        "hgx-b200": (
            "2 sockets, 56 cores, smt 2, 1Ti, hugepages-1Gi 0, hugepages-2Mi 0,"
            " distances 10 21 21, nvidia.com/gpu 4, nvidia.com/hostdev 4, 2 switches,"
            " links 18 nvidia.com/gpu"
        ),
        # A hybrid processor. One L3 for all cores, which cAdvisor reports as an uncore cache here
        # because P-cores and E-cores differ in threads.
        "laptop": (
            "1 socket, 6p+8e cores, smt 2, numbering adjacent, uncore node, 32Gi, hugepages-2Mi 0"
        ),
        # Eight MI300X around two EPYC 9654 with four NUMA nodes a socket, and a network card for
        # each GPU; and with one NUMA node a socket, two GPUs and two cards behind each switch.
        "mi300x": (
            "2 sockets, 4 numa each, 24 cores, smt 2, uncore 8, 192Gi,"
            " hugepages-1Gi 0, hugepages-2Mi 0, distances 10 12 32, amd.com/gpu 1,"
            " amd.com/nic 1, 1 switch, links 1 amd.com/gpu"
        ),
        "mi300x-8": (
            "2 sockets, 96 cores, smt 2, uncore 8, 768Gi, hugepages-1Gi 0, hugepages-2Mi 0,"
            " distances 10 12 32, amd.com/gpu 4, amd.com/nic 4, 2 switches, links 1 amd.com/gpu"
        ),
        # An AWS machine of 192 virtual CPUs with eight H100.
        "p5-48xlarge": (
            "2 sockets, 48 cores, smt 2, 1Ti, hugepages-1Gi 0, hugepages-2Mi 0,"
            " distances 10 32 32, nvidia.com/gpu 4"
        ),
        # POWER9: four threads a core, and NUMA ids with a hole.
        "power9-2s": (
            "2 sockets, 20 cores, smt 4, numbering adjacent, 256Gi, ids 0 8, distances 10 40 40"
        ),
        # A server for radio access networks: a network card with virtual functions on each socket,
        # and a card that accelerates forward error correction.
        "telco-2s": (
            "2 sockets, 32 cores, smt 2, 256Gi, hugepages-1Gi 64, distances 10 20 20,"
            " intel.com/sriov 16, intel.com/acc100 16/0, 1 slot"
        ),
        "xeon-8480-2s": (
            "2 sockets, 56 cores, smt 2, 512Gi, hugepages-1Gi 0, hugepages-2Mi 0,"
            " distances 10 21 21"
        ),
        # Sub-NUMA clustering: four NUMA nodes share the L3 of their socket.
        "xeon-8480-2s-snc4": (
            "2 sockets, 4 numa each, 14 cores, smt 2, uncore socket, 128Gi,"
            " hugepages-1Gi 0, hugepages-2Mi 0, distances 10 12 21"
        ),
        # Xeon 6 with three compute dies a socket, a NUMA node each.
        "xeon6-6972p-2s-snc3": (
            "2 sockets, 3 numa each, 32 cores, smt 2, uncore socket, 256Gi,"
            " hugepages-1Gi 0, hugepages-2Mi 0, distances 10 12 21"
        ),
        # Each socket with an expander of CXL memory: two NUMA nodes without CPUs.
        "xeon-cxl-2s": (
            "2 sockets, 32 cores, smt 2, 256Gi, hugepages-1Gi 0, hugepages-2Mi 0, 2 cxl 128Gi,"
            " distances 10 21 21 24"
        ),
    }
)
