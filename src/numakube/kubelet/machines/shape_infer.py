"""From a machine to its shape, if it has one.

What can be read off directly is; the numbering of CPUs and cores and the width of caches are found
by building every candidate: the first that gives the same machine is the answer. A machine that is
not that regular is refused with the first thing that does not fit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter
from itertools import groupby, islice, product
from typing import TYPE_CHECKING, TypeVar

from numakube.errors import InvalidValue
from numakube.kubelet.machines.compare_machines import differences
from numakube.kubelet.machines.shape import (
    CoreCount,
    CoreIds,
    DeviceClause,
    DeviceGroup,
    DistanceLevels,
    HugePagesClause,
    Numbering,
    Shape,
    Uncore,
)
from numakube.kubelet.machines.shape_build import build
from numakube.kubelet.machines.shape_pci import links_of, pci_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numakube.kubelet.machine import Device, Machine, NumaNode
    from numakube.kubelet.machines.shape import DevicesPerNode, DistanceMatrix

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
        hugepages=_hugepages(layout),
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


def _hugepages(layout: _Layout) -> tuple[HugePagesClause, ...]:
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
