"""The Memory Manager's books, and topology hints for memory and hugepages from them.

All memory types of a request are placed together, on the same group of nodes. A node that is used
alone cannot join a group, and a group cannot change, until all its assignments have ended.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from numakube.kubelet.admission_outcome import NoAnswer
from numakube.kubelet.topology_hints import Hint, hints_on
from numakube.kubelet.wide_hints import MOST_LISTABLE, MOST_LISTED, Cover, WideHints, check_sets
from numakube.values.numamask import NumaMask, mask_of, masks_over, nodes_of, sums_over
from numakube.values.resources import MEMORY, hugepage_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from numakube.kubelet.admission_outcome import MemoryBlock
    from numakube.kubelet.machine import Machine, NumaNode


# The Memory Manager's books: per NUMA node and memory type, what is reserved and what is free.
#
# A node is used either alone or in one fixed group of nodes at a time (``cells``). Sizes are
# unsigned 64-bit in the kubelet, without protection against underflow: more hugepages and
# reservations than memory make a node look almost infinite, and so they do here.


UINT64 = (1 << 64) - 1
"""Every sum of sizes is taken modulo 2**64: AND it with this."""


@dataclass(slots=True)
class MemoryAmounts:
    """Bytes of one memory type on one NUMA node."""

    total: int
    system_reserved: int
    allocatable: int
    reserved: int = 0
    free: int = 0

    def copy(self) -> MemoryAmounts:
        """Return an independent copy, in less time than `dataclasses.replace` takes."""
        return MemoryAmounts(
            self.total, self.system_reserved, self.allocatable, self.reserved, self.free
        )


@dataclass(slots=True)
class NodeMemory:
    """Memory of one NUMA node; ``cells`` is the group that it is used in, itself included."""

    cells: tuple[int, ...]
    assignments: int = 0
    tables: dict[str, MemoryAmounts] = field(default_factory=dict)

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


def _tables(node: NumaNode, reserved: Mapping[str, int]) -> dict[str, MemoryAmounts]:
    tables = {}
    hugepages_total = 0
    for pool in node.hugepages:
        kind = hugepage_name(pool.page_bytes)
        tables[kind] = _table(pool.total_bytes, reserved.get(kind, 0))
        hugepages_total += pool.total_bytes
    tables[MEMORY] = _table(node.memory_bytes, reserved.get(MEMORY, 0), taken=hugepages_total)
    return tables


def _table(total: int, reserved: int, *, taken: int = 0) -> MemoryAmounts:
    allocatable = (total - reserved - taken) & UINT64
    return MemoryAmounts(total, reserved, allocatable, free=allocatable)


Reusable: TypeAlias = "Mapping[tuple[NumaMask, str], int]"
"""What a group of nodes has of a memory type that finished init containers of the pod left."""


def memory_hints(
    books: MemoryBooks, request: Mapping[str, int], reusable: Reusable, *, alone: bool = False
) -> list[Hint] | WideHints:
    """Return the groups of nodes that can hold *request*; the same hints serve every type.

    Those of several nodes may be left out if only nodes *alone* are asked for.
    """
    wraps = any(memory.wraps(kind) for memory in books.values() for kind in request)
    if len(books) <= MOST_LISTED or (wraps and len(books) <= MOST_LISTABLE):
        return listed_memory_hints(books, request, reusable, alone=alone)
    check_sets(len(books))
    if wraps:
        raise NoAnswer(
            "more memory is reserved on a NUMA node than it has: the model does not follow the "
            f"kubelet there on more than {MOST_LISTABLE} NUMA nodes"
        )
    return wide_memory_hints(books, request, reusable)


def wide_memory_hints(
    books: MemoryBooks, request: Mapping[str, int], reusable: Reusable
) -> WideHints:
    """Return the same, described."""
    nodes = tuple(sorted(books))
    total = (_cover(books, kind, size, NodeMemory.allocatable) for kind, size in request.items())
    smallest = WideHints(nodes, tuple(total)).narrowest or len(nodes)
    groups = {mask_of(memory.cells) for memory in books.values()}
    masks = {1 << node for node in nodes} | groups | {mask for mask, _ in reusable}
    listed = (mask for mask in masks if _is_hint(books, mask, request, reusable))
    return WideHints(
        nodes,
        tuple(_cover(books, kind, size, NodeMemory.free) for kind, size in request.items()),
        smallest,
        open=mask_of(node for node in nodes if not books[node].assignments),
        least=2,
        listed=frozenset(listed),
    )


def _cover(
    books: MemoryBooks, kind: str, size: int, amount: Callable[[NodeMemory, str], int]
) -> Cover:
    return Cover({1 << node: amount(memory, kind) for node, memory in books.items()}, size)


def _is_hint(
    books: MemoryBooks, mask: NumaMask, request: Mapping[str, int], reusable: Reusable
) -> bool:
    nodes = [books[node] for node in nodes_of(mask)]
    return group_is_usable(books, mask) and all(
        sum(node.allocatable(kind) for node in nodes) >= size
        and sum(node.free(kind) for node in nodes) + reusable.get((mask, kind), 0) >= size
        for kind, size in request.items()
    )


def listed_memory_hints(
    books: MemoryBooks, request: Mapping[str, int], reusable: Reusable, *, alone: bool = False
) -> list[Hint]:
    """Return the same, one by one."""
    nodes = tuple(sorted(books))
    large_enough = masks_over(nodes, alone=alone)
    for kind, size in request.items():
        sums = sums_over({node: books[node].allocatable(kind) for node in nodes}, alone=alone)
        large_enough = tuple([mask for mask in large_enough if sums[mask] & UINT64 >= size])
    smallest = large_enough[0].bit_count() if large_enough else len(nodes)
    fitting = _usable(books, large_enough)
    for kind, size in request.items():
        free = sums_over({node: books[node].free(kind) for node in nodes}, alone=alone)
        fitting = [m for m in fitting if (free[m] + reusable.get((m, kind), 0)) & UINT64 >= size]
    return hints_on(nodes, fitting, smallest)


def _usable(books: MemoryBooks, masks: Iterable[NumaMask]) -> list[NumaMask]:
    """Return those of *masks* that collide with no group in use."""
    grouped = mask_of(node for node, memory in books.items() if len(memory.cells) != 1)
    alone = mask_of(
        node for node, memory in books.items() if memory.assignments > 0 and len(memory.cells) == 1
    )
    return [
        mask
        for mask in masks
        # A node in use alone joins no group; those in groups have to be looked at.
        if (not mask & alone or not mask & (mask - 1))
        and (not mask & grouped or group_is_usable(books, mask))
    ]


def group_is_usable(books: MemoryBooks, mask: NumaMask) -> bool:
    """Tell whether *mask* collides with no group in use."""
    nodes = nodes_of(mask)
    if len(nodes) == 1:
        return len(books[nodes[0]].cells) == 1
    return not splits_a_group(books, nodes)


def splits_a_group(books: MemoryBooks, nodes: tuple[int, ...]) -> bool:
    """Tell whether a group of several nodes has a member in use alone or in another group."""
    if len(nodes) == 1:
        return False
    return any(books[node].assignments > 0 and books[node].cells != nodes for node in nodes)


def best_hint(hints: list[Hint] | WideHints, within: NumaMask) -> Hint | None:
    """Return the preferred and narrowest of the *hints* that have all nodes of *within*."""
    if isinstance(hints, WideHints):
        return _best_wide_hint(hints, within)
    return min(
        (hint for hint in hints if within & ~(hint.mask or 0) == 0),
        key=lambda hint: (not hint.preferred, (hint.mask or 0).bit_count(), hint.mask or 0),
        default=None,
    )


def _best_wide_hint(hints: WideHints, within: NumaMask) -> Hint | None:
    for size in (hints.smallest, *range(1, len(hints.nodes) + 1)):
        mask = hints.first(size, within=within)
        if mask is not None:
            return Hint(mask, preferred=size == hints.smallest)
    return None
