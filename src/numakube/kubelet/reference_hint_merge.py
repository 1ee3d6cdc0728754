"""The hint merge straight from its definition: every permutation, compared one by one.

Kept beside `numakube.kubelet.hint_merge` as its oracle and as the text to read to understand the
rules. Exponential: 255**3 steps for three resources on eight NUMA nodes.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from numakube.kubelet.topology_hints import Hint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numakube.kubelet.numa_ranking import NumaInfo
    from numakube.kubelet.topology_hints import Axis


def merge(axes: Sequence[Axis], numa: NumaInfo) -> Hint:
    """Return the best hint over all permutations, or everywhere and not preferred."""
    wanted = max(
        (
            min(hint.mask.bit_count() for hint in axis if hint.mask is not None)
            for axis in axes
            if any(hint.mask is not None for hint in axis)
        ),
        default=0,
    )
    best: Hint | None = None
    for permutation in product(*axes):
        candidate = _conjunction(permutation, numa)
        if candidate.mask and (best is None or _beats(candidate, best, wanted, numa)):
            best = candidate
    return best or Hint(numa.everywhere, preferred=False)


def _conjunction(permutation: Sequence[Hint], numa: NumaInfo) -> Hint:
    mask = numa.everywhere
    masks = set()
    for hint in permutation:
        if hint.mask is not None:
            mask &= hint.mask
            masks.add(hint.mask)
    preferred = all(hint.preferred for hint in permutation) and len(masks) <= 1
    return Hint(mask, preferred)


def _beats(candidate: Hint, current: Hint, wanted: int, numa: NumaInfo) -> bool:
    """Tell whether *candidate* replaces *current*."""
    if candidate.preferred != current.preferred:
        return candidate.preferred
    one, other = candidate.mask or 0, current.mask or 0
    fitter = numa.fitness(one) < numa.fitness(other)
    if candidate.preferred:
        return fitter
    size, current_size = one.bit_count(), other.bit_count()
    if current_size > wanted:
        return fitter
    if current_size == wanted:
        return size == wanted and fitter
    if size > wanted or size < current_size:
        return False
    return size > current_size or fitter
