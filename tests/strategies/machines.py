"""Machines to test with.

`regular_machines` are those that one line can describe: what most nodes in the world look like.
`machines` adds odd ones: CPUs numbered at random, cores of every width, sockets anywhere.
"""

from __future__ import annotations

from functools import cache, partial
from itertools import accumulate
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeVar

from hypothesis import strategies as st

from numakube.kubelet.machine import Core, Device, HugePages, Machine, NumaNode
from numakube.kubelet.machines.shape import (
    Attachment,
    CoreCount,
    CoreIds,
    DeviceClause,
    DeviceGroup,
    DistanceLevels,
    HugePagesClause,
    LinksClause,
    Numbering,
    PciClause,
    Shape,
    Uncore,
)
from numakube.kubelet.machines.shape_build import build

if TYPE_CHECKING:
    from collections.abc import Sequence

T = TypeVar("T")

GIB: Final = 1 << 30
PAGE_SIZES: Final = (64 << 10, 2 << 20, 32 << 20, 1 << 30)
RESOURCES: Final = ("vendor.example/gpu", "vendor.example/nic", "intel.com/vf")

memory_sizes = st.one_of(
    st.integers(0, 64).map(lambda gib: gib * GIB),
    st.integers(1, 1 << 26).map(lambda kib: kib << 10),
)
distances = st.integers(10, 255)
_PAGES = st.none() | st.integers(0, 1024)
_COUNTS = st.integers(0, 3)
_ATTACHMENTS = st.none() | st.builds(PciClause, st.sampled_from(Attachment), st.integers(1, 3))
_LINKS = st.integers(1, 18).map(lambda count: partial(LinksClause, count=count))
_LEVELS = st.builds(DistanceLevels, *[distances] * 4)


@st.composite
def shapes(
    draw: st.DrawFn, *, max_nodes: int = 8, max_cores: int = 6, attached: bool = False
) -> Shape:
    """Shapes without contradiction, memory-only and CPU-less nodes and holes in ids included.

    If *attached*, they may also say what their devices are attached to.
    """
    sockets = draw(st.integers(1, min(4, max_nodes)))
    numa = draw(st.integers(1, max_nodes // sockets))
    total = draw(st.booleans()) if numa == 1 else False
    socketed = numa if total else sockets * numa
    share = sockets if total else 1
    extra = draw(st.lists(memory_sizes, max_size=min(2, max_nodes - socketed)))
    ids = draw(_ids(socketed + len(extra)))
    devices = draw(_device_clauses(socketed, ids))
    pci = draw(_ATTACHMENTS) if attached and devices else None
    return Shape(
        sockets=sockets,
        numa=numa,
        numa_is_total=total,
        cores=draw(_cores(socketed, share, max_cores)),
        smt=draw(st.sampled_from((1, 2, 2, 4, 8))),
        memory=draw(_per_node(memory_sizes, socketed)),
        hugepages=draw(_hugepages(socketed, len(extra))),
        uncore=draw(st.none() | st.integers(1, max_cores) | st.sampled_from(Uncore)),
        numbering=draw(st.sampled_from(Numbering)),
        core_ids=draw(st.sampled_from(CoreIds)),
        extra_memory=tuple(extra),
        distances=draw(_distances(len(ids))),
        ids=ids,
        devices=devices,
        pci=pci,
        links=tuple(draw(_LINKS)(device.resource) for device in devices[:1] if pci is not None),
    )


def regular_machines(*, max_nodes: int = 8, max_cores: int = 6) -> st.SearchStrategy[Machine]:
    """Machines that one line can describe."""
    return shapes(max_nodes=max_nodes, max_cores=max_cores).map(build)


@st.composite
def odd_machines(draw: st.DrawFn, *, max_nodes: int = 4, max_cpus: int = 24) -> Machine:
    """Machines without any regularity except that every CPU belongs to one core."""
    ids = sorted(draw(st.sets(st.integers(0, 63), min_size=1, max_size=max_nodes)), key=str)
    cpus = draw(st.permutations(range(draw(st.integers(1, max_cpus)))))
    cores = draw(_odd_cores(cpus, len(ids)))
    nodes = tuple(
        NumaNode(
            id=id_,
            memory_bytes=draw(memory_sizes),
            cores=tuple(core for place, core in cores if place == position),
            hugepages=tuple(
                HugePages(page_bytes=size, count=draw(st.integers(0, 8)))
                for size in draw(st.sets(st.sampled_from(PAGE_SIZES)))
            ),
            distances=tuple(draw(distances) for _ in ids),
        )
        for position, id_ in enumerate(ids)
    )
    return Machine(
        nodes=nodes,
        cpu_count=len(cpus),
        socket_count=len({core.socket for _, core in cores}),
        devices=draw(_devices(ids)),
    )


def machines(*, max_nodes: int = 8) -> st.SearchStrategy[Machine]:
    """Machines of every kind."""
    return regular_machines(max_nodes=max_nodes) | odd_machines(max_nodes=min(4, max_nodes))


@st.composite
def _odd_cores(draw: st.DrawFn, cpus: Sequence[int], nodes: int) -> list[tuple[int, Core]]:
    """Cut *cpus* into cores of random width, each on a random node and socket."""
    cores: list[tuple[int, Core]] = []
    rest = list(cpus)
    while rest:
        width = draw(st.integers(1, min(4, len(rest))))
        threads, rest = rest[:width], rest[width:]
        core = Core(
            id=len(cores),
            threads=tuple(threads),
            socket=draw(st.integers(0, 2)),
            uncore_cache=draw(st.none() | st.integers(0, 3)),
        )
        cores.append((draw(st.integers(0, nodes - 1)), core))
    return cores


@st.composite
def _devices(draw: st.DrawFn, ids: Sequence[int]) -> MappingProxyType[str, tuple[Device, ...]]:
    places = st.lists(st.sampled_from(ids), unique=True, max_size=2).map(tuple)
    return MappingProxyType(
        {
            resource: tuple(
                Device(id=f"dev{n}", numa_nodes=place, healthy=draw(st.booleans()))
                for n, place in enumerate(draw(st.lists(places, max_size=4)))
            )
            for resource in draw(st.sets(st.sampled_from(RESOURCES)))
        }
    )


@cache
def _per_node(values: st.SearchStrategy[T], nodes: int) -> st.SearchStrategy[tuple[T, ...]]:
    return st.tuples(values) | st.tuples(*[values] * nodes)


@cache
def _cores(nodes: int, share: int, most: int) -> st.SearchStrategy[tuple[CoreCount, ...]]:
    number = st.integers(0, max(1, most // share)).map(lambda cores: cores * share)
    count = st.builds(CoreCount, full=number, single=st.just(0) | number)
    return _per_node(count, nodes).map(
        lambda counts: counts if any(map(_has_cores, counts)) else (CoreCount(share),)
    )


def _has_cores(count: CoreCount) -> bool:
    return count.full + count.single > 0


@st.composite
def _ids(draw: st.DrawFn, nodes: int) -> tuple[int, ...]:
    """Ids in order, then perhaps with holes, then perhaps shuffled."""
    if draw(st.booleans()):
        return tuple(range(nodes))
    gaps = draw(st.tuples(*[st.integers(1, 64 // nodes)] * nodes))
    ids = tuple(accumulate(gaps, initial=-1))[1:]
    return tuple(draw(st.permutations(ids))) if draw(st.booleans()) else ids


@st.composite
def _hugepages(draw: st.DrawFn, socketed: int, extra: int) -> tuple[HugePagesClause, ...]:
    sizes = draw(st.lists(st.sampled_from(PAGE_SIZES), unique=True, max_size=2))
    listed = draw(st.sampled_from((socketed, socketed + extra)))
    return tuple(HugePagesClause(size, draw(_per_node(_PAGES, listed))) for size in sizes)


@st.composite
def _distances(draw: st.DrawFn, nodes: int) -> DistanceLevels | tuple[tuple[int, ...], ...] | None:
    if nodes > 1 and draw(st.booleans()):
        # A few values strewn over the matrix: as odd as drawing each, and far cheaper.
        values = draw(st.lists(distances, min_size=1, max_size=5))
        stride = draw(st.integers(0, 4))
        return tuple(
            tuple(values[(row * stride + column) % len(values)] for column in range(nodes))
            for row in range(nodes)
        )
    return draw(st.none() | _LEVELS)


@cache
def _device_items(
    socketed: int, ids: tuple[int, ...]
) -> st.SearchStrategy[tuple[tuple[int, ...] | DeviceGroup, ...]]:
    place = st.lists(st.sampled_from(ids), unique=True, max_size=3).map(tuple)
    group = st.builds(DeviceGroup, count=st.integers(1, 3), nodes=place)
    counts = _per_node(_COUNTS, socketed) | _per_node(_COUNTS, len(ids))
    return st.lists(counts | group, min_size=1, max_size=3).map(tuple)


@st.composite
def _device_clauses(
    draw: st.DrawFn, socketed: int, ids: tuple[int, ...]
) -> tuple[DeviceClause, ...]:
    return tuple(
        DeviceClause(resource, draw(_device_items(socketed, ids)))
        for resource in draw(st.sets(st.sampled_from(RESOURCES)))
    )
