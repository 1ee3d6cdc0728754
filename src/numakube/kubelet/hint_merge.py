"""Merge the hints of all providers into one, with the kubelet's answer but not its cost.

The kubelet walks the product of all axes: 255**3 permutations at eight NUMA nodes and three
resources. Its comparison is a total preorder, so the winner can be found from sets instead:

1. A *preferred* candidate needs the same mask, preferred, on every axis (an axis may abstain with
   a preferred "anywhere"). Intersecting the axes' preferred masks yields all of them, and any of
   them beats every other candidate.
2. Otherwise every permutation is non-preferred, and only the *set* of masks that can come out of
   ANDing one mask of each axis matters. It is built axis by axis (see `_conjunctions`).

`numakube.kubelet.reference_hint_merge` is the definition; a property test proves both equal. Rules:
``pkg/kubelet/cm/topologymanager/policy.go`` of Kubernetes 1.26 to 1.37.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from numakube.kubelet.topology_hints import ANYWHERE, Hint
from numakube.values.numamask import mask_of, nodes_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numakube.kubelet.numa_ranking import NumaInfo
    from numakube.kubelet.topology_hints import Axis
    from numakube.values.numamask import NumaMask

# Pairs of masks up to which two sets are ANDed one by one; above, the transform is cheaper, as long
# as it has no more nodes than this.
_DIRECT_PAIRS = 4096
_MOST = 16


def merge(axes: Sequence[Axis], numa: NumaInfo) -> Hint:
    """Return the best hint that takes one alternative of every axis."""
    if not all(axes):
        return Hint(numa.everywhere, preferred=False)
    preferred = _preferred_masks(axes, numa)
    if preferred:
        return Hint(min(preferred, key=numa.fitness), preferred=True)
    masks = (mask for mask in _conjunctions(axes, numa) if mask)
    return Hint(better_mask(masks, _best_non_preferred_count(axes), numa), preferred=False)


def better_mask(masks: Iterable[NumaMask], wanted: int, numa: NumaInfo) -> NumaMask:
    """Return the best of *masks* that are not preferred, or all nodes if there is no mask."""
    return min(
        masks,
        key=lambda mask: (*_distance_from(wanted, mask), *numa.fitness(mask)),
        default=numa.everywhere,
    )


def _preferred_masks(axes: Sequence[Axis], numa: NumaInfo) -> set[NumaMask]:
    """Return the masks on which all axes agree with preferred hints."""
    agreed: set[NumaMask] = set()
    all_may_abstain = True
    for axis in axes:
        masks = {hint.mask for hint in axis if hint.preferred and hint.mask is not None}
        may_abstain = ANYWHERE in axis
        kept = agreed if may_abstain else agreed & masks
        agreed = kept | masks if all_may_abstain else kept
        all_may_abstain = all_may_abstain and may_abstain
    merged = {mask & numa.everywhere for mask in agreed} - {0}
    return merged | {numa.everywhere} if all_may_abstain else merged


def _best_non_preferred_count(axes: Iterable[Axis]) -> int:
    """Return the size a non-preferred mask should have: the widest of the axes' narrowest masks."""
    return max(
        (
            min(sizes)
            for axis in axes
            if (sizes := [hint.mask.bit_count() for hint in axis if hint.mask is not None])
        ),
        default=0,
    )


def _distance_from(wanted: int, mask: NumaMask) -> tuple[int, int]:
    """Rank sizes: *wanted* first, then smaller ones downwards, then larger ones upwards."""
    size = mask.bit_count()
    if size <= wanted:
        return (0, wanted - size)
    return (1, size)


def _conjunctions(axes: Iterable[Axis], numa: NumaInfo) -> Iterable[NumaMask]:
    """Return every mask that ANDing one mask of each axis can give."""
    # Equal axes count each: a permutation may take another mask of every one of them.
    sets = [
        frozenset(numa.everywhere if hint.mask is None else hint.mask for hint in axis)
        for axis in axes
    ]
    reached: Iterable[NumaMask] = (numa.everywhere,)
    size = 1
    for masks in sorted(sets, key=len):
        if size * len(masks) > _DIRECT_PAIRS and len(nodes := _nodes_in_common(sets)) <= _MOST:
            return _transformed_conjunctions(sets, nodes)
        reached = {one & other for one in reached for other in masks}
        size = len(reached)
    return reached


def _nodes_in_common(sets: Iterable[frozenset[NumaMask]]) -> tuple[int, ...]:
    """Return the nodes that can be in a conjunction: those that every set has in some mask."""
    common = -1
    for masks in sets:
        common &= reduce(or_, masks)
    return nodes_of(common)


def _transformed_conjunctions(
    sets: Iterable[frozenset[NumaMask]], nodes: tuple[int, ...]
) -> Iterable[NumaMask]:
    """Do the same by sums over supersets, in time linear in the number of masks an axis.

    With ``f(m)`` the number of masks of an axis that contain *m*, the product of all ``f`` counts
    the permutations whose AND contains *m*; inverting the sum gives those whose AND is *m*.
    """
    common = mask_of(nodes)
    position = {1 << node: 1 << index for index, node in enumerate(nodes)}
    product = [1] * (1 << len(nodes))
    for masks in sets:
        counts = [0] * len(product)
        for mask in masks:
            counts[_translate(mask & common, position)] = 1
        _sum_over_supersets(counts, sign=1)
        product = [one * other for one, other in zip(product, counts, strict=True)]
    _sum_over_supersets(product, sign=-1)
    back = {index: node for node, index in position.items()}
    return [_translate(index, back) for index, count in enumerate(product) if count]


def _sum_over_supersets(values: list[int], *, sign: int) -> None:
    """Replace each value by the sum over its supersets (or undo that with ``sign=-1``)."""
    bit = 1
    while bit < len(values):
        for base in range(0, len(values), 2 * bit):
            for index in range(base, base + bit):
                values[index] += sign * values[index + bit]
        bit *= 2


def _translate(mask: int, table: dict[int, int]) -> int:
    """Move every bit of *mask* to where *table* says."""
    result = 0
    while mask:
        low = mask & -mask
        result |= table[low]
        mask ^= low
    return result
