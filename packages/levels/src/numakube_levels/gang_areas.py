"""From counts by node to the domains that a gang chooses from: what each takes, and what in it.

Nodes without a value of a level that is required, or that slices are in, are left out. Where a
level is only preferred, such a node is a domain of its own. Spare nodes of each domain are left out
too, those that take least; but not where members run already: it is for them that they are spare.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from numakube_levels.placement_wish import Area, Slices, Wish

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numakube.scheduling.arrays import IntArray, Mask, Rows
    from numakube.scheduling.snapshot.cluster import Snapshot
    from numakube_levels.domain_tree import Domains
    from numakube_levels.gang_wishes import LevelWish
    from numakube_levels.level_sources import LevelTree


@dataclass(frozen=True, slots=True)
class Positions:
    """The levels that a wish names, as positions in a tree.

    Attributes:
        required: the finest that is required.
        preferred: and all coarser ones.
    """

    required: int | None
    preferred: frozenset[int]
    slices: tuple[Slices, ...]

    @property
    def relevant(self) -> list[int]:
        """All of them, coarse to fine."""
        own = {*self.preferred, *(one.level for one in self.slices)}
        return sorted(own | ({self.required} if self.required is not None else set()))

    @property
    def exclusive(self) -> list[int]:
        """Those of which every node needs a value."""
        own = [one.level for one in self.slices]
        return [*own, self.required] if self.required is not None else own

    @property
    def finest(self) -> int | None:
        """The finest that is named."""
        return max(self.relevant, default=None)


def positions_of(wish: LevelWish, tree: LevelTree) -> Positions:
    """Return where the levels of *wish* are in *tree*, which knows them all."""
    required = max((at for at in map(tree.position, wish.required) if at is not None), default=None)
    named = [at for at in map(tree.position, wish.preferred) if at is not None]
    slices = [(tree.position(one.level), one.size) for one in wish.slices]
    return Positions(
        required,
        frozenset(range(max(named) + 1)) if named else frozenset(),
        tuple(Slices(at, size) for at, size in slices if at is not None),
    )


@dataclass(frozen=True)
class GangAreas:
    """The domains that a gang chooses from.

    Attributes:
        whole: all of them.
        takes: pods by row, spare nodes left out.
        spared: rows that are left out because they are spare.
        numbers: the domain of each area by level and name; below 0 for a node on its own.
    """

    domains: Domains
    whole: Area
    takes: IntArray
    spared: frozenset[int]
    numbers: Mapping[tuple[int, str], int] = field(default_factory=dict)

    def rows_of(self, area: Area) -> Rows:
        """Return the rows of an area that may be used."""
        if area.level < 0:
            rows = self.domains.rows
        else:
            number = self.numbers[area.level, area.name]
            rows = (
                self.domains.rows_of(area.level, number)
                if number >= 0
                else np.array([-1 - number], dtype=np.intp)
            )
        if not self.spared:
            return rows
        return rows[~np.isin(rows, np.fromiter(self.spared, dtype=np.intp))]


def gang_areas(
    snapshot: Snapshot,
    domains: Domains,
    positions: Positions,
    takes: IntArray,
    *,
    running: Iterable[int] = (),
    spare: Sequence[int] = (),
    limits: Mapping[str, int] | None = None,
) -> GangAreas:
    """Return the areas for *takes* pods by row.

    Args:
        snapshot: whose rows they are.
        domains: of the tree in which the positions are.
        positions: the levels that matter.
        takes: how many pods each row takes.
        running: rows on which members of the gang run.
        spare: for each level, how many nodes of a domain are left free.
        limits: by name, what areas were found to take.
    """
    rows = domains.rows
    by_row = takes[rows].copy()
    for level in positions.exclusive:
        by_row[domains.ids[level] < 0] = 0
    own_rows = np.isin(rows, np.fromiter(running, dtype=np.intp))
    free = left_free(by_row, domains.ids, spare, own_rows)
    by_row[free] = 0
    spared = frozenset(rows[free].tolist())
    builder = _Builder(snapshot, domains, positions.relevant, by_row, own_rows, limits or {})
    return GangAreas(domains, builder.whole(), by_row, spared, builder.numbers)


def left_free(takes: IntArray, ids: Sequence[IntArray], spare: Sequence[int], own: Mask) -> Mask:
    """Return the nodes that stay free: so many of each domain of a level, those that take least."""
    left = takes.copy()
    for level, count in enumerate(spare):
        if count:
            _leave_free(left, ids[level], count, own)
    free: Mask = (takes > 0) & (left == 0)
    return free


def _leave_free(takes: IntArray, ids: IntArray, count: int, own: Mask) -> None:
    """Set those *count* nodes of each domain to 0 that take least, where no members run."""
    kept = np.zeros(int(ids.max(initial=-1)) + 2, dtype=np.bool_)
    kept[ids[own]] = True
    able = np.flatnonzero((takes > 0) & (ids >= 0) & ~kept[ids])
    order = able[np.lexsort((-able, takes[able], ids[able]))]
    _, first, sizes = np.unique(ids[order], return_index=True, return_counts=True)
    rank = np.arange(len(order)) - np.repeat(first, sizes)
    takes[order[rank < count]] = 0


class _Builder:
    """Makes areas, from the finest level upwards."""

    def __init__(
        self,
        snapshot: Snapshot,
        domains: Domains,
        levels: Sequence[int],
        takes: IntArray,
        own: Mask,
        limits: Mapping[str, int],
    ) -> None:
        self._snapshot = snapshot
        self._domains = domains
        self._levels = levels
        self._takes = takes
        self._own = own
        self._limits = limits
        self.numbers: dict[tuple[int, str], int] = {}

    def whole(self) -> Area:
        """Return the whole cluster."""
        inside: dict[tuple[int, int], list[Area]] = {}
        for depth in range(len(self._levels) - 1, -1, -1):
            self._add_level(depth, inside)
        return self._area(-1, "", int(self._takes.sum()), inside.get((-1, 0), []), is_own=False)

    def _add_level(self, depth: int, inside: dict[tuple[int, int], list[Area]]) -> None:
        level = self._levels[depth]
        ids = self._domains.ids[level]
        some = ids >= 0
        sums = np.bincount(ids[some], weights=self._takes[some]).astype(np.int64)
        own = np.zeros(len(sums), dtype=np.bool_)
        own[ids[some & self._own]] = True
        _, first = np.unique(np.where(some, ids, -1), return_index=True)
        example = {int(ids[at]): int(at) for at in first}
        for number in np.flatnonzero((sums > 0) | own).tolist():
            name = self._domains.name(level, number)
            self.numbers[level, name] = number
            parts = inside.get((level, number), [])
            area = self._area(level, name, int(sums[number]), parts, is_own=bool(own[number]))
            inside.setdefault(self._parent(depth, example[number]), []).append(area)
        if depth == len(self._levels) - 1:
            for at in np.flatnonzero(~some & ((self._takes > 0) | self._own)).tolist():
                row = int(self._domains.rows[at])
                name = self._snapshot.at(row).name
                self.numbers[level, name] = -1 - row
                takes, is_own = int(self._takes[at]), bool(self._own[at])
                area = self._area(level, name, takes, [], is_own=is_own)
                inside.setdefault(self._parent(depth, at), []).append(area)

    def _area(
        self, level: int, name: str, takes: int, parts: Sequence[Area], *, is_own: bool
    ) -> Area:
        if parts:
            takes = sum(part.takes for part in parts)
        if name in self._limits:
            takes = min(takes, self._limits[name])
        return Area(level, name, takes, tuple(sorted(parts, key=lambda one: one.name)), is_own)

    def _parent(self, depth: int, at: int) -> tuple[int, int]:
        """Return the domain around that of the node *at*, at the next coarser level it has."""
        for level in reversed(self._levels[:depth]):
            number = int(self._domains.ids[level][at])
            if number >= 0:
                return level, number
        return -1, 0


def choice_wish(wish: LevelWish, positions: Positions, *, needed: int, wanted: int) -> Wish:
    """Return *wish* in positions and numbers."""
    return Wish(
        needed=needed,
        wanted=wanted,
        required=positions.required,
        preferred=positions.preferred,
        slices=positions.slices,
        balance=wish.balance,
        allows_rest=wish.allows_rest,
    )
