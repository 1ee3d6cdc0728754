"""The fewest domains that are enough, coarse before fine, and those with least left over.

Domains are used, or left out, one after the other, and for every number of domains and of slices
the fewest places are kept that are taken up by it. That is exact. Where it would take too long
(`MOST_WORK`), the largest are taken first, which is exact for the number of domains of one level.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy.typing as npt

    from numakube_levels.placement_wish import Area, Counts

MOST_WORK: Final = 4_000_000
"""Domains by counts by pods that are looked at for one answer; less than a second."""
_STEP: Final = 500
"""Pods that take as long as it takes to look at a domain and a count at all."""
_NEVER: Final = np.int64(1) << 40
"""More places than there are: what cannot be reached."""
_Least: TypeAlias = "npt.NDArray[np.int64]"
"""By number of units: the fewest places of domains that take so many; the last one or more."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A domain that is given slices; a slice may be a single pod.

    Attributes:
        path: the domains around it at the levels that count, and itself: as many as those levels.
        slices: how many it takes.
        places: how many pods it takes.
    """

    area: Area
    path: tuple[int, ...]
    own: tuple[bool, ...]
    slices: int
    places: int


@dataclass(frozen=True, slots=True)
class Chosen:
    """Units that are used, and how many slices each gets."""

    units: tuple[Unit, ...]
    shares: tuple[int, ...]
    counts: Counts


def tightest(
    units: Sequence[Unit], depth: int, needed: int, wanted: int, *, is_exact: bool = True
) -> Chosen:
    """Return the fewest domains, coarse before fine, and of those the ones with least room left."""
    if not is_exact or _work(units, depth, wanted) > MOST_WORK:
        return _largest_first(units, depth, needed, wanted)
    bounds: tuple[int, ...] = ()
    for levels in range(1, depth + 1):
        merged = _merged(units, levels) if levels < depth else units
        bounds = _fewest(merged, bounds, needed)
    table = Table(units, bounds, wanted)
    return _filled(table.best(bounds, needed), wanted, bounds)


def _work(units: Sequence[Unit], depth: int, wanted: int) -> int:
    """Return about how many numbers are looked at for an exact answer."""
    largest = sorted((unit.slices for unit in units), reverse=True)
    count, left = 0, wanted
    for slices in largest:
        if left <= 0:
            break
        count, left = count + 1, left - slices
    numbers: int = (count + 1) ** depth
    return len(units) * numbers * (wanted + _STEP)


def _merged(units: Sequence[Unit], levels: int) -> list[Unit]:
    """Return one unit for each domain at the level with that number, with what it takes in all."""
    groups: dict[tuple[int, ...], list[Unit]] = {}
    for unit in units:
        groups.setdefault(unit.path[:levels], []).append(unit)
    return [
        Unit(
            same[0].area,
            path,
            same[0].own[:levels],
            sum(unit.slices for unit in same),
            sum(unit.places for unit in same),
        )
        for path, same in groups.items()
    ]


def _fewest(units: Sequence[Unit], bounds: Counts, needed: int) -> Counts:
    """Return *bounds* and how few domains of the next level do, within *bounds* of those above."""
    most = 1
    while True:
        reached = Table(units, (*bounds, most), needed).counts(needed)
        if reached:
            return min(reached)
        most *= 2


class Table:
    """What can be reached with which numbers of domains: unit after unit is used, or left out.

    A state is the number of levels whose domain is open, counts of domains so far, and, for each
    number of slices, the fewest places that are taken up by domains for so many. The states before
    each unit are kept, so that one can go back from the best end to the units that lead there.
    """

    def __init__(self, units: Sequence[Unit], bounds: Counts, wanted: int) -> None:
        self._units = units
        self._bounds = bounds
        self._wanted = wanted
        start = np.full(wanted + 1, _NEVER)
        start[0] = 0
        states: dict[tuple[int, Counts], _Least] = {(0, (0,) * len(bounds)): start}
        self._before: list[Mapping[tuple[int, Counts], _Least]] = []
        shared = [0, *(_shared(one.path, other.path) for one, other in pairwise(units))]
        self._shared = shared
        for unit, common in zip(units, shared, strict=True):
            states = _closed(states, common)
            self._before.append(states)
            states = self._with(unit, states)
        self._states = states

    def _with(
        self, unit: Unit, states: Mapping[tuple[int, Counts], _Least]
    ) -> dict[tuple[int, Counts], _Least]:
        after = dict(states)
        for (is_open, counts), least in states.items():
            more = _entered(unit, is_open, counts)
            if any(one > most for one, most in zip(more, self._bounds, strict=True)):
                continue
            key = (len(unit.path), more)
            moved = _shifted(least, unit.slices, unit.places)
            known = after.get(key)
            after[key] = moved if known is None else np.minimum(known, moved)
        return after

    def counts(self, needed: int) -> list[Counts]:
        """Return the numbers of domains with which *needed* slices can be reached."""
        return [
            counts for (_, counts), least in self._states.items() if least[needed:].min() < _NEVER
        ]

    def best(self, counts: Counts, needed: int) -> list[Unit]:
        """Return the units with these *counts* that have room for most, and least too much."""
        ends = [
            (-slices, int(least[slices]), key, slices)
            for key, least in self._states.items()
            if key[1] == counts
            for slices in _last_reached(least, needed)
        ]
        _, places, key, slices = min(ends)
        return self._back(key, slices, places)

    def _back(self, key: tuple[int, Counts], slices: int, places: int) -> list[Unit]:
        used: list[Unit] = []
        for position in range(len(self._units) - 1, -1, -1):
            unit, before = self._units[position], self._before[position]
            if key in before and before[key][slices] == places:
                key = self._unclosed(position, key, slices, places)
                continue
            used.append(unit)
            key, slices, places = self._source(unit, before, (key, slices, places))
            key = self._unclosed(position, key, slices, places)
        return used[::-1]

    def _source(
        self,
        unit: Unit,
        before: Mapping[tuple[int, Counts], _Least],
        end: tuple[tuple[int, Counts], int, int],
    ) -> tuple[tuple[int, Counts], int, int]:
        """Return the state from which using *unit* leads to *end*."""
        (_, counts), slices, places = end
        wanted = places - unit.places
        first = max(slices - unit.slices, 0)
        ends = range(
            first, len(next(iter(before.values()))) if slices == self._wanted else first + 1
        )
        for key, least in before.items():
            if _entered(unit, *key) != counts:
                continue
            for start in ends:
                reached = min(start + unit.slices, self._wanted)
                if reached == slices and least[start] == wanted:
                    return key, start, wanted
        raise LookupError("a state that was reached from nowhere")

    def _unclosed(
        self, position: int, key: tuple[int, Counts], slices: int, places: int
    ) -> tuple[int, Counts]:
        """Return the state after the unit before *position* that closing turned into *key*."""
        if not position:
            return key
        unit, before = self._units[position - 1], self._before[position - 1]
        after = self._with(unit, before)
        for other, least in after.items():
            same = other[1] == key[1] and min(other[0], self._shared[position]) == key[0]
            if same and least[slices] == places:
                return other
        raise LookupError("a state that was reached from nowhere")


def _shared(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    """Return how many levels two units have in common."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=True)) if a != b), len(one))


def _closed(
    states: Mapping[tuple[int, Counts], _Least], common: int
) -> dict[tuple[int, Counts], _Least]:
    """Return *states* where only the domains of the first *common* levels may still be open."""
    closed: dict[tuple[int, Counts], _Least] = {}
    for (is_open, counts), least in states.items():
        key = min(is_open, common), counts
        known = closed.get(key)
        closed[key] = least if known is None else np.minimum(known, least)
    return closed


def _entered(unit: Unit, is_open: int, counts: Counts) -> Counts:
    """Return the numbers of domains once *unit* is used too."""
    return tuple(
        count + (level >= is_open and not own)
        for level, (count, own) in enumerate(zip(counts, unit.own, strict=True))
    )


def _shifted(least: _Least, slices: int, places: int) -> _Least:
    """Return what is reached with *slices* more; the last number stands for all above it, too."""
    moved = np.full_like(least, _NEVER)
    if slices < len(least) - 1:
        moved[slices:] = least[: len(least) - slices]
    first = max(len(least) - 1 - slices, 0)
    moved[-1] = least[first:].min()
    np.add(moved, places, out=moved, where=moved < _NEVER)
    return moved


def _last_reached(least: _Least, needed: int) -> list[int]:
    """Return the largest number of slices that is reached, if it is enough."""
    reached = np.flatnonzero(least[needed:] < _NEVER)
    return [needed + int(reached[-1])] if len(reached) else []


def _largest_first(units: Sequence[Unit], depth: int, needed: int, wanted: int) -> Chosen:
    """Return domains taken by size, coarse before fine: exact for one level, and fast."""
    pool = list(units)
    for levels in range(1, depth):
        coarse = sorted(_merged(pool, levels), key=lambda unit: (-unit.slices, unit.area.name))
        kept, sum_ = set(), 0
        for unit in coarse:
            if sum_ >= needed:
                break
            kept.add(unit.path)
            sum_ += unit.slices
        pool = [unit for unit in pool if unit.path[:levels] in kept]
    pool.sort(key=lambda unit: (not unit.own[-1], -unit.slices, unit.area.name))
    used: list[Unit] = []
    sum_ = 0
    while sum_ < needed:
        left = needed - sum_
        rest = pool[len(used) :]
        enough = [unit for unit in rest if unit.slices >= left]
        unit = min(enough, key=lambda one: one.places) if enough else rest[0]
        pool.remove(unit)
        pool.insert(len(used), unit)
        used.append(unit)
        sum_ += unit.slices
    return _filled(used, wanted, counted(used, depth))


def counted(units: Iterable[Unit], depth: int) -> Counts:
    """Return how many domains of each level *units* are in, those of members that run left out."""
    chosen = list(units)
    return tuple(
        len({unit.path[: level + 1] for unit in chosen if not unit.own[level]})
        for level in range(depth)
    )


def _filled(units: Sequence[Unit], wanted: int, counts: Counts) -> Chosen:
    """Return *units* filled one after the other, the largest first."""
    order = sorted(units, key=lambda unit: (-unit.slices, unit.area.name))
    shares, left = [], wanted
    for unit in order:
        shares.append(min(unit.slices, left))
        left -= shares[-1]
    return Chosen(tuple(order), tuple(shares), counts)
