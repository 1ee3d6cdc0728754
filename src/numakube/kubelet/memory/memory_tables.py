"""The Memory Manager's books: per NUMA node and memory type, what is reserved and what is free.

A node is used either alone or in one fixed group of nodes at a time (``cells``). Sizes are unsigned
64-bit in the kubelet, without protection against underflow: more hugepages and reservations than
memory make a node look almost infinite, and so they do here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from numakube.values.resources import MEMORY, hugepage_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numakube.kubelet.admission_outcome import MemoryBlock
    from numakube.kubelet.machine import Machine, NumaNode

UINT64 = (1 << 64) - 1
"""Every sum of sizes is taken modulo 2**64: AND it with this."""


@dataclass(slots=True)
class MemoryTable:
    """Bytes of one memory type on one NUMA node."""

    total: int
    system_reserved: int
    allocatable: int
    reserved: int = 0
    free: int = 0

    def copy(self) -> MemoryTable:
        """Return an independent copy, in less time than `dataclasses.replace` takes."""
        return MemoryTable(
            self.total, self.system_reserved, self.allocatable, self.reserved, self.free
        )


@dataclass(slots=True)
class NodeMemory:
    """Memory of one NUMA node; ``cells`` is the group that it is used in, itself included."""

    cells: tuple[int, ...]
    assignments: int = 0
    tables: dict[str, MemoryTable] = field(default_factory=dict)

    def free(self, kind: str) -> int:
        """Return the free bytes of a type; 0 if the node has none of it."""
        table = self.tables.get(kind)
        return table.free if table else 0

    def wraps(self, kind: str) -> bool:
        """Tell whether more of a type is reserved than there is."""
        return self.allocatable(kind) > UINT64 >> 1

    def allocatable(self, kind: str) -> int:
        """Return the bytes of a type that pods may use; 0 if the node has none of it."""
        table = self.tables.get(kind)
        return table.allocatable if table else 0


MemoryBooks = dict[int, NodeMemory]


def empty_books(machine: Machine, reserved: Mapping[int, Mapping[str, int]]) -> MemoryBooks:
    """Return the books of a machine on which nothing runs."""
    return {
        node.id: NodeMemory((node.id,), tables=_tables(node, reserved.get(node.id, {})))
        for node in machine.nodes
    }


def copy_books(books: MemoryBooks) -> MemoryBooks:
    """Return an independent copy."""
    return {
        node: NodeMemory(
            memory.cells,
            memory.assignments,
            {kind: table.copy() for kind, table in memory.tables.items()},
        )
        for node, memory in books.items()
    }


def charge(books: MemoryBooks, nodes: tuple[int, ...], kind: str, size: int) -> None:
    """Book *size* bytes on a group of nodes, filling them in order."""
    for node in nodes:
        memory = books[node]
        memory.assignments += 1
        memory.cells = nodes
        table = memory.tables.get(kind)
        if size and table:
            part = min(size, table.free)
            table.free -= part
            table.reserved += part
            size -= part


def release(books: MemoryBooks, blocks: Iterable[MemoryBlock]) -> None:
    """Undo `charge` for each of *blocks*; inside a group the split over nodes may differ."""
    for block in blocks:
        size = block.size_bytes
        for node in block.numa_nodes:
            memory = books[node]
            memory.assignments -= 1
            if memory.assignments == 0:
                memory.cells = (node,)
            table = memory.tables.get(block.type)
            if size and table:
                part = min(size, table.reserved)
                table.free += part
                table.reserved -= part
                size -= part


def _tables(node: NumaNode, reserved: Mapping[str, int]) -> dict[str, MemoryTable]:
    tables = {}
    hugepages_total = 0
    for pool in node.hugepages:
        kind = hugepage_name(pool.page_bytes)
        tables[kind] = _table(pool.total_bytes, reserved.get(kind, 0))
        hugepages_total += pool.total_bytes
    tables[MEMORY] = _table(node.memory_bytes, reserved.get(MEMORY, 0), taken=hugepages_total)
    return tables


def _table(total: int, reserved: int, *, taken: int = 0) -> MemoryTable:
    allocatable = (total - reserved - taken) & UINT64
    return MemoryTable(total, reserved, allocatable, free=allocatable)
