"""Topology hints on machines of many NUMA nodes, described instead of listed, and their merge.

A resource manager tries every set of NUMA nodes: 255 on a machine of eight, seventeen thousand
million on one of 34. `WideHints` says by a few conditions which sets are hints, and answers what
the merge and the Memory Manager ask about them without a list. Enlarging a set never takes
anything from it, and all answers rest on that.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import islice
from math import inf, prod
from operator import and_, or_
from typing import TYPE_CHECKING, Final, TypeAlias

from numakube.kubelet.admission_outcome import NoAnswer
from numakube.kubelet.topology_hints import Hint, better_mask, merge
from numakube.values.display import age_words
from numakube.values.numamask import NumaMask, mask_of, masks_over, narrowness, nodes_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numakube.kubelet.topology_hints import Axis, NumaInfo


MOST_LISTED: Final = 8
"""NUMA nodes up to which hints are listed one by one; what a kubelet allows by default."""

MOST_LISTABLE: Final = 16
"""NUMA nodes up to which hints can be listed if need be."""

_MOST_STEPS: Final = 20_000
_EXAMPLES: Final = 8

Promise: TypeAlias = "Callable[[int, NumaMask, int], bool]"
"""Tells by index, chosen nodes and number of missing ones whether to look further."""


@dataclass(frozen=True, slots=True)
class Cover:
    """What a set must have: the sum of the amounts whose nodes it touches is at least *wanted*."""

    amounts: Mapping[NumaMask, int]
    wanted: int

    def total(self, mask: NumaMask) -> int:
        """Return what *mask* has."""
        return sum(amount for nodes, amount in self.amounts.items() if nodes & mask)

    def gain(self, node: int) -> int:
        """Return the most that *node* can add to a set."""
        return self.total(1 << node)


@dataclass(frozen=True)
class WideHints:
    """The hints of one resource.

    Attributes:
        nodes: the NUMA nodes of which the kubelet tries every set.
        covers: what a set must have.
        smallest: the size of preferred hints.
        open: the nodes that sets may have which are not in *listed*; all by default.
        least: the smallest size of such a set.
        listed: further hints, with rules of their own.
        aligned: which hints are preferred whatever their size.
    """

    nodes: tuple[int, ...]
    covers: tuple[Cover, ...]
    smallest: int = 1
    open: NumaMask = -1
    least: int = 1
    listed: frozenset[NumaMask] = frozenset()
    aligned: Callable[[NumaMask], bool] | None = None

    def __bool__(self) -> bool:
        return self.narrowest is not None

    def __contains__(self, mask: NumaMask) -> bool:
        return mask in self.listed or self._is_plain(mask)

    @cached_property
    def everywhere(self) -> NumaMask:
        """All of ``nodes``."""
        return mask_of(self.nodes)

    @cached_property
    def narrowest(self) -> int | None:
        """The size of the narrowest hint; ``None`` if there is no hint."""
        sizes = {mask.bit_count() for mask in self.listed} | {self._narrowest_plain}
        return min(filter(None, sizes), default=None)

    @property
    def fewest(self) -> int:
        """A number of hints that there are at least: all that contain the narrowest one."""
        plain = self._narrowest_plain
        return len(self.listed) + (0 if plain is None else int(2 ** (len(self._free) - plain)))

    def prefers(self, mask: NumaMask) -> bool:
        """Tell whether *mask* is a preferred hint."""
        if mask not in self:
            return False
        return mask.bit_count() == self.smallest or bool(self.aligned and self.aligned(mask))

    def parts(self, within: NumaMask) -> set[NumaMask]:
        """Return what hints have of the nodes *within*, the empty set left out."""
        outside = self._plain_nodes & ~within
        found = {mask & within for mask in self.listed}
        plain = masks_over(nodes_of(within & self._plain_nodes))
        # The widest set with a part is a hint if any such set is.
        found |= {part for part in plain if self._is_plain(outside | part)}
        return found - {0}

    def preferred_single_nodes(self) -> list[Hint]:
        """Return the preferred hints of one node."""
        masks = (1 << node for node in self.nodes)
        return [Hint(mask, preferred=True) for mask in masks if self.prefers(mask)]

    def first(
        self, size: int, *, within: NumaMask = 0, numa: NumaInfo | None = None
    ) -> NumaMask | None:
        """Return the fittest hint of *size* nodes that has all of *within*.

        Args:
            size: the number of nodes.
            within: nodes that the hint must have.
            numa: how the machine ranks sets of one size; by their number if not given.
        """
        found = [m for m in self.listed if m.bit_count() == size and within & ~m == 0]
        search = self._search(size, within)
        if search is not None:
            missing = size - within.bit_count()
            if numa is not None and numa.closest:
                plain = search.closest(within, missing, numa)
            else:
                plain = next(search.sets(within, missing), None)
            found += [] if plain is None else [plain]
        return min(found, key=numa.fitness if numa else narrowness, default=None)

    def examples(self) -> list[Hint]:
        """Return some of the preferred hints, or a hint of the smallest size that there is."""
        sizes = {self.smallest, self.narrowest or self.smallest}
        found = [mask for mask in self.listed if mask.bit_count() in sizes]
        for size in sizes:
            found += islice(self._plain_of_size(size), _EXAMPLES)
        return [Hint(mask, self.prefers(mask)) for mask in sorted(found, key=narrowness)]

    def listing(self) -> list[Hint]:
        """Return the hints one by one, by size and then in the kubelet's order."""
        masks = (mask for mask in masks_over(self.nodes) if mask in self)
        return [Hint(mask, self.prefers(mask)) for mask in masks]

    def members(self) -> Iterator[NumaMask]:
        """Yield all hints, in no particular order."""
        yield from self.listed
        yield from (mask for mask in self._plain() if mask not in self.listed)

    @cached_property
    def _free(self) -> tuple[int, ...]:
        return nodes_of(self._plain_nodes)

    @cached_property
    def _plain_nodes(self) -> NumaMask:
        return self.everywhere & self.open

    @cached_property
    def _narrowest_plain(self) -> int | None:
        return next((mask.bit_count() for mask in self._plain()), None)

    def _is_plain(self, mask: NumaMask) -> bool:
        return (
            mask & ~self._plain_nodes == 0
            and mask.bit_count() >= self.least
            and all(cover.total(mask) >= cover.wanted for cover in self.covers)
        )

    def _plain(self) -> Iterator[NumaMask]:
        """Yield the sets that cover everything, by size and then in ascending order."""
        for size in range(self.least, len(self._free) + 1):
            yield from self._plain_of_size(size)

    def _plain_of_size(self, size: int) -> Iterator[NumaMask]:
        """Yield the sets of *size* nodes that cover everything, in ascending order."""
        search = self._search(size, 0)
        return iter(()) if search is None else search.sets(0, size)

    def _search(self, size: int, within: NumaMask) -> _CoverSearch | None:
        if size < self.least or within.bit_count() > size or within & ~self._plain_nodes:
            return None
        return _CoverSearch(self.covers, nodes_of(self._plain_nodes & ~within))


class _CoverSearch:
    """Finds sets of nodes that cover everything, without looking where none can be."""

    def __init__(self, covers: Sequence[Cover], nodes: tuple[int, ...]) -> None:
        self._covers = covers
        self._nodes = nodes
        self._gains = [[cover.gain(node) for node in nodes] for cover in covers]
        self._barren: set[tuple[int, int, tuple[int, ...]]] = set()
        self._steps = iter(range(_MOST_STEPS))

    def sets(self, chosen: NumaMask, missing: int) -> Iterator[NumaMask]:
        """Yield *chosen* with *missing* further nodes, in ascending order."""
        return self._extend(len(self._nodes), chosen, missing, None)

    def closest(self, chosen: NumaMask, missing: int, numa: NumaInfo) -> NumaMask | None:
        """Return the set with the smallest distances; of equals that with the lower nodes."""
        bound = _DistanceBound(numa, self._nodes)
        best = None
        for best in self._extend(len(self._nodes), chosen, missing, bound.may_improve):
            bound.best = numa.total_distance(best)
        return best

    def _extend(
        self, index: int, chosen: NumaMask, missing: int, promises: Promise | None
    ) -> Iterator[NumaMask]:
        """Decide about the nodes below *index*, from the highest to the lowest."""
        self._count_step()
        short = tuple(max(0, cover.wanted - cover.total(chosen)) for cover in self._covers)
        if not missing:
            if not any(short) and (promises is None or promises(index, chosen, 0)):
                yield chosen
            return
        if (index, missing, short) in self._barren or not self._in_reach(index, missing, short):
            return
        if promises is not None and not promises(index, chosen, missing):
            return
        empty = True
        for taken in (0, 1):
            bit = taken << self._nodes[index - 1]
            for found in self._extend(index - 1, chosen | bit, missing - taken, promises):
                empty = False
                yield found
        if empty and promises is None and self._adds_up:
            self._barren.add((index, missing, short))

    def _in_reach(self, index: int, missing: int, short: tuple[int, ...]) -> bool:
        """Tell whether the best *missing* nodes below *index* could do, each cover by itself."""
        if index < missing:
            return False
        return all(
            sum(sorted(gains[:index])[-missing:]) >= lacking
            for lacking, gains in zip(short, self._gains, strict=True)
        )

    @cached_property
    def _adds_up(self) -> bool:
        """Whether what a node adds does not depend on what is chosen already."""
        return all(nodes.bit_count() == 1 for cover in self._covers for nodes in cover.amounts)

    def _count_step(self) -> None:
        if next(self._steps, None) is None:
            raise NoAnswer("the model found no answer among too many sets of NUMA nodes")


class _DistanceBound:
    """Tells where no set can be closer together than the best so far."""

    def __init__(self, numa: NumaInfo, nodes: tuple[int, ...]) -> None:
        self.best: float = inf
        self._numa = numa
        self._nodes = nodes
        pairs = ((node, other) for node in nodes for other in nodes if node != other)
        self._least_pair = min((numa.between(one, other) for one, other in pairs), default=0)

    def may_improve(self, index: int, chosen: NumaMask, missing: int) -> bool:
        """Tell whether *missing* nodes below *index* may make a closer set with *chosen*."""
        numa, members = self._numa, nodes_of(chosen)
        added = sorted(
            numa.between(node, node) // 2 + sum(numa.between(node, member) for member in members)
            for node in self._nodes[:index]
        )
        pairs = missing * (missing - 1) // 2
        least = numa.total_distance(chosen) + sum(added[:missing]) + pairs * self._least_pair
        return least < self.best


# How long a kubelet would take, where it tries every set of NUMA nodes.
#
# Each resource manager looks at 2**n - 1 sets, and the Topology Manager at every permutation of
# their hints. On a machine of 34 NUMA nodes that is a matter of hours, in which the kubelet admits
# no pod and updates no status: it does not answer. Times were measured with the managers of
# Kubernetes 1.37.


_SECONDS_PER_SET: Final = 2e-6
_SECONDS_PER_PERMUTATION: Final = 4e-7
# After this a kubelet that is busy with one pod has missed heartbeats.
_PATIENCE_SECONDS: Final = 60


def check_sets(nodes: int) -> None:
    """Raise `NoAnswer` if the kubelet would try all sets of so many NUMA nodes for minutes."""
    tried = (1 << nodes) - 1
    _check(tried * _SECONDS_PER_SET, f"it tries each of the {tried} sets of {nodes} NUMA nodes")


def can_try_sets(nodes: int) -> bool:
    """Tell whether a kubelet comes to an end with all sets of so many NUMA nodes."""
    try:
        check_sets(nodes)
    except NoAnswer:
        return False
    return True


def check_permutations(axes: Iterable[Sequence[Hint] | WideHints]) -> None:
    """Raise `NoAnswer` if the kubelet would compare permutations of hints for minutes."""
    count = prod(axis.fewest if isinstance(axis, WideHints) else len(axis) for axis in axes)
    seconds = count * _SECONDS_PER_PERMUTATION
    _check(seconds, f"it compares each of {count} permutations of topology hints")


def _check(seconds: float, work: str) -> None:
    if seconds > _PATIENCE_SECONDS:
        raise NoAnswer(f"this kubelet would not answer for about {age_words(seconds)}: {work}")


# The hint merge where hints are described instead of listed.
#
# Only NUMA nodes that every resource has hints on can be in the result: on a machine with CPUs on
# two of 34 NUMA nodes that leaves two, whose sets are few. The other case is that only one resource
# cares at all, which then has its own best hint. What is left is listed if the kubelet could list
# it.


AnyAxis: TypeAlias = "Axis | WideHints"

# Hints of one resource that are too many to look at all pairs of them and others.
_TOO_MANY_MEMBERS: Final = 1001


@dataclass(frozen=True)
class _Listed:
    """Listed hints, behind the questions that `WideHints` answers."""

    axis: Axis

    @cached_property
    def masks(self) -> frozenset[NumaMask]:
        return frozenset(hint.mask for hint in self.axis if hint.mask is not None)

    @cached_property
    def everywhere(self) -> NumaMask:
        return reduce(or_, self.masks)

    @cached_property
    def narrowest(self) -> int:
        return min(mask.bit_count() for mask in self.masks)

    def prefers(self, mask: NumaMask) -> bool:
        return Hint(mask, preferred=True) in self.axis

    def parts(self, within: NumaMask) -> set[NumaMask]:
        return {mask & within for mask in self.masks}


def merge_wide(axes: Sequence[AnyAxis], numa: NumaInfo) -> Hint:
    """Return the best hint that takes one alternative of every axis, as `merge` does."""
    wide = [axis for axis in axes if isinstance(axis, WideHints)]
    listed = [axis for axis in axes if not isinstance(axis, WideHints)]
    if not wide:
        return merge(listed, numa)
    check_permutations(axes)
    if not all(axes):
        return Hint(numa.everywhere, preferred=False)
    caring = [other for other in map(_Listed, listed) if other.masks]
    # A resource that does not care is one preferred "anywhere"; one that fits nowhere is not.
    hopeful = all(any(hint.preferred for hint in axis) for axis in listed)
    families: list[WideHints | _Listed] = [*wide, *caring]
    common = reduce(and_, (family.everywhere for family in families), numa.everywhere)
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
    preferred = [mask for mask in masks if all(family.prefers(mask) for family in families)]
    if preferred and hopeful:
        return Hint(min(preferred, key=numa.fitness), preferred=True)
    reached = {numa.everywhere}
    for family in families:
        parts = family.parts(common)
        reached = {one & part for one in reached for part in parts} - {0}
    wanted = max(size for family in families if (size := family.narrowest))
    return Hint(better_mask(reached, wanted, numa), preferred=False)


def _preferred_by_all(wide: Sequence[WideHints], numa: NumaInfo) -> NumaMask | None:
    """Return the fittest mask that all prefer; ``None`` if there is none, or lists must tell."""
    sizes = {one.smallest for one in wide}
    # What all prefer has the size of every one that prefers no other size.
    if len(sizes) > 1 or all(one.aligned for one in wide):
        return None
    # A mask is among the listed ones of some resource, or it meets the conditions of all.
    together = WideHints(
        nodes_of(reduce(and_, (one.everywhere & one.open for one in wide))),
        tuple(cover for one in wide for cover in one.covers),
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
    return Hint(hints.narrowest and hints.first(hints.narrowest, numa=numa), preferred=False)


def _listing(axis: AnyAxis) -> Axis:
    """Return the hints one by one, if they are few enough."""
    if not isinstance(axis, WideHints):
        return axis
    if len(axis.nodes) <= MOST_LISTABLE:
        return axis.listing()
    masks = list(islice(axis.members(), _TOO_MANY_MEMBERS))
    if len(masks) == _TOO_MANY_MEMBERS:
        raise NoAnswer("the model cannot compare so many sets of NUMA nodes with each other")
    return [Hint(mask, axis.prefers(mask)) for mask in masks]
