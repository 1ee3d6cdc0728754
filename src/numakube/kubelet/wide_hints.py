"""Topology hints on machines of many NUMA nodes, described instead of listed.

A resource manager tries every set of NUMA nodes: 255 on a machine of eight, seventeen thousand
million on one of 34. `WideHints` says by a few conditions which sets are hints, and answers what
the merge and the Memory Manager ask about them without a list. Enlarging a set never takes
anything from it, and all answers rest on that.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from math import inf
from typing import TYPE_CHECKING, Final, TypeAlias

from numakube.kubelet.admission_outcome import NoAnswer
from numakube.kubelet.topology_hints import Hint
from numakube.values.numamask import NumaMask, mask_of, masks_over, narrowness, nodes_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numakube.kubelet.numa_ranking import NumaInfo

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
        sizes = [mask.bit_count() for mask in self.listed]
        most = min(sizes, default=len(self.nodes) + 1)
        plain = (size for size in range(self.least, most) if self._first_plain(size, 0))
        return next(plain, most if sizes else None)

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
        for part in masks_over(nodes_of(within & self._plain_nodes)):
            # The widest set with this part is a hint if any such set is.
            if part not in found and self._is_plain(outside | part):
                found.add(part)
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
            found += islice(self._plain_of_size(size, 0), _EXAMPLES)
        return [Hint(mask, self.prefers(mask)) for mask in sorted(found, key=narrowness)]

    def listing(self) -> list[Hint]:
        """Return the hints one by one, by size and then in the kubelet's order."""
        masks = (mask for mask in masks_over(self.nodes) if mask in self)
        return [Hint(mask, self.prefers(mask)) for mask in masks]

    def members(self) -> Iterator[NumaMask]:
        """Yield all hints, in no particular order."""
        yield from self.listed
        for size in range(self.least, len(self._free) + 1):
            yield from (m for m in self._plain_of_size(size, 0) if m not in self.listed)

    @cached_property
    def _free(self) -> tuple[int, ...]:
        return nodes_of(self._plain_nodes)

    @cached_property
    def _plain_nodes(self) -> NumaMask:
        return self.everywhere & self.open

    @cached_property
    def _narrowest_plain(self) -> int | None:
        sizes = range(self.least, len(self._free) + 1)
        return next((size for size in sizes if self._first_plain(size, 0)), None)

    def _is_plain(self, mask: NumaMask) -> bool:
        return (
            mask & ~self._plain_nodes == 0
            and mask.bit_count() >= self.least
            and all(cover.total(mask) >= cover.wanted for cover in self.covers)
        )

    def _first_plain(self, size: int, within: NumaMask) -> NumaMask | None:
        return next(self._plain_of_size(size, within), None)

    def _plain_of_size(self, size: int, within: NumaMask) -> Iterator[NumaMask]:
        """Yield the sets of *size* nodes that cover everything, in ascending order."""
        search = self._search(size, within)
        return iter(()) if search is None else search.sets(within, size - within.bit_count())

    def _search(self, size: int, within: NumaMask) -> _Search | None:
        if size < self.least or within.bit_count() > size or within & ~self._plain_nodes:
            return None
        return _Search(self.covers, nodes_of(self._plain_nodes & ~within))


class _Search:
    """Finds sets of nodes that cover everything, without looking where none can be."""

    def __init__(self, covers: Sequence[Cover], nodes: tuple[int, ...]) -> None:
        self._covers = covers
        self._nodes = nodes
        self._gains = [[cover.gain(node) for node in nodes] for cover in covers]
        self._barren: set[tuple[int, int, tuple[int, ...]]] = set()
        self._steps = 0

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
        short = tuple(max(0, one.wanted - one.total(chosen)) for one in self._covers)
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
            lacking <= 0 or sum(sorted(gains[:index])[-missing:]) >= lacking
            for lacking, gains in zip(short, self._gains, strict=True)
        )

    @cached_property
    def _adds_up(self) -> bool:
        """Whether what a node adds does not depend on what is chosen already."""
        return all(nodes.bit_count() == 1 for cover in self._covers for nodes in cover.amounts)

    def _count_step(self) -> None:
        self._steps += 1
        if self._steps > _MOST_STEPS:
            raise NoAnswer("the model found no answer among too many sets of NUMA nodes")


class _DistanceBound:
    """Tells where no set can be closer together than the best so far."""

    def __init__(self, numa: NumaInfo, nodes: tuple[int, ...]) -> None:
        self.best: float = inf
        self._numa = numa
        self._nodes = nodes
        pairs = ((one, other) for one in nodes for other in nodes if one != other)
        self._least_pair = min((numa.between(one, other) for one, other in pairs), default=0)

    def may_improve(self, index: int, chosen: NumaMask, missing: int) -> bool:
        """Tell whether *missing* nodes below *index* may make a closer set with *chosen*."""
        if self.best == inf:
            return True
        numa, members = self._numa, nodes_of(chosen)
        added = sorted(
            numa.between(node, node) // 2 + sum(numa.between(node, one) for one in members)
            for node in self._nodes[:index]
        )
        pairs = missing * (missing - 1) // 2
        least = numa.total_distance(chosen) + sum(added[:missing]) + pairs * self._least_pair
        return least < self.best
