"""Allotments as admission makes them: what a round trip through annotations must keep."""

from __future__ import annotations

from hypothesis import strategies as st

from numakube.topology.allotments import Allotment, CpuExclusive, HeldDevice, Share
from numakube.values.cpuset import CpuMask
from numakube.values.numamask import mask_of

_AMOUNTS = st.dictionaries(
    st.sampled_from(["cpu", "memory", "hugepages-2Mi", "vendor.example/nic"]),
    st.integers(1, 1 << 50),
    min_size=1,
)
_DEVICES = st.sampled_from(["gpu", "rdma", "fpga"])
_BUS_IDS = st.integers(0, 255).map(lambda number: f"0000:{number:02x}:00.1")


@st.composite
def shares(draw: st.DrawFn) -> Share:
    """Draw what a pod or a container holds."""
    zones = draw(st.dictionaries(st.integers(0, 8), _AMOUNTS, max_size=3))
    spare = draw(st.sets(st.integers(0, 8), max_size=2))
    kinds = draw(st.lists(_DEVICES, unique=True, max_size=3))
    return Share(
        cpus=CpuMask(draw(st.integers(0, 1 << 130))),
        zones=zones,
        mask=mask_of({*zones, *spare}),
        devices=tuple(device for kind in kinds for device in draw(_devices(kind))),
    )


@st.composite
def allotments(draw: st.DrawFn) -> Allotment:
    """Draw what a pod holds, containers one by one or not."""
    total = draw(shares())
    exclusive = draw(st.sampled_from(CpuExclusive)) if total.cpus else CpuExclusive.NONE
    names = st.sampled_from(["main", "proxy", "setup"])
    return Allotment(
        total=total,
        containers=draw(st.dictionaries(names, shares(), max_size=2)),
        cpu_exclusive=exclusive,
    )


def _devices(kind: str) -> st.SearchStrategy[list[HeldDevice]]:
    return st.lists(
        st.builds(
            HeldDevice,
            type=st.just(kind),
            minor=st.integers(0, 15),
            resources=_AMOUNTS,
            vfs=st.lists(_BUS_IDS, max_size=2).map(tuple),
        ),
        min_size=1,
        max_size=2,
    )
