"""Machines in one line: ``2 sockets, 2 numa each, 8 cores, smt 2, 64Gi, gpu 2, nic 4``.

The notation is described in `shape_parse`. Reading and writing are exact: a machine that the
notation cannot express is refused, never approximated. A line is written in one canonical order and
without clauses that only state a default.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from numakube.kubelet.machines.presets import PRESETS
from numakube.kubelet.machines.shape import (
    DEFAULT_DISTANCES,
    SHORT_DOMAIN,
    CoreIds,
    DeviceGroup,
    DistanceLevels,
    Numbering,
    size_text,
)
from numakube.kubelet.machines.shape_build import build
from numakube.kubelet.machines.shape_infer import infer
from numakube.kubelet.machines.shape_parse import is_short_name, parse

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numakube.kubelet.machine import Machine
    from numakube.kubelet.machines.shape import (
        CoreCount,
        DeviceClause,
        DevicesPerNode,
        PciClause,
        Shape,
    )


def from_shape(text: str) -> Machine:
    """Return the machine that *text* describes: a shape, a preset, or a preset with changes.

    Raises:
        InvalidValue: with the column and the clause at fault.
    """
    return build(parse(text, presets=PRESETS))


def to_shape(machine: Machine) -> str:
    """Return the one line from which `from_shape` makes *machine*.

    Raises:
        InvalidValue: the machine is not regular enough; the message says where.
    """
    return print_shape(infer(machine))


def print_shape(shape: Shape) -> str:
    """Return the sentence that `shape_parse.parse` reads as *shape*."""
    return ", ".join((*_processor_clauses(shape), *_memory_clauses(shape), *_other_clauses(shape)))


def _processor_clauses(shape: Shape) -> Iterator[str]:
    yield f"{shape.sockets} socket{'s' if shape.sockets != 1 else ''}"
    if shape.numa_is_total:
        yield f"{shape.numa} numa total"
    elif shape.numa != 1:
        yield f"{shape.numa} numa each"
    yield f"{_list(shape, (_cores_text(count, shape.smt) for count in shape.cores))} cores"
    if shape.smt != 1:
        yield f"smt {shape.smt}"
    if shape.numbering is not Numbering.SIBLINGS_LAST:
        yield f"numbering {shape.numbering}"
    if shape.core_ids is not CoreIds.SOCKET:
        yield f"core-ids {shape.core_ids}"
    if shape.uncore is not None:
        yield f"uncore {shape.uncore}"


def _memory_clauses(shape: Shape) -> Iterator[str]:
    yield _list(shape, (size_text(size) for size in shape.memory))
    for clause in shape.hugepages:
        counts = _list(shape, ("-" if n is None else str(n) for n in clause.counts))
        yield f"hugepages-{size_text(clause.page_bytes)} {counts}"
    for size, group in groupby(shape.extra_memory):
        number = len(list(group))
        yield f"{number if number > 1 else ''} cxl {size_text(size)}".lstrip()


def _other_clauses(shape: Shape) -> Iterator[str]:
    if shape.ids:
        yield f"ids {' '.join(map(str, shape.ids))}"
    if shape.distances != DEFAULT_DISTANCES:
        yield f"distances {_distances_text(shape)}"
    yield from (_devices_text(shape, clause) for clause in shape.devices)
    if shape.pci is not None:
        yield _pci_text(shape.pci)
    yield from (f"links {clause.count} {_name(clause.resource)}" for clause in shape.links)


def _list(shape: Shape, items: Iterable[str]) -> str:
    """Join *items* with slashes, or say it once if it is so on every node with a socket."""
    listed = list(items)
    same = len(set(listed)) == 1 and len(listed) <= shape.socketed_nodes
    return listed[0] if same else "/".join(listed)


def _cores_text(count: CoreCount, smt: int) -> str:
    if smt == 1 or not count.single:
        return str(count.full + count.single)
    return f"{count.full}p+{count.single}e" if count.full else f"{count.single}e"


def _distances_text(shape: Shape) -> str:
    match shape.distances:
        case None:
            return "none"
        case DistanceLevels() as levels:
            used = max(i for i in range(len(levels)) if i == 0 or levels[i] != DEFAULT_DISTANCES[i])
            return " ".join(map(str, levels[: used + 1]))
        case matrix:
            return " / ".join(" ".join(map(str, row)) for row in matrix)


def _devices_text(shape: Shape, clause: DeviceClause) -> str:
    items = (_item_text(shape, item) for item in clause.items)
    return " ".join((_name(clause.resource), *items))


def _pci_text(clause: PciClause) -> str:
    one = {"switches": "switch", "slots": "slot"} if clause.count == 1 else {}
    return " ".join((str(clause.count), *(one.get(word, word) for word in clause.kind.split())))


def _name(resource: str) -> str:
    domain, _, short = resource.rpartition("/")
    return short if domain == SHORT_DOMAIN and is_short_name(short) else resource


def _item_text(shape: Shape, item: DevicesPerNode | DeviceGroup) -> str:
    if isinstance(item, DeviceGroup):
        return f"{item.count}@{'+'.join(map(str, item.nodes)) or '-'}"
    return _list(shape, map(str, item))
