"""From a shape to a machine: positions get ids, cores get sockets, CPUs get numbers.

The result is what cAdvisor would report of such a machine: NUMA nodes in the order of their
directory names (node 10 before node 2), distances by ascending id, core ids counted up.
"""

from __future__ import annotations

from itertools import chain, count, zip_longest
from types import MappingProxyType
from typing import TYPE_CHECKING

from numakube.errors import InvalidValue
from numakube.kubelet.machine import Core, Device, HugePages, Machine, NumaNode
from numakube.kubelet.machines.shape import (
    CoreCount,
    CoreIds,
    DeviceGroup,
    DistanceLevels,
    Numbering,
    Uncore,
)
from numakube.kubelet.machines.shape_pci import attached

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numakube.kubelet.machines.shape import DeviceClause, Shape

NO_CORES = CoreCount(0)


def build(shape: Shape) -> Machine:
    """Return the machine of *shape*.

    Raises:
        InvalidValue: the shape contradicts itself.
    """
    if defect := shape.defect():
        raise InvalidValue(f"machine shape: {defect.field}: {defect.reason}")
    cores = _cores(shape)
    distances = _distances(shape)
    nodes = [
        NumaNode(
            id=id_,
            memory_bytes=_memory(shape, position),
            cores=cores[position],
            hugepages=tuple(_hugepages(shape, position)),
            distances=distances.get(id_, ()),
        )
        for position, id_ in enumerate(shape.node_ids)
    ]
    devices = {clause.resource: tuple(_devices(shape, clause)) for clause in shape.devices}
    devices, tree = attached(shape, devices)
    return Machine(
        nodes=tuple(sorted(nodes, key=lambda node: str(node.id))),
        cpu_count=sum(len(core.threads) for core in chain.from_iterable(cores)),
        socket_count=len({core.socket for core in chain.from_iterable(cores)}),
        devices=MappingProxyType(devices),
        tree=tree,
    )


def _memory(shape: Shape, position: int) -> int:
    extra = position - shape.socketed_nodes
    return shape.extra_memory[extra] if extra >= 0 else shape.at(position, shape.memory) or 0


def _hugepages(shape: Shape, position: int) -> Iterator[HugePages]:
    for clause in shape.hugepages:
        pages = shape.at(position, clause.counts)
        if pages is not None:
            yield HugePages(page_bytes=clause.page_bytes, count=pages)


def _cores(shape: Shape) -> list[tuple[Core, ...]]:
    """Return the cores of every node by position."""
    counts = [shape.at(position, shape.cores) or NO_CORES for position in range(shape.nodes)]
    sizes = [_thread_counts(shape, cores) for cores in counts]
    numbers = _number(sizes, shape.numbering)
    core_ids: dict[int, Iterator[int]] = {}
    caches = _caches(shape, [len(node) for node in sizes])
    nodes = []
    for position, node in enumerate(numbers):
        cores = []
        for index, threads in enumerate(node):
            socket = _socket(shape, position, index, len(node))
            counter = socket if shape.core_ids is CoreIds.SOCKET else 0
            core_id = next(core_ids.setdefault(counter, count()))
            cores.append(Core(core_id, threads, socket, next(caches)))
        nodes.append(tuple(cores))
    return nodes


def _thread_counts(shape: Shape, cores: CoreCount) -> list[int]:
    """Return the number of threads of every core of a node, each socket of it in turn."""
    share = shape.sockets_per_node
    return ([shape.smt] * (cores.full // share) + [1] * (cores.single // share)) * share


def _socket(shape: Shape, position: int, index: int, cores: int) -> int:
    if shape.sockets_per_node > 1:
        share = shape.sockets_per_node
        return position * share + index * share // cores
    return position * shape.sockets // shape.socketed_nodes


def _number(sizes: Sequence[Sequence[int]], numbering: Numbering) -> list[list[tuple[int, ...]]]:
    """Return the CPU ids of every core of every node, given the cores' thread counts."""
    places = [(node, core) for node, cores in enumerate(sizes) for core in range(len(cores))]
    if numbering is Numbering.INTERLEAVED:
        rounds = zip_longest(
            *([(n, c) for c in range(len(cores))] for n, cores in enumerate(sizes))
        )
        places = [place for turn in rounds for place in turn if place is not None]
    threads: list[list[list[int]]] = [[[] for _ in cores] for cores in sizes]
    for cpu, (node, core) in enumerate(_turns(sizes, places, numbering)):
        threads[node][core].append(cpu)
    return [[tuple(core) for core in cores] for cores in threads]


def _turns(
    sizes: Sequence[Sequence[int]], places: Sequence[tuple[int, int]], numbering: Numbering
) -> Iterator[tuple[int, int]]:
    """Yield the core that gets the next CPU number, once a CPU."""
    if numbering is Numbering.ADJACENT:
        for node, core in places:
            yield from [(node, core)] * sizes[node][core]
        return
    for thread in range(max(chain.from_iterable(sizes))):
        for node, core in places:
            if thread < sizes[node][core]:
                yield node, core


def _caches(shape: Shape, cores: Sequence[int]) -> Iterator[int | None]:
    """Yield the uncore cache id of core after core, given how many cores each node has."""
    first = 0
    for position, number in enumerate(cores):
        match shape.uncore:
            case None:
                yield from [None] * number
            case Uncore.SOCKET:
                yield from (_socket(shape, position, index, number) for index in range(number))
            case size:
                width = (number or 1) if isinstance(size, Uncore) else size
                yield from (first + index // width for index in range(number))
                first += -(-number // width)


def _distances(shape: Shape) -> dict[int, tuple[int, ...]]:
    """Return the distances of every node, by its id."""
    ascending = sorted(shape.node_ids)
    match shape.distances:
        case None:
            return {}
        case DistanceLevels() as levels:
            position = {id_: position for position, id_ in enumerate(shape.node_ids)}
            return {
                one: tuple(
                    _distance(shape, levels, position[one], position[other]) for other in ascending
                )
                for one in ascending
            }
        case matrix:
            return dict(zip(ascending, matrix, strict=True))


def _distance(shape: Shape, levels: DistanceLevels, one: int, other: int) -> int:
    if one == other:
        return levels.itself
    if max(one, other) >= shape.socketed_nodes:
        return levels.memory_only
    same = _socket(shape, one, 0, 1) == _socket(shape, other, 0, 1)
    return levels.same_socket if same else levels.other_socket


def _devices(shape: Shape, clause: DeviceClause) -> Iterator[Device]:
    short = clause.resource.rpartition("/")[2]
    for number, nodes in enumerate(_device_places(shape, clause)):
        yield Device(id=f"{short}-{number}", numa_nodes=nodes)


def _device_places(shape: Shape, clause: DeviceClause) -> Iterable[tuple[int, ...]]:
    for item in clause.items:
        if isinstance(item, DeviceGroup):
            yield from [item.nodes] * item.count
            continue
        for position, id_ in enumerate(shape.node_ids):
            yield from [(id_,)] * (shape.at(position, item) or 0)
