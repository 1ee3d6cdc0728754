"""A machine in a report: the structure of its CPUs as one line, its memory node by node.

The line is a machine shape (`numakube.kubelet.machines.shape_text`) with no memory, which tells the
sockets, NUMA nodes, cores, threads, caches and distances of nearly every real machine. Machines of
one model share it, so that it is parsed once; their memory, which differs by some pages from one to
the next, is apart. A machine that no shape describes lists its cores.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Annotated, Final, NamedTuple

import msgspec

from numakube.errors import InvalidValue
from numakube.kubelet.machine import Core, HugePages, Machine, NumaNode
from numakube.kubelet.machines.compare_machines import in_kernel_order
from numakube.kubelet.machines.shape_text import from_shape, to_shape
from numakube.topology.report_notation import read_size, write_size
from numakube.values.cpuset import MAX_CPU_ID, CpuSet
from numakube.values.numamask import MAX_NODE_ID

_CpuId = Annotated[int, msgspec.Meta(ge=0, le=MAX_CPU_ID)]
_NodeId = Annotated[int, msgspec.Meta(ge=0, le=MAX_NODE_ID)]
_MAX_NODES: Final = MAX_NODE_ID + 1


class _CoreRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One core: ``[id, socket, uncore cache, [threads]]``."""

    id: int
    socket: int
    uncore_cache: int | None
    threads: tuple[_CpuId, ...]


class _NodeRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One NUMA node: ``[id, [distances], [cores]]``."""

    id: _NodeId
    distances: tuple[int, ...]
    cores: tuple[_CoreRow, ...]


class MachineTable(msgspec.Struct, frozen=True, gc=False):
    """The structure of a machine that has no shape."""

    cpus: int
    sockets: int
    nodes: Annotated[tuple[_NodeRow, ...], msgspec.Meta(max_length=_MAX_NODES)]


def as_the_kubelet_sees_it(machine: Machine) -> Machine:
    """Return *machine* without what no manager looks at: devices, core ids and the order of cores.

    Core ids and cache ids of real machines have gaps; without them most machines have a shape.
    """
    return _seen(_Itself(machine))


@dataclass(frozen=True, slots=True, eq=False)
class _Itself:
    """A machine compared by identity: by content costs more than most of what is asked about it."""

    machine: Machine

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Itself) and self.machine is other.machine

    def __hash__(self) -> int:
        return id(self.machine)


@lru_cache(maxsize=64)
def _seen(one: _Itself) -> Machine:
    machine = one.machine
    return _as_the_kubelet_sees_it(machine.nodes, machine.cpu_count, machine.socket_count)


# An exporter asks for the same machine at each scan.
@lru_cache(maxsize=256)
def _as_the_kubelet_sees_it(
    nodes: tuple[NumaNode, ...], cpu_count: int, socket_count: int
) -> Machine:
    ordered = in_kernel_order(Machine(nodes, cpu_count, socket_count)).nodes
    ranks = _cache_ranks(ordered)
    counters: dict[int, int] = {}

    def seen(core: Core) -> Core:
        number = counters[core.socket] = counters.get(core.socket, -1) + 1
        cache = ranks.get(core.uncore_cache, core.uncore_cache)
        return replace(core, id=number, uncore_cache=cache)

    numbered = tuple(replace(node, cores=tuple(map(seen, node.cores))) for node in ordered)
    return Machine(numbered, cpu_count, socket_count)


def _cache_ranks(nodes: tuple[NumaNode, ...]) -> dict[int | None, int]:
    """Return new numbers of the uncore caches, in the same order and without gaps.

    A core without cache shares one with its socket, whose number is then that of a cache as well:
    if there is such a core, every cache keeps its number.
    """
    caches = {core.uncore_cache for node in nodes for core in node.cores}
    known = sorted(cache for cache in caches if cache is not None)
    return {} if None in caches else {cache: rank for rank, cache in enumerate(known)}


def write_structure(machine: Machine) -> str | MachineTable:
    """Return the CPUs and distances of *machine*."""
    return _written(_Itself(machine))


@lru_cache(maxsize=64)
def _written(one: _Itself) -> str | MachineTable:
    machine = one.machine
    bare = tuple(replace(node, memory_bytes=0, hugepages=()) for node in machine.nodes)
    return _write_structure(bare, machine.cpu_count, machine.socket_count)


@lru_cache(maxsize=256)
def _write_structure(
    nodes: tuple[NumaNode, ...], cpu_count: int, socket_count: int
) -> str | MachineTable:
    try:
        return to_shape(Machine(nodes, cpu_count, socket_count))
    except InvalidValue:
        rows = (_NodeRow(node.id, node.distances, _core_rows(node)) for node in nodes)
        return MachineTable(cpu_count, socket_count, tuple(rows))


def _core_rows(node: NumaNode) -> tuple[_CoreRow, ...]:
    return tuple(
        _CoreRow(core.id, core.socket, core.uncore_cache, core.threads) for core in node.cores
    )


class Structure(NamedTuple):
    """A machine without memory, and its CPUs as bits."""

    machine: Machine
    cpus: int


@lru_cache(maxsize=256)
def read_structure(structure: str | MachineTable) -> Structure:
    """Return what *structure* describes; raise `InvalidValue` if it describes no machine."""
    if isinstance(structure, str):
        machine = from_shape(structure)
    else:
        rows = structure.nodes
        nodes = (NumaNode(row.id, 0, _cores(row.cores), distances=row.distances) for row in rows)
        machine = Machine(tuple(nodes), structure.cpus, structure.sockets)
    threads = (cpu for node in machine.nodes for core in node.cores for cpu in core.threads)
    return Structure(machine, CpuSet.of(threads).bits)


def _cores(rows: tuple[_CoreRow, ...]) -> tuple[Core, ...]:
    return tuple(Core(row.id, row.threads, row.socket, row.uncore_cache) for row in rows)


def write_memory(machine: Machine) -> tuple[str, ...]:
    """Return the memory of each NUMA node: ``64Gi 1Gi*16 2Mi*512``."""
    return tuple(
        " ".join(
            (
                write_size(node.memory_bytes),
                *(f"{write_size(pool.page_bytes)}*{pool.count}" for pool in node.hugepages),
            )
        )
        for node in machine.nodes
    )


# A node reports the same machine each time: one object serves all its reports.
@lru_cache(maxsize=8192)
def read_machine(structure: str | MachineTable, memory: tuple[str, ...]) -> Machine:
    """Return the machine; raise `InvalidValue` if the texts describe none."""
    bare = read_structure(structure).machine
    if len(memory) != len(bare.nodes):
        raise InvalidValue(f"memory of {len(memory)} NUMA nodes for {len(bare.nodes)}")
    pairs = zip(bare.nodes, memory, strict=True)
    return replace(bare, nodes=tuple(_with_memory(node, text) for node, text in pairs))


def _with_memory(node: NumaNode, text: str) -> NumaNode:
    size, *pools = text.split(" ")
    return replace(
        node, memory_bytes=read_size(size), hugepages=tuple(_pool(pool) for pool in pools)
    )


def _pool(text: str) -> HugePages:
    page, _, pages = text.partition("*")
    return HugePages(read_size(page), read_size(pages))
