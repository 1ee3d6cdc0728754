"""Topology hints for memory and hugepages.

All memory types of a request are placed together, on the same group of nodes. A node that is used
alone cannot join a group, and a group cannot change, until all its assignments have ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.kubelet.memory.memory_tables import UINT64
from numakube.kubelet.topology_hints import Hint, hints_on
from numakube.values.numamask import NumaMask, mask_of, masks_over, nodes_of, sums_over

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from numakube.kubelet.memory.memory_tables import MemoryBooks


def memory_hints(
    books: MemoryBooks,
    request: Mapping[str, int],
    reusable: Callable[[NumaMask, str], int],
) -> list[Hint]:
    """Return the groups of nodes that can hold *request*; the same list serves every type."""
    nodes = tuple(sorted(books))
    large_enough = masks_over(nodes)
    for kind, size in request.items():
        sums = sums_over({node: books[node].allocatable(kind) for node in nodes})
        large_enough = tuple([mask for mask in large_enough if sums[mask] & UINT64 >= size])
    smallest = large_enough[0].bit_count() if large_enough else len(nodes)
    fitting = _usable(books, large_enough)
    for kind, size in request.items():
        free = sums_over({node: books[node].free(kind) for node in nodes})
        fitting = [m for m in fitting if (free[m] + reusable(m, kind)) & UINT64 >= size]
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
    return any(
        books[node].assignments > 0 and (len(books[node].cells) == 1 or books[node].cells != nodes)
        for node in nodes
    )


def best_hint(hints: list[Hint]) -> Hint | None:
    """Return the preferred and narrowest of *hints*."""
    return min(
        hints,
        key=lambda hint: (not hint.preferred, (hint.mask or 0).bit_count(), hint.mask or 0),
        default=None,
    )
