"""Topology hints for memory and hugepages (spec 7.4).

All memory types of a request are placed together, on the same group of nodes. A node that is used
alone cannot join a group, and a group cannot change, until all its assignments have ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.kubelet.hints import Hint
from numakube.values.numamask import NumaMask, masks_over, nodes_of, sums_over

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numakube.kubelet.memory.tables import MemoryBooks

_UINT64 = (1 << 64) - 1


def memory_hints(
    books: MemoryBooks,
    request: Mapping[str, int],
    reusable: Callable[[NumaMask, str], int],
) -> list[Hint]:
    """Return the groups of nodes that can hold *request*; the same list serves every type."""
    nodes = tuple(sorted(books))
    allocatable = {
        kind: sums_over({node: books[node].allocatable(kind) for node in nodes}) for kind in request
    }
    free = {kind: sums_over({node: books[node].free(kind) for node in nodes}) for kind in request}
    smallest = len(nodes)
    fitting = []
    for mask in masks_over(nodes):
        if any(allocatable[kind][mask] & _UINT64 < size for kind, size in request.items()):
            continue
        smallest = min(smallest, mask.bit_count())
        if group_is_usable(books, mask) and all(
            (free[kind][mask] + reusable(mask, kind)) & _UINT64 >= size
            for kind, size in request.items()
        ):
            fitting.append(mask)
    return [Hint(mask, mask.bit_count() == smallest) for mask in fitting]


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
