"""Real machines by name, as shapes.

Sizes of memory and devices are common configurations; add clauses after the name to change them:
``epyc-9654-2s-nps4, 192Gi, gpu 1``.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

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
