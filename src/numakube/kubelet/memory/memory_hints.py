"""Topology hints for memory and hugepages.

All memory types of a request are placed together, on the same group of nodes. A node that is used
alone cannot join a group, and a group cannot change, until all its assignments have ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from numakube.kubelet.admission_outcome import NoAnswer
from numakube.kubelet.kubelet_effort import check_sets
from numakube.kubelet.memory.memory_tables import UINT64, NodeMemory
from numakube.kubelet.topology_hints import Hint, hints_on
from numakube.kubelet.wide_hints import MOST_LISTABLE, MOST_LISTED, Cover, WideHints
from numakube.values.numamask import NumaMask, mask_of, masks_over, nodes_of, sums_over

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from numakube.kubelet.memory.memory_tables import MemoryBooks

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
