"""NUMA masks: sets of at most 64 NUMA nodes, as plain integers with a bit a node.

Plain integers because the hint merge compares millions of them. Order and iteration follow the
kubelet's ``bitmask`` package: *narrower* means fewer nodes, then the smaller number; subsets are
visited by size, and inside a size lexicographically by position.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations
from typing import TYPE_CHECKING, TypeAlias

from numakube.errors import InvalidValue
from numakube.values.cpuset import iter_bits

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

NumaMask: TypeAlias = int
"""A set of NUMA nodes; bit *n* is node *n*."""

MAX_NODE_ID = 63


def mask_of(nodes: Iterable[int]) -> NumaMask:
    """Return the mask of the given NUMA node ids."""
    mask = 0
    for node in nodes:
        if not 0 <= node <= MAX_NODE_ID:
            raise InvalidValue(f"NUMA node {node}: a mask holds nodes 0 to {MAX_NODE_ID}")
        mask |= 1 << node
    return mask


@lru_cache(maxsize=4096)
def nodes_of(mask: NumaMask) -> tuple[int, ...]:
    """Return the NUMA node ids of *mask*, ascending."""
    return tuple(iter_bits(mask))


def narrowness(mask: NumaMask) -> tuple[int, int]:
    """Return the key that sorts masks from the narrowest to the widest."""
    return mask.bit_count(), mask


@lru_cache(maxsize=256)
def masks_over(nodes: tuple[int, ...], *, alone: bool = False) -> tuple[NumaMask, ...]:
    """Return every non-empty subset of *nodes*, or of one of them, smallest subsets first."""
    bits = tuple(mask_of((node,)) for node in nodes)
    sizes = range(1, 2 if alone else len(bits) + 1)
    return tuple(sum(subset) for size in sizes for subset in combinations(bits, size))


@lru_cache(maxsize=1024)
def masks_of_size(nodes: tuple[int, ...], size: int) -> tuple[NumaMask, ...]:
    """Return every subset of *nodes* with *size* members, in the order of `masks_over`."""
    return tuple(sum(subset) for subset in combinations([1 << node for node in nodes], size))


def sums_over(amounts: Mapping[int, int], *, alone: bool = False) -> dict[NumaMask, int]:
    """Return for every mask of the nodes in *amounts*, or of one of them, the sum over it."""
    if alone:
        return {1 << node: amount for node, amount in amounts.items()}
    sums = {0: 0}
    for node, amount in amounts.items():
        bit = 1 << node
        sums |= {mask | bit: total + amount for mask, total in sums.items()}
    return sums
