"""From a shape to a machine, with ids, CPU numbers and PCI addresses, and back if it has a shape.

The result is what cAdvisor would report of such a machine: NUMA nodes in the order of their
directory names (node 10 before node 2), distances by ascending id, core ids counted up.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter
from itertools import chain, combinations, count, groupby, islice, product, zip_longest
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeVar

from numakube.errors import InvalidValue
from numakube.kubelet.device_islands import islands_of
from numakube.kubelet.machine import (
    NO_TREE,
    Core,
    Device,
    HugePages,
    Machine,
    NumaNode,
    PciPath,
    differences,
    tree_of,
)
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

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numakube.kubelet.machine import DeviceTree
    from numakube.kubelet.machines.shape import DevicesPerNode, DistanceMatrix


# What the devices of a shape are attached to: switches, slots and links, as a tree of addresses.
#
# Each switch and each card has a host bridge to itself, as in today's servers: devices of one NUMA
# node behind different ones are ``NODE`` to each other. Buses are numbered by ascending NUMA id.
# Where devices without NUMA node are attached is not known.


_KINDS: Final = {1: Attachment.SLOTS, 3: Attachment.SWITCHES, 5: Attachment.CASCADES}
"""By the number of bridges above a device."""

_BUSES: Final = 0x100
_PLACES: Final = 32
"""Devices that a bus has room for."""


def attached(
    shape: Shape, devices: Mapping[str, tuple[Device, ...]]
) -> tuple[dict[str, tuple[Device, ...]], DeviceTree]:
    """Return *devices* with their addresses, and how they are connected."""
    if shape.pci is None:
        return dict(devices), NO_TREE
    paths = _Buses(shape.pci).attach(sorted(shape.node_ids), devices)
    known = {
        resource: tuple(
            replace(device, pci=paths[resource, device.id].address) if device.numa_nodes else device
            for device in some
        )
        for resource, some in devices.items()
    }
    links = {
        pair: clause.count
        for clause in shape.links
        for island in _parted(known.get(clause.resource, ()), clause.islands)
        for pair in _pairs(island)
    }
    return known, tree_of(paths.values(), links)


def pci_of(machine: Machine) -> PciClause | None:
    """Return the clause that attaches the devices of *machine*, if one does."""
    depths = {len(path.bridges) for path in machine.tree.paths.values()}
    kind = _KINDS.get(max(depths, default=0))
    if kind is None:
        return None
    places: dict[object, set[str]] = defaultdict(set)
    for resource, devices in machine.devices.items():
        for device in devices:
            path = machine.tree.paths.get(device.pci)
            if path is not None:
                here = (path.numa_node, resource) if kind is Attachment.SLOTS else path.numa_node
                places[here].add(path.root)
    return PciClause(kind, max(map(len, places.values()), default=1))


def links_of(machine: Machine) -> tuple[LinksClause, ...]:
    """Return the clauses that link the devices of *machine*, as far as clauses can."""
    found = []
    for resource, devices in machine.devices.items():
        links = {pair: machine.tree.links.get(pair, 0) for pair in _pairs(devices)}
        count = max(links.values(), default=0)
        islands = len(islands_of(machine.tree, (device.pci for device in devices)))
        inside = {pair for some in _parted(devices, islands) for pair in _pairs(some)}
        if count and links == {pair: count if pair in inside else 0 for pair in links}:
            found.append(LinksClause(resource, count, islands))
    return tuple(found)


def _parted(devices: Sequence[Device], islands: int) -> Iterator[Sequence[Device]]:
    """Yield *devices* in so many parts, in order; the first ones are larger if it is uneven."""
    linked = [device for device in devices if device.pci]
    size, larger = divmod(len(linked), max(islands, 1))
    at = 0
    for number in range(min(islands, len(linked))):
        end = at + size + (number < larger)
        yield linked[at:end]
        at = end


def _pairs(devices: Sequence[Device]) -> Iterator[tuple[str, str]]:
    return combinations(sorted({device.pci for device in devices if device.pci}), 2)


class _Buses:
    """Gives out buses and addresses."""

    def __init__(self, clause: PciClause) -> None:
        self._clause = clause
        self._numbers = count()

    def attach(
        self, nodes: Sequence[int], devices: Mapping[str, tuple[Device, ...]]
    ) -> dict[tuple[str, str], PciPath]:
        """Return the path of each device that has a NUMA node."""
        paths: dict[tuple[str, str], PciPath] = {}
        for node in nodes:
            here = {
                resource: [device.id for device in some if device.numa_nodes[:1] == (node,)]
                for resource, some in devices.items()
            }
            slots = self._clause.kind is Attachment.SLOTS
            paths |= self._cards(node, here) if slots else self._switches(node, here)
        return paths

    def _cards(
        self, node: int, devices: Mapping[str, Sequence[str]]
    ) -> dict[tuple[str, str], PciPath]:
        paths: dict[tuple[str, str], PciPath] = {}
        for resource, ids in devices.items():
            for card in _dealt(ids, min(self._clause.count, len(ids))):
                root, port = self._root()
                path = PciPath(_address(next(self._numbers)), root, (port,), node)
                paths |= {(resource, id_): path for id_ in card}
        return paths

    def _switches(
        self, node: int, devices: Mapping[str, Sequence[str]]
    ) -> dict[tuple[str, str], PciPath]:
        number = min(self._clause.count, max(map(len, devices.values()), default=0))
        shares = {resource: _dealt(ids, number) for resource, ids in devices.items()}
        paths: dict[tuple[str, str], PciPath] = {}
        for switch in range(number):
            behind = [(name, id_) for name, share in shares.items() for id_ in share[switch]]
            root, port = self._root()
            above = (port, _address(next(self._numbers)))
            for place, device in enumerate(behind):
                if place % _PLACES == 0:
                    bus = next(self._numbers)
                ports = (*above, _address(bus, place % _PLACES), *self._second_stage())
                paths[device] = PciPath(_address(next(self._numbers)), root, ports, node)
        return paths

    def _second_stage(self) -> tuple[str, ...]:
        if self._clause.kind is not Attachment.CASCADES:
            return ()
        return _address(next(self._numbers)), _address(next(self._numbers))

    def _root(self) -> tuple[str, str]:
        """Return the next host bridge and its root port."""
        bus = next(self._numbers)
        domain, number = divmod(bus, _BUSES)
        return f"pci{domain:04x}:{number:02x}", _address(bus, 1)


def _dealt(ids: Sequence[str], number: int) -> list[list[str]]:
    """Return *ids* in *number* parts, as even as they get, in order."""
    parts: list[list[str]] = [[] for _ in range(number)]
    for position, id_ in enumerate(ids):
        parts[position * number // len(ids)].append(id_)
    return parts


def _address(bus: int, place: int = 0) -> str:
    domain, number = divmod(bus, _BUSES)
    return f"{domain:04x}:{number:02x}:{place:02x}.0"


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


# From a machine to its shape, if it has one.
#
# What can be read off directly is; the numbering of CPUs and cores and the width of caches are
# found by building every candidate: the first that gives the same machine is the answer. A machine
# that is not that regular is refused with the first thing that does not fit.


T = TypeVar("T")


def infer(machine: Machine) -> Shape:
    """Return the shape from which *machine* is built.

    Raises:
        InvalidValue: no shape gives exactly this machine; the message says what does not fit.
    """
    layout = _layout(machine)
    try:
        draft = _draft(machine, layout) if layout else None
    except CycleError:
        raise _irregular("its NUMA nodes list hugepage sizes in different orders") from None
    if draft is None:
        raise _irregular("its NUMA nodes do not lie evenly on its sockets")
    if defect := draft.defect():
        raise _irregular(f"{defect.field}: {defect.reason}")
    best: list[str] = []
    for shape in _variants(machine, draft):
        found = differences(machine, build(shape))
        if not found:
            return _with_distance_levels(machine, shape)
        if not best or len(found) < len(best):
            best = found
    raise _irregular(best[0])


def _irregular(reason: str) -> InvalidValue:
    return InvalidValue(f"this machine is not regular enough for one line: {reason}")


@dataclass(frozen=True, slots=True)
class _Layout:
    """The nodes by position, and how many sockets each one spans."""

    sockets: int
    share: int
    socketed: list[NumaNode]
    extra: list[NumaNode]

    @property
    def nodes(self) -> list[NumaNode]:
        return [*self.socketed, *self.extra]


def _layout(machine: Machine) -> _Layout | None:
    """Return the nodes socket by socket, filled up with CPU-less nodes; the others are extra."""
    with_cpus = sorted((node for node in machine.nodes if node.cores), key=_first_cpu)
    idle = sorted((node for node in machine.nodes if not node.cores), key=lambda node: node.id)
    spans = {len({core.socket for core in node.cores}) for node in with_cpus}
    if len(spans) != 1:
        return None
    share = spans.pop()
    rows: dict[int, list[NumaNode]] = {}
    for node in with_cpus:
        rows.setdefault(min(core.socket for core in node.cores) // share, []).append(node)
    width = max(map(len, rows.values()))
    missing = (max(rows) + 1) * width - len(with_cpus)
    if missing > len(idle) or min(rows) < 0:
        return None
    fillers = iter(idle[:missing])
    socketed = [
        node
        for row in range(max(rows) + 1)
        for node in ([*rows.get(row, []), *islice(fillers, width - len(rows.get(row, [])))])
    ]
    return _Layout((max(rows) + 1) * share, share, socketed, idle[missing:])


def _first_cpu(node: NumaNode) -> int:
    """Every numbering gives its first CPUs to the nodes in the order of their positions."""
    return min((cpu for core in node.cores for cpu in core.threads), default=-1)


def _draft(machine: Machine, layout: _Layout) -> Shape:
    """Return a shape with everything that can be read off directly."""
    total = layout.share > 1
    return Shape(
        sockets=layout.sockets,
        numa=len(layout.socketed) // (1 if total else layout.sockets),
        numa_is_total=total,
        cores=tuple(_core_count(node, _smt(machine)) for node in layout.socketed),
        smt=_smt(machine),
        memory=tuple(node.memory_bytes for node in layout.socketed),
        extra_memory=tuple(node.memory_bytes for node in layout.extra),
        hugepages=_hugepages_clause(layout),
        distances=_matrix(machine),
        ids=_ids(layout.nodes),
        devices=tuple(
            DeviceClause(resource, _device_items(devices, layout))
            for resource, devices in machine.devices.items()
        ),
        pci=pci_of(machine),
        links=links_of(machine),
    )


def _variants(machine: Machine, draft: Shape) -> Iterator[Shape]:
    """Yield *draft* with every numbering of CPUs and cores and every extent of uncore caches."""
    for numbering, core_ids, uncore in product(Numbering, CoreIds, _uncore_extents(machine)):
        yield replace(draft, numbering=numbering, core_ids=core_ids, uncore=uncore)


def _uncore_extents(machine: Machine) -> tuple[int | Uncore | None, ...]:
    caches = [core.uncore_cache for node in machine.nodes for core in node.cores]
    if all(cache is None for cache in caches):
        return (None,)
    largest = max(len(list(group)) for _, group in groupby(caches))
    return (largest, Uncore.NODE, Uncore.SOCKET)


def _smt(machine: Machine) -> int:
    widest = max((len(core.threads) for node in machine.nodes for core in node.cores), default=1)
    return max(widest, 1)


def _core_count(node: NumaNode, smt: int) -> CoreCount:
    full = sum(len(core.threads) == smt for core in node.cores)
    return CoreCount(full=full, single=len(node.cores) - full)


def _hugepages_clause(layout: _Layout) -> tuple[HugePagesClause, ...]:
    """Return a clause for each page size, in an order in which every node lists its pools."""
    order: TopologicalSorter[int] = TopologicalSorter()
    for node in layout.nodes:
        sizes = [pool.page_bytes for pool in node.hugepages]
        for size, before in zip(sizes, [[], *([size] for size in sizes)], strict=False):
            order.add(size, *before)
    clauses = []
    for size in order.static_order():
        counts = [
            next((pool.count for pool in node.hugepages if pool.page_bytes == size), None)
            for node in layout.nodes
        ]
        clauses.append(HugePagesClause(size, _shortest(counts, layout, absent=None)))
    return tuple(clauses)


def _shortest(values: list[T], layout: _Layout, *, absent: T) -> tuple[T, ...]:
    """Return *values* without those of the extra nodes if they say nothing."""
    socketed = len(layout.socketed)
    needed = any(value != absent for value in values[socketed:])
    return tuple(values if needed else values[:socketed])


def _matrix(machine: Machine) -> DistanceMatrix | None:
    rows = tuple(node.distances for node in sorted(machine.nodes, key=lambda node: node.id))
    return rows if {len(row) for row in rows} == {len(rows)} else None


def _ids(nodes: Sequence[NumaNode]) -> tuple[int, ...]:
    ids = tuple(node.id for node in nodes)
    return () if ids == tuple(range(len(ids))) else ids


def _device_items(
    devices: Sequence[Device], layout: _Layout
) -> tuple[DevicesPerNode | DeviceGroup, ...]:
    """Return counts a node if the devices lie in the order of the nodes, else groups."""
    places = [device.numa_nodes for device in devices]
    counts = [places.count((node.id,)) for node in layout.nodes]
    in_order = [
        (node.id,) for node, count in zip(layout.nodes, counts, strict=True) for _ in range(count)
    ]
    if places == in_order:
        return (_shortest(counts, layout, absent=0),)
    return tuple(DeviceGroup(len(list(group)), place) for place, group in groupby(places))


def _with_distance_levels(machine: Machine, shape: Shape) -> Shape:
    """Return *shape* with levels instead of the matrix if they say the same."""
    if shape.distances is None:
        return shape
    levels = replace(shape, distances=_levels(machine, shape))
    return levels if build(levels) == machine else shape


def _levels(machine: Machine, shape: Shape) -> DistanceLevels:
    """Return the levels that the first pair of each kind has; defaults where there is none."""
    matrix = _matrix(machine) or ()
    ascending = sorted(shape.node_ids)
    # A level only shows where the built machine has a pair of that kind, so mark and look.
    marks = DistanceLevels(0, 1, 2, 3)
    found = list(DistanceLevels())
    marked = {node.id: node.distances for node in build(replace(shape, distances=marks)).nodes}
    for id_, row in zip(reversed(ascending), reversed(matrix), strict=True):
        for kind, distance in zip(marked[id_], row, strict=True):
            found[kind] = distance
    return DistanceLevels(*found)
