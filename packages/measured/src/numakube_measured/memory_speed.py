"""How fast memory is between NUMA nodes: the figures, and what they mean for a pod. Pure.

A Node can carry them as an annotation: the NUMA nodes with memory, then for the CPUs of each node
the bandwidth of each memory in MiB a second, or ``-`` where that is unknown:

    memory 0 1; 0: 40000 22000; 1: 21900 40100
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from numakube.topology.nrt_names import OUR_PREFIX

if TYPE_CHECKING:
    from collections.abc import Mapping

ANNOTATION: Final = OUR_PREFIX + "memory-speed"
NOISY: Final = 0.15
"""The spread of repeats from which on a figure is not to be trusted."""
_MOST_CHARACTERS: Final = 1 << 16
_MOST_DIGITS: Final = 9


class Cell(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The memory of one NUMA node, used by the CPUs of another; ``None`` is unknown."""

    cpus: int
    memory: int
    mi_per_second: int | None = None
    bandwidth_spread: float | None = None
    latency_ns: float | None = None
    latency_spread: float | None = None

    @property
    def is_noisy(self) -> bool:
        """Whether repeats differ so much that the figures say little."""
        return max(self.bandwidth_spread or 0.0, self.latency_spread or 0.0) > NOISY


class MemorySpeed(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Every pair of NUMA nodes."""

    api_version: str = "insight.numakube.dev/v1alpha1"
    kind: str = "MemorySpeed"
    host: str = ""
    taken_at: str = ""
    mebibytes: int = 0
    repeats: int = 0
    warnings: tuple[str, ...] = ()
    cells: tuple[Cell, ...] = ()

    @property
    def cpu_nodes(self) -> list[int]:
        """The NUMA nodes with CPUs."""
        return sorted({cell.cpus for cell in self.cells})

    @property
    def memory_nodes(self) -> list[int]:
        """The NUMA nodes with memory."""
        return sorted({cell.memory for cell in self.cells})

    def cell(self, cpus: int, memory: int) -> Cell:
        """Return one pair."""
        found = (one for one in self.cells if (one.cpus, one.memory) == (cpus, memory))
        return next(found, Cell(cpus=cpus, memory=memory))

    def share(self, cpus: int, memory: int) -> float | None:
        """Return a bandwidth as a share of that of the best memory for the same CPUs."""
        known = [one.mi_per_second for one in self.cells if one.cpus == cpus and one.mi_per_second]
        speed = self.cell(cpus, memory).mi_per_second
        return speed / max(known) if speed and known else None


def write_speed(speed: MemorySpeed) -> str:
    """Return the annotation's text."""
    rows = [
        f"{cpus}: "
        + " ".join(str(speed.cell(cpus, node).mi_per_second or "-") for node in speed.memory_nodes)
        for cpus in speed.cpu_nodes
    ]
    return "; ".join((f"memory {' '.join(map(str, speed.memory_nodes))}", *rows))


def read_speed(annotations: Mapping[str, str]) -> MemorySpeed | None:
    """Return what annotations of a Node say; ``None`` if nothing, or nothing that makes sense."""
    text = annotations.get(ANNOTATION, "")
    if not text or len(text) > _MOST_CHARACTERS:
        return None
    head, *rows = text.split(";")
    title = head.split()
    nodes = [_number(one) for one in title[1:]]
    if title[:1] != ["memory"] or not nodes or None in nodes:
        return None
    cells: list[Cell] = []
    for row in rows:
        cpus, _, figures = row.partition(":")
        number, words = _number(cpus.strip()), figures.split()
        if number is None or len(words) != len(nodes):
            return None
        cells += (
            Cell(cpus=number, memory=node, mi_per_second=_number(figure))
            for node, figure in zip(nodes, words, strict=True)
            if node is not None
        )
    return MemorySpeed(cells=tuple(cells)) if cells else None


def _number(text: str) -> int | None:
    is_one = text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS
    return int(text) if is_one else None


def speed_of(
    speed: MemorySpeed, cpus: Mapping[int, int], memory: Mapping[int, int]
) -> float | None:
    """Return how fast a program reads its memory, as a share of its best bandwidth.

    The time for a byte adds up over the memory: a tenth of it at half the speed costs a tenth.

    Args:
        speed: of the machine.
        cpus: weights of NUMA nodes on which it runs.
        memory: its memory by NUMA node.
    """
    total, weight = sum(memory.values()), sum(cpus.values())
    if not total or not weight:
        return None
    known = {(cell.cpus, cell.memory): cell.mi_per_second for cell in speed.cells}
    best: dict[int, int] = {}
    for (node, _), figure in known.items():
        best[node] = max(best.get(node, 0), figure or 0)
    seconds = 0.0
    for node, part in cpus.items():
        for zone, size in memory.items():
            if not size or not part:
                continue
            figure = known.get((node, zone))
            if not figure:
                return None
            seconds += part / weight * size / total * best[node] / figure
    return 1 / seconds if seconds else None
