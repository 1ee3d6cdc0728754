"""The short texts inside a report: sizes, devices, holdings, and the machine with its PCI tree.

    size       4Gi                        bytes, in the largest binary unit that is exact
    nodes      0+1                        NUMA ids; - is none
    books      0+1 x3 m=4Gi 1Gi=2Gi       group, number of blocks, bytes held by memory type
    devices    8@0 8@1 1@- !3,5-6         runs of devices on the same nodes; positions of unhealthy
    choice     most-free 0-7 8,10,9       rule; positions of devices that belong together
               most-free+near 0-7         the same among those nearest to other devices
    holding    c2-3,66 m@0+1=4Gi d0=1     CPUs; blocks of memory; positions of devices

A memory type is ``m``, or the page size of hugepages. In a holding, devices are named by the
position of their resource in the report. Reading raises `InvalidValue` for anything else.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import msgspec

from numakube.errors import InvalidValue
from numakube.kubelet.admission_outcome import MemoryBlock
from numakube.kubelet.machine import (
    NO_TREE,
    Core,
    DeviceTree,
    HugePages,
    Machine,
    NumaNode,
    PciPath,
    in_kernel_order,
    tree_of,
)
from numakube.kubelet.machines.shape import UNITS, size_text
from numakube.kubelet.machines.shape_text import from_shape, to_shape
from numakube.kubelet.preferred_allocation import Preference
from numakube.topology.exact_report import DeviceChoice, DeviceTable, Holding, MemoryCell
from numakube.values.cpuset import MAX_CPU_ID, CpuSet
from numakube.values.numamask import MAX_NODE_ID
from numakube.values.resources import HUGEPAGES_PREFIX, MEMORY
from numakube.values.safe_text import MAX_DEVICES, limited

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence


_SIZE: Final = re.compile(r"([0-9]{1,20})([KMGTP]i)?")
_NODES: Final = re.compile(r"[0-9]{1,2}(?:\+[0-9]{1,2})*")
_NO_NODES: Final = "-"
_MEMORY: Final = "m"
_NEAR: Final = "+near"


def write_size(size: int) -> str:
    """Return a number of bytes, or any count."""
    return size_text(size).removesuffix("B")


@lru_cache(maxsize=8192)
def read_size(text: str) -> int:
    """Return the number that *text* stands for."""
    match = _SIZE.fullmatch(text)
    if match is None:
        raise InvalidValue(f"size {text!r}: not a number with a binary unit")
    return int(match[1]) * (UNITS[match[2]] if match[2] else 1)


def _write_nodes(nodes: Iterable[int]) -> str:
    return "+".join(map(str, nodes)) or _NO_NODES


@lru_cache(maxsize=1024)
def _read_nodes(text: str) -> tuple[int, ...]:
    if text == _NO_NODES:
        return ()
    if not _NODES.fullmatch(text):
        raise InvalidValue(f"NUMA nodes {text!r}: not ids joined by +")
    nodes = tuple(map(int, text.split("+")))
    if max(nodes) > MAX_NODE_ID:
        raise InvalidValue(f"NUMA nodes {text!r}: {MAX_NODE_ID} is the highest id")
    return nodes


def _write_kind(kind: str) -> str:
    if kind == MEMORY:
        return _MEMORY
    short = kind.removeprefix(HUGEPAGES_PREFIX)
    return kind if short == _MEMORY else short


def _read_kind(text: str) -> str:
    if text == _MEMORY:
        return MEMORY
    return text if text.startswith(HUGEPAGES_PREFIX) else HUGEPAGES_PREFIX + text


def _write_positions(positions: Iterable[int]) -> str:
    return str(CpuSet.of(positions))


def _read_positions(text: str) -> tuple[int, ...]:
    return tuple(CpuSet.parse(text))


def write_cell(cell: MemoryCell) -> str:
    """Return the books of one NUMA node."""
    sizes = (f"{_write_kind(kind)}={write_size(size)}" for kind, size in cell.reserved.items())
    return " ".join((_write_nodes(cell.group), f"x{cell.assignments}", *sizes))


def read_cell(text: str) -> MemoryCell:
    """Return the books that *text* tells."""
    group, _, rest = text.partition(" ")
    count, *sizes = rest.split(" ")
    if not count.startswith("x"):
        raise InvalidValue(f"memory books {text!r}: no number of blocks")
    reserved = {}
    for part in sizes:
        kind, _, size = part.partition("=")
        reserved[_read_kind(kind)] = read_size(size)
    return MemoryCell(_read_nodes(group), read_size(count.removeprefix("x")), reserved)


def write_devices(table: DeviceTable) -> str:
    """Return the devices of one resource; the empty text if there are none."""
    runs = [f"{len(list(run))}@{_write_nodes(nodes)}" for nodes, run in groupby(table.numa_nodes)]
    if table.unhealthy:
        runs.append("!" + _write_positions(table.unhealthy))
    return " ".join(runs)


@lru_cache(maxsize=4096)
def count_devices(text: str) -> int:
    """Return how many devices *text* tells of, which is much less work than reading them."""
    runs = (part for part in text.split(" ") if part and not part.startswith("!"))
    return sum(read_size(run.partition("@")[0]) for run in runs)


@lru_cache(maxsize=4096)
def read_devices(text: str) -> DeviceTable:
    """Return the devices that *text* tells."""
    limited("devices", count_devices(text), MAX_DEVICES)
    places: list[tuple[int, ...]] = []
    unhealthy: tuple[int, ...] = ()
    for part in text.split(" ") if text else ():
        if part.startswith("!"):
            unhealthy = _read_positions(part[1:])
            continue
        count, _, nodes = part.partition("@")
        places += [_read_nodes(nodes)] * read_size(count)
    return DeviceTable(tuple(places), unhealthy)


def write_choice(choice: DeviceChoice, count: int) -> str:
    """Return how one of *count* devices is chosen; no groups if each stands for itself."""
    alone = choice.groups == tuple((position,) for position in range(count))
    groups = () if alone else choice.groups
    word = f"{choice.policy}{_NEAR}" if choice.near else choice.policy
    return " ".join((word, *(_write_order(group) for group in groups)))


@lru_cache(maxsize=1024)
def read_choice(text: str, count: int) -> DeviceChoice | None:
    """Return how one of *count* devices is chosen; ``None`` if by a rule that is not known."""
    word, *groups = text.split(" ")
    policy = word.removesuffix(_NEAR)
    if policy not in set(Preference):
        return None
    alone = tuple((position,) for position in range(count))
    known = tuple(map(_read_order, groups)) or alone
    return DeviceChoice(Preference(policy), known, near=policy != word)


def _write_order(positions: Sequence[int]) -> str:
    """Return positions in their order; those that follow each other as a range."""
    runs: list[list[int]] = []
    for position in positions:
        if runs and runs[-1][-1] + 1 == position:
            runs[-1].append(position)
        else:
            runs.append([position])
    return ",".join(_write_positions(run) for run in runs)


def _read_order(text: str) -> tuple[int, ...]:
    return tuple(position for part in text.split(",") for position in _read_positions(part))


def write_holding(holding: Holding, resources: Mapping[str, int]) -> str:
    """Return what a pod holds, given the position of each device resource."""
    parts = [f"c{holding.cpus}"] if holding.cpus else []
    parts += (
        f"{_write_kind(block.type)}@{_write_nodes(block.numa_nodes)}={write_size(block.size_bytes)}"
        for block in holding.memory
    )
    parts += (
        f"d{resources[name]}={_write_positions(positions)}"
        for name, positions in holding.devices.items()
    )
    return " ".join(parts)


# Most pods hold the same from one report to the next.
@lru_cache(maxsize=16384)
def read_holding(text: str, resources: tuple[str, ...]) -> Holding:
    """Return what a pod holds, given the device resources by position."""
    cpus = CpuSet()
    memory: list[MemoryBlock] = []
    devices: dict[str, tuple[int, ...]] = {}
    for part in text.split(" ") if text else ():
        key, equals, value = part.partition("=")
        kind, at, nodes = key.partition("@")
        if at:
            memory.append(MemoryBlock(_read_nodes(nodes), _read_kind(kind), read_size(value)))
        elif equals and key.startswith("d"):
            devices[_at(resources, read_size(key[1:]))] = _read_positions(value)
        elif key.startswith("c") and not equals:
            cpus = CpuSet.parse(key[1:])
        else:
            raise InvalidValue(f"holding {text!r}: {part!r} is not CPUs, memory or devices")
    return Holding(cpus=cpus, memory=tuple(memory), devices=devices)


def _at(resources: Sequence[str], position: int) -> str:
    if position >= len(resources):
        raise InvalidValue(f"device resource {position} of {len(resources)}")
    return resources[position]


# A machine in a report: the structure of its CPUs as one line, its memory node by node.
#
# The line is a machine shape (`numakube.kubelet.machines.shape_text`) with no memory, which tells
# the sockets, NUMA nodes, cores, threads, caches and distances of nearly every real machine.
# Machines of one model share it, so that it is parsed once; their memory, which differs by some
# pages from one to the next, is apart. A machine that no shape describes lists its cores.


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


# The tree of a machine's devices in a report, and which of its functions each device is.
#
#     path       0000:15/15:01.0/16:00.0/17:00.0/18:00.0@0   host bridge, bridges, function, NUMA
# node     links      0+1=18                                      18 links between functions 0 and 1
# functions  0 1 16*2 -                                  of each device in order; - is not known
#
# A path is that of sysfs; a domain that is the same as in the part before is left out. Functions
# are named by the position of their path. Reading raises `InvalidValue` for anything else.


_DOMAIN: Final = r"(?:[0-9a-f]{4,8}:)"
_ADDRESS: Final = rf"{_DOMAIN}?[0-9a-f]{{2}}:[0-9a-f]{{2}}\.[0-7]"
_PATH: Final = re.compile(rf"{_DOMAIN}[0-9a-f]{{2}}(?:/{_ADDRESS}){{1,32}}(?:@[0-9]{{1,2}})?")
_LINK: Final = re.compile(r"([0-9]{1,5})\+([0-9]{1,5})=([0-9]{1,4})")
_RUN: Final = re.compile(r"(?:([0-9]{1,5})\*)?([0-9]{1,5}|-)")
_ROOT: Final = "pci"
_UNKNOWN: Final = "-"


class TreeTable(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The JSON form of a tree."""

    pci: tuple[str, ...] = ()
    links: str = ""
    dies: tuple[str, ...] = ()


@lru_cache(maxsize=64)
def _positions(addresses: tuple[str, ...]) -> Mapping[str, int]:
    return {address: position for position, address in enumerate(addresses)}


def write_tree(tree: DeviceTree) -> TreeTable | None:
    """Return *tree*; ``None`` if there is nothing to tell."""
    if not tree:
        return None
    positions = _positions(tuple(tree.paths))
    links = (
        f"{positions[one]}+{positions[other]}={count}" for (one, other), count in tree.links.items()
    )
    return TreeTable(
        pci=tuple(map(_write_path, tree.paths.values())),
        links=" ".join(links),
        dies=tuple(map(str, tree.dies)),
    )


# Machines of one model have the same tree, and a node has it in all its reports.
@lru_cache(maxsize=1024)
def read_tree(table: TreeTable | None) -> DeviceTree:
    """Return the tree that *table* tells."""
    if table is None:
        return NO_TREE
    limited("PCI functions", len(table.pci), MAX_DEVICES)
    paths = tuple(map(_read_path, table.pci))
    addresses = tuple(path.address for path in paths)
    if list(addresses) != sorted(set(addresses)):
        raise InvalidValue("PCI functions: not in ascending order of their addresses")
    return tree_of(
        paths, dict(_links(table.links, addresses)), tuple(map(CpuSet.parse, table.dies))
    )


def _write_path(path: PciPath) -> str:
    parts = [path.root.removeprefix(_ROOT)]
    before = _domain(parts[0])
    for address in (*path.bridges, path.address):
        domain = _domain(address)
        parts.append(address.removeprefix(f"{domain}:") if domain == before else address)
        before = domain
    place = "" if path.numa_node is None else f"@{path.numa_node}"
    return "/".join(parts) + place


def _domain(text: str) -> str:
    return text.partition(":")[0]


def _read_path(text: str) -> PciPath:
    if not _PATH.fullmatch(text):
        raise InvalidValue(f"PCI path {text!r}: not a host bridge, bridges and a function")
    way, _, place = text.partition("@")
    if place and int(place) > MAX_NODE_ID:
        raise InvalidValue(f"PCI path {text!r}: {MAX_NODE_ID} is the highest id of a NUMA node")
    root, *parts = way.split("/")
    *bridges, address = _with_domains(parts, _domain(root))
    return PciPath(address, _ROOT + root, tuple(bridges), int(place) if place else None)


def _with_domains(parts: Iterable[str], domain: str) -> Iterator[str]:
    for part in parts:
        full = part if part.count(":") > 1 else f"{domain}:{part}"
        domain = _domain(full)
        yield full


def _links(text: str, addresses: Sequence[str]) -> Iterator[tuple[tuple[str, str], int]]:
    for part in text.split(" ") if text else ():
        match = _LINK.fullmatch(part)
        if match is None:
            raise InvalidValue(f"links {part!r}: not two functions and a number")
        one, other, count = map(int, match.groups())
        if not one < other < len(addresses):
            raise InvalidValue(f"links {part!r}: not two of {len(addresses)} functions in order")
        yield (addresses[one], addresses[other]), count


def write_functions(functions: Sequence[str], tree: DeviceTree) -> str:
    """Return which function of *tree* each device is."""
    positions = _positions(tuple(tree.paths))
    words = (str(positions.get(function, _UNKNOWN)) for function in functions)
    runs = ((word, len(list(run))) for word, run in groupby(words))
    return " ".join(word if count == 1 else f"{count}*{word}" for word, count in runs)


def read_functions(text: str, tree: DeviceTree, count: int) -> tuple[str, ...]:
    """Return the address of the function of each of *count* devices, empty if it is not known."""
    addresses = tuple(tree.paths)
    found: list[str] = []
    for part in text.split(" "):
        match = _RUN.fullmatch(part)
        if match is None:
            raise InvalidValue(f"functions {text!r}: {part!r} is not a position")
        times = limited("devices", int(match[1] or 1), MAX_DEVICES)
        found += [_function(match[2], addresses)] * times
    if len(found) != count:
        raise InvalidValue(f"functions {text!r}: of {len(found)} devices instead of {count}")
    return tuple(found)


def _function(word: str, addresses: Sequence[str]) -> str:
    if word == _UNKNOWN:
        return ""
    if int(word) >= len(addresses):
        raise InvalidValue(f"function {word} of {len(addresses)}")
    return addresses[int(word)]
