"""Nodes whose NUMA placement our scheduler decides, written down briefly or drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st

from numakube.topology.allotments import Allotment, CpuExclusive, HeldDevice, Share
from numakube.values.cpuset import CpuMask, CpuSet
from numakube.values.numamask import nodes_of
from numakube_placement.koordinator.node_facts import CpuLayout, CpuPlace, DevicePlace, NodeFacts

if TYPE_CHECKING:
    from collections.abc import Mapping

GIB = 1 << 30


def layout_of(shape: str) -> CpuLayout:
    """Return CPUs by sockets x NUMA nodes a socket x cores x threads: ``2x1x4x2``.

    Threads of a core are neighbours: the first core has CPUs 0 and 1.
    """
    sockets, numas, cores, threads = map(int, shape.split("x"))
    return CpuLayout(
        tuple(
            CpuPlace(
                id=cpu,
                core=cpu // threads,
                socket=cpu // (threads * cores * numas),
                numa=cpu // (threads * cores),
            )
            for cpu in range(sockets * numas * cores * threads)
        )
    )


def far_threads(numas: int, cores: int) -> CpuLayout:
    """Return a socket a NUMA node whose second threads come after all first ones, as on Intel."""
    total = numas * cores
    places = [
        CpuPlace(id=thread * total + core, core=core, socket=core // cores, numa=core // cores)
        for thread in (0, 1)
        for core in range(total)
    ]
    return CpuLayout(tuple(places))


def cpus(text: str) -> CpuMask:
    """Return a CPU list as bits."""
    return CpuSet.parse(text).mask


def facts_of_layout(
    layout: CpuLayout,
    *,
    memory: int = 64 * GIB,
    reserved: str = "",
    ratios: Mapping[str, float] | None = None,
    devices: tuple[DevicePlace, ...] = (),
) -> NodeFacts:
    """Return a node with all its CPUs and the same memory on each NUMA node."""
    zones = {
        numa: {"cpu": bits.bit_count() * 1000, "memory": memory}
        for numa, bits in layout.by_numa.items()
    }
    return NodeFacts(
        node="node",
        zones=zones,
        cpus=layout,
        reserved_cpus=cpus(reserved),
        ratios=ratios or {},
        devices=devices,
    )


def bound(
    layout: CpuLayout, text: str, *, exclusive: CpuExclusive = CpuExclusive.NONE
) -> Allotment:
    """Return what a pod with the CPUs *text* and no memory holds."""
    bits = cpus(text)
    zones = {
        numa: {"cpu": (bits & of_numa).bit_count() * 1000}
        for numa, of_numa in layout.by_numa.items()
        if bits & of_numa
    }
    mask = sum(1 << numa for numa in zones)
    return Allotment(total=Share(cpus=bits, zones=zones, mask=mask), cpu_exclusive=exclusive)


def unbound(mask: int, **amounts: int) -> Allotment:
    """Return what a pod without CPUs of its own takes of every NUMA node in *mask*."""
    return Allotment(total=Share(zones=dict.fromkeys(nodes_of(mask), amounts), mask=mask))


SHAPES = ("1x1x4x2", "2x1x4x2", "2x2x2x2", "1x1x6x1", "2x2x3x1", "1x3x2x4", "2x4x2x2")


def layouts() -> st.SearchStrategy[CpuLayout]:
    """Draw small CPU layouts of many forms."""
    return st.sampled_from([*map(layout_of, SHAPES), far_threads(2, 4), far_threads(1, 3)])


def wild_allotments() -> st.SearchStrategy[Allotment]:
    """Draw what anybody could have written on a pod, sense or nonsense."""
    amounts = st.dictionaries(
        st.sampled_from(["cpu", "memory", "vendor.example/x"]), st.integers(-5, 1 << 40), max_size=3
    )
    device = st.builds(
        HeldDevice,
        type=st.sampled_from(["gpu", "rdma", "odd"]),
        minor=st.integers(-1, 3),
        resources=st.dictionaries(st.just("koordinator.sh/gpu-core"), st.integers(-5, 300)),
        vfs=st.lists(st.sampled_from(["0000:5f:02.4", "x"]), max_size=2).map(tuple),
    )
    share = st.builds(
        Share,
        cpus=st.integers(0, 1 << 40),
        zones=st.dictionaries(st.integers(-1, 70), amounts, max_size=3),
        mask=st.integers(0, 1 << 66),
        devices=st.lists(device, max_size=2).map(tuple),
    )
    return st.builds(
        Allotment,
        total=share,
        containers=st.dictionaries(st.sampled_from(["a", "b"]), share, max_size=2),
        cpu_exclusive=st.sampled_from(CpuExclusive),
    )
