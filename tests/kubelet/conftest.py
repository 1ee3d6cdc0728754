"""Builders shared by the tests of the kubelet model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.kubelet.machine import Core, HugePages, Machine, NumaNode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

GIB = 1 << 30


def build_machine(
    cores: Sequence[tuple[int, int, tuple[int, ...]]],
    *,
    memory_bytes: int = 64 * GIB,
    hugepages: tuple[HugePages, ...] = (),
    uncore: Callable[[int], int] | None = None,
) -> Machine:
    """Build a machine from (socket, NUMA node, threads) of each core."""
    nodes = []
    ids = sorted({numa for _, numa, _ in cores})
    for node_id in ids:
        members = tuple(
            Core(
                id=index,
                threads=threads,
                socket=socket,
                uncore_cache=uncore(threads[0]) if uncore else None,
            )
            for index, (socket, numa, threads) in enumerate(cores)
            if numa == node_id
        )
        distances = tuple(10 if other == node_id else 20 for other in ids)
        nodes.append(NumaNode(node_id, memory_bytes, members, hugepages, distances))
    return Machine(
        nodes=tuple(nodes),
        cpu_count=sum(len(threads) for _, _, threads in cores),
        socket_count=len({socket for socket, _, _ in cores}),
    )


def single_socket_ht() -> Machine:
    """8 CPUs, cores {0,4} {1,5} {2,6} {3,7}."""
    return build_machine([(0, 0, (core, core + 4)) for core in range(4)])


def dual_socket_ht() -> Machine:
    """12 CPUs, even ones on socket 0, odd ones on socket 1, siblings six apart."""
    return build_machine([(core % 2, core % 2, (core, core + 6)) for core in range(6)])


def triple_socket_ht() -> Machine:
    """18 CPUs with adjacent siblings; socket 1 comes first."""
    sockets = [1, 1, 1, 0, 0, 0, 2, 2, 2]
    return build_machine(
        [(socket, socket, (2 * core, 2 * core + 1)) for core, socket in enumerate(sockets)]
    )


def quad_numa() -> Machine:
    """80 CPUs, two sockets of two NUMA nodes, siblings 40 apart."""
    return build_machine([(core // 20, core // 10, (core, core + 40)) for core in range(40)])


def quad_numa_interleaved() -> Machine:
    """80 CPUs, NUMA node is the CPU modulo four; sockets {0,2} and {1,3}."""
    return build_machine([(core % 2, core % 4, (core, core + 40)) for core in range(40)])


def eight_numa() -> Machine:
    """256 CPUs, two sockets of four NUMA nodes, siblings 128 apart."""
    return build_machine([(core // 64, core // 16, (core, core + 128)) for core in range(128)])
