"""The hint merge where hints are described instead of listed (`numakube.kubelet.wide_hints`).

Only NUMA nodes that every resource has hints on can be in the result: on a machine with CPUs on two
of 34 NUMA nodes that leaves two, whose sets are few. The other case is that only one resource cares
at all, which then has its own best hint. What is left is listed if the kubelet could list it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import islice
from operator import and_
from typing import TYPE_CHECKING, Final, TypeAlias

from numakube.kubelet.admission_outcome import NoAnswer
from numakube.kubelet.hint_merge import better_mask, merge
from numakube.kubelet.kubelet_effort import check_permutations
from numakube.kubelet.topology_hints import Hint
from numakube.kubelet.wide_hints import MOST_LISTABLE, MOST_LISTED, WideHints
from numakube.values.numamask import NumaMask, masks_over, nodes_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numakube.kubelet.numa_ranking import NumaInfo
    from numakube.kubelet.topology_hints import Axis

AnyAxis: TypeAlias = "Axis | WideHints"

# Hints of two resources up to which all pairs of them are looked at.
_MOST_MEMBERS: Final = 1000


@dataclass(frozen=True)
class _Listed:
    """Listed hints, behind the questions that `WideHints` answers."""

    axis: Axis

    @cached_property
    def everywhere(self) -> NumaMask:
        nodes = 0
        for hint in self.axis:
            nodes |= hint.mask or 0
        return nodes

    @cached_property
    def narrowest(self) -> int:
        return min(hint.mask.bit_count() for hint in self.axis if hint.mask is not None)

    def prefers(self, mask: NumaMask) -> bool:
        return Hint(mask, preferred=True) in self.axis

    def parts(self, within: NumaMask) -> set[NumaMask]:
        return {hint.mask & within for hint in self.axis if hint.mask is not None} - {0}


def merge_wide(axes: Sequence[AnyAxis], numa: NumaInfo) -> Hint:
    """Return the best hint that takes one alternative of every axis, as `merge` does."""
    wide = [axis for axis in axes if isinstance(axis, WideHints)]
    listed = [axis for axis in axes if not isinstance(axis, WideHints)]
    if not wide:
        return merge(listed, numa)
    check_permutations(axes)
    if not all(axes):
        return Hint(numa.everywhere, preferred=False)
    caring = [_Listed(axis) for axis in listed if any(hint.mask is not None for hint in axis)]
    # A resource that does not care is one preferred "anywhere"; one that fits nowhere is not.
    hopeful = all(any(hint.preferred for hint in axis) for axis in listed)
    families: list[WideHints | _Listed] = [*wide, *caring]
    common = reduce(and_, (one.everywhere for one in families), numa.everywhere)
    if common.bit_count() <= MOST_LISTED:
        return _merge_on(common, families, numa, hopeful=hopeful)
    if len(wide) == 1 and not caring:
        return _best_of(wide[0], numa, hopeful=hopeful)
    if hopeful and not caring and (mask := _preferred_by_all(wide, numa)):
        return Hint(mask, preferred=True)
    return merge([_listing(axis) for axis in axes], numa)


def _merge_on(
    common: NumaMask, families: Sequence[WideHints | _Listed], numa: NumaInfo, *, hopeful: bool
) -> Hint:
    """Merge hints of which only the few nodes of *common* can be in the result."""
    masks = masks_over(nodes_of(common))
    preferred = [mask for mask in masks if all(one.prefers(mask) for one in families)]
    if preferred and hopeful:
        return Hint(min(preferred, key=numa.fitness), preferred=True)
    reached = {numa.everywhere}
    for family in families:
        parts = family.parts(common)
        reached = {one & part for one in reached for part in parts} - {0}
    wanted = max(one.narrowest or 0 for one in families)
    return Hint(better_mask(reached, wanted, numa), preferred=False)


def _preferred_by_all(wide: Sequence[WideHints], numa: NumaInfo) -> NumaMask | None:
    """Return the fittest mask that all prefer; ``None`` if there is none, or lists must tell."""
    sizes = {one.smallest for one in wide}
    if len(sizes) > 1 or any(one.aligned for one in wide):
        return None
    # A mask is among the listed ones of some resource, or it meets the conditions of all.
    together = WideHints(
        wide[0].nodes,
        tuple(cover for one in wide for cover in one.covers),
        open=reduce(and_, (one.everywhere & one.open for one in wide)),
        least=max(one.least for one in wide),
        listed=frozenset(mask for one in wide for mask in one.listed if _all_prefer(wide, mask)),
    )
    return together.first(sizes.pop(), numa=numa)


def _all_prefer(wide: Sequence[WideHints], mask: NumaMask) -> bool:
    return all(one.prefers(mask) for one in wide)


def _best_of(hints: WideHints, numa: NumaInfo, *, hopeful: bool) -> Hint:
    """Return the result where nothing but *hints* has a say."""
    mask = hints.first(hints.smallest, numa=numa)
    if mask is not None and hopeful:
        return Hint(mask, preferred=True)
    if hints.aligned is not None and hopeful:
        return merge([_listing(hints)], numa)
    mask = hints.first(hints.narrowest or 0, numa=numa)
    return Hint(mask, preferred=False)


def _listing(axis: AnyAxis) -> Axis:
    """Return the hints one by one, if they are few enough."""
    if not isinstance(axis, WideHints):
        return axis
    if len(axis.nodes) <= MOST_LISTABLE:
        return axis.listing()
    masks = list(islice(axis.members(), _MOST_MEMBERS + 1))
    if len(masks) > _MOST_MEMBERS:
        raise NoAnswer("the model cannot compare so many sets of NUMA nodes with each other")
    return [Hint(mask, axis.prefers(mask)) for mask in masks]
