"""The short texts inside a report: sizes, NUMA nodes, memory, devices and what a pod holds.

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
from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING, Final

from numakube.errors import InvalidValue
from numakube.kubelet.admission_outcome import MemoryBlock
from numakube.kubelet.machines.shape import UNITS, size_text
from numakube.kubelet.preferred_allocation import Preference
from numakube.topology.exact_report import DeviceChoice, DeviceTable, Holding, MemoryCell
from numakube.values.cpuset import CpuSet
from numakube.values.numamask import MAX_NODE_ID
from numakube.values.resources import HUGEPAGES_PREFIX, MEMORY
from numakube.values.size_limits import MAX_DEVICES, limited

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

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
    for one in positions:
        if runs and runs[-1][-1] + 1 == one:
            runs[-1].append(one)
        else:
            runs.append([one])
    return ",".join(_write_positions(run) for run in runs)


def _read_order(text: str) -> tuple[int, ...]:
    return tuple(one for part in text.split(",") for one in _read_positions(part))


def write_holding(holding: Holding, resources: Mapping[str, int]) -> str:
    """Return what a pod holds, given the position of each device resource."""
    parts = [f"c{holding.cpus}"] if holding.cpus else []
    parts += (
        f"{_write_kind(one.type)}@{_write_nodes(one.numa_nodes)}={write_size(one.size_bytes)}"
        for one in holding.memory
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
