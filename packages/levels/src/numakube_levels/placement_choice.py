"""Which domains a gang gets: all of them are costed, and the best are taken.

Everything here is numbers. An `Area` is a domain with what it takes of the gang's pods, a `Wish` is
what the gang asks for. The answer is the cheapest way to give it what it needs, where costs are
compared from left to right:

1. domains at each preferred level, coarse before fine: fewest blocks, then fewest racks in them;
2. if sizes are to be balanced, how far they are apart beyond one; `Balance.EVEN` asks for this
   before the number of domains at the finest level;
3. pods beyond the minimum that have no place in the same domains;
4. places that are left over in the domains that are used: large holes stay whole;
5. places that are left over in the domain that is required, and names.

For equal pods of which nodes take known numbers this is exact: what is refused here fits nowhere,
and nothing costs less than what is chosen. Where there are so many domains that trying all of them
would take too long (`_MOST_WORK`), the largest are taken first, which is exact for their number.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import pairwise
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import numpy.typing as npt

_MOST_WORK: Final = 4_000_000
"""Domains by counts by pods that are looked at for one answer; some tens of milliseconds."""
_NEVER: Final = np.int64(1) << 40
"""More places than there are: what cannot be reached."""


class Balance(StrEnum):
    """Whether the domains of a gang get equal numbers of its pods."""

    NONE = ""
    FEWEST = "Fewest"
    """As few domains as possible, and equal numbers in those."""
    EVEN = "Even"
    """Equal numbers, and as few domains as that allows."""


@dataclass(frozen=True, slots=True)
class Area:
    """A domain as a gang sees it.

    Attributes:
        level: its position among the levels, coarse to fine; -1 for the whole cluster.
        name: by which it is told, and what ends ties.
        takes: how many pods of the gang its nodes take.
        parts: the domains of the next level that matters.
        is_own: whether members run there already, so that it is no further domain.
    """

    level: int
    name: str
    takes: int
    parts: tuple[Area, ...] = ()
    is_own: bool = False

    def at(self, level: int) -> Iterator[Area]:
        """Yield the areas of *level* in this one, which may be this one."""
        if self.level >= level:
            yield self
        else:
            for part in self.parts:
                yield from part.at(level)


@dataclass(frozen=True, slots=True)
class Slices:
    """Every *size* pods are together in one domain of a level."""

    level: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a gang of equal pods asks for.

    Attributes:
        needed: pods that have to fit.
        wanted: pods that there are.
        required: the level of which all have to be in one domain; ``None`` for none.
        preferred: levels of which there are to be as few domains as possible.
        slices: coarse to fine.
        balance: whether domains get equal numbers.
        allows_rest: whether the last slice may be smaller than the others.
    """

    needed: int
    wanted: int
    required: int | None = None
    preferred: frozenset[int] = frozenset()
    slices: tuple[Slices, ...] = ()
    balance: Balance = Balance.NONE
    allows_rest: bool = False


Cost: TypeAlias = "tuple[_Counts, tuple[int, int], _Counts, int, int, int, tuple[str, ...]]"
"""Domains at coarse levels; their number at the finest, and unevenness, or reversed; domains at
levels inside slices; pods without a place; places left over; those in the whole area; names."""
Share: TypeAlias = "tuple[Area, int]"
"""A domain, and how many pods it gets."""
_Counts: TypeAlias = "tuple[int, ...]"
_Least: TypeAlias = "npt.NDArray[np.int64]"
"""By number of units: the fewest places of domains that take so many; the last one or more."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Where a gang goes.

    Attributes:
        area: the domain that is required, or the whole cluster.
        shares: the pods of each domain.
        cost: what it costs; the cheapest is best.
    """

    area: Area
    shares: tuple[Share, ...]
    cost: Cost = field(compare=False)

    @property
    def count(self) -> int:
        """How many pods have a place."""
        return sum(count for _, count in self.shares)


def choices(whole: Area, wish: Wish) -> list[Choice]:
    """Return the best choice of each domain that may be the gang's, the cheapest first."""
    areas = [whole] if wish.required is None else list(whole.at(wish.required))
    own = [area for area in areas if area.is_own]
    found = (_best_in(area, wish) for area in own or areas)
    return sorted((one for one in found if one is not None), key=lambda one: one.cost)


def takes(area: Area, slices: Sequence[Slices]) -> int:
    """Return how many pods *area* takes in whole slices."""
    if not slices:
        return area.takes
    first = slices[0]
    if area.level < first.level:
        return sum(takes(part, slices) for part in area.parts)
    return takes(area, slices[1:]) // first.size * first.size


def _best_in(area: Area, wish: Wish) -> Choice | None:
    """Return the best choice inside *area*; nothing if it does not take what is needed."""
    size = wish.slices[0].size if wish.slices else 1
    rest = wish.needed % size
    if rest and not wish.allows_rest:
        return None
    if rest:
        return _with_rest(area, wish, rest)
    if takes(area, wish.slices) < wish.needed:
        return None
    finest = _unit_level(area, wish)
    if finest is None:
        placed = min(area.takes, wish.wanted)
        left = area.takes - placed
        cost: Cost = ((), (1, 0), (), wish.wanted - placed, left, left, (area.name,))
        return Choice(area, ((area, placed),), cost)
    chosen = _chosen_units(area, wish, finest, size)
    return _with_finer_levels(area, wish, chosen, finest)


def _unit_level(area: Area, wish: Wish) -> int | None:
    """Return the level whose domains are given pods: that of slices, or the finest preferred."""
    if wish.slices:
        return wish.slices[0].level
    finer = [level for level in wish.preferred if level > area.level]
    return max(finer, default=None)


# ------------------------------------------------------------------------------------------------
# Units: domains at the level at which pods are given out, with the slices that each takes.


@dataclass(frozen=True, slots=True)
class _Unit:
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
class _Chosen:
    """Units that are used, and how many slices each gets."""

    units: tuple[_Unit, ...]
    shares: tuple[int, ...]
    counts: _Counts


def _units(area: Area, counting: Sequence[int], wish: Wish, size: int) -> list[_Unit]:
    """Return the units inside *area* that take a slice, side by side where domains are shared."""
    found: list[_Unit] = []
    numbers = iter(range(1 << 62))

    def walk(one: Area, path: tuple[int, ...], own: tuple[bool, ...]) -> None:
        # One that is in no domain of a coarser level counts as one there, too.
        while len(path) < len(counting) and one.level >= counting[len(path)]:
            path, own = (*path, next(numbers)), (*own, one.is_own)
        if len(path) < len(counting):
            for part in one.parts:
                walk(part, path, own)
            return
        slices = takes(one, wish.slices) // size
        if slices:
            found.append(_Unit(one, path, own, slices, one.takes))

    for part in sorted(area.parts, key=lambda part: part.name) if area.parts else (area,):
        walk(part, (), ())
    return found


def _chosen_units(area: Area, wish: Wish, finest: int, size: int) -> _Chosen:
    counting = sorted({level for level in wish.preferred if area.level < level < finest})
    counting = [*counting, max(finest, area.level)]
    units = _units(area, counting, wish, size)
    needed, wanted = -(-wish.needed // size), max(wish.wanted // size, -(-wish.needed // size))
    if wish.balance is Balance.NONE:
        return _tightest(units, len(counting), needed, wanted)
    return _balanced_choice(units, len(counting), (needed, wanted), wish.balance)


def _tightest(units: Sequence[_Unit], depth: int, needed: int, wanted: int) -> _Chosen:
    """Return the fewest domains, coarse before fine, and of those the ones with least room left."""
    if _work(units, depth, wanted) > _MOST_WORK:
        return _largest_first(units, depth, needed, wanted)
    bounds: tuple[int, ...] = ()
    for levels in range(1, depth + 1):
        merged = _merged(units, levels) if levels < depth else units
        bounds = _fewest(merged, bounds, needed)
    table = _Table(units, bounds, wanted)
    return _filled(table.best(bounds, needed), wanted, bounds)


def _work(units: Sequence[_Unit], depth: int, wanted: int) -> int:
    """Return about how many numbers are looked at for an exact answer."""
    largest = sorted((unit.slices for unit in units), reverse=True)
    count, left = 0, wanted
    for slices in largest:
        if left <= 0:
            break
        count, left = count + 1, left - slices
    numbers: int = (count + 1) ** depth
    return len(units) * numbers * (wanted + 1)


def _merged(units: Sequence[_Unit], levels: int) -> list[_Unit]:
    """Return one unit for each domain at the level with that number, with what it takes in all."""
    groups: dict[tuple[int, ...], list[_Unit]] = {}
    for unit in units:
        groups.setdefault(unit.path[:levels], []).append(unit)
    return [
        _Unit(
            same[0].area,
            path,
            same[0].own[:levels],
            sum(unit.slices for unit in same),
            sum(unit.places for unit in same),
        )
        for path, same in groups.items()
    ]


def _fewest(units: Sequence[_Unit], bounds: _Counts, needed: int) -> _Counts:
    """Return *bounds* and how few domains of the next level do, within *bounds* of those above."""
    most = 1
    while True:
        reached = _Table(units, (*bounds, most), needed).counts(needed)
        if reached:
            return min(reached)
        most *= 2


class _Table:
    """What can be reached with which numbers of domains: unit after unit is used, or left out.

    A state is the number of levels whose domain is open, counts of domains so far, and, for each
    number of slices, the fewest places that are taken up by domains for so many. The states before
    each unit are kept, so that one can go back from the best end to the units that lead there.
    """

    def __init__(self, units: Sequence[_Unit], bounds: _Counts, wanted: int) -> None:
        self._units = units
        self._bounds = bounds
        self._wanted = wanted
        start = np.full(wanted + 1, _NEVER)
        start[0] = 0
        states: dict[tuple[int, _Counts], _Least] = {(0, (0,) * len(bounds)): start}
        self._before: list[Mapping[tuple[int, _Counts], _Least]] = []
        shared = [0, *(_shared(one.path, other.path) for one, other in pairwise(units))]
        self._shared = shared
        for unit, common in zip(units, shared, strict=True):
            states = _closed(states, common)
            self._before.append(states)
            states = self._with(unit, states)
        self._states = states

    def _with(
        self, unit: _Unit, states: Mapping[tuple[int, _Counts], _Least]
    ) -> dict[tuple[int, _Counts], _Least]:
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

    def counts(self, needed: int) -> list[_Counts]:
        """Return the numbers of domains with which *needed* slices can be reached."""
        return [
            counts for (_, counts), least in self._states.items() if least[needed:].min() < _NEVER
        ]

    def best(self, counts: _Counts, needed: int) -> list[_Unit]:
        """Return the units with these *counts* that have room for most, and least too much."""
        ends = [
            (-slices, int(least[slices]), key, slices)
            for key, least in self._states.items()
            if key[1] == counts
            for slices in _last_reached(least, needed)
        ]
        _, places, key, slices = min(ends)
        return self._back(key, slices, places)

    def _back(self, key: tuple[int, _Counts], slices: int, places: int) -> list[_Unit]:
        used: list[_Unit] = []
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
        unit: _Unit,
        before: Mapping[tuple[int, _Counts], _Least],
        end: tuple[tuple[int, _Counts], int, int],
    ) -> tuple[tuple[int, _Counts], int, int]:
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
        self, position: int, key: tuple[int, _Counts], slices: int, places: int
    ) -> tuple[int, _Counts]:
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
    states: Mapping[tuple[int, _Counts], _Least], common: int
) -> dict[tuple[int, _Counts], _Least]:
    """Return *states* where only the domains of the first *common* levels may still be open."""
    closed: dict[tuple[int, _Counts], _Least] = {}
    for (is_open, counts), least in states.items():
        key = min(is_open, common), counts
        known = closed.get(key)
        closed[key] = least if known is None else np.minimum(known, least)
    return closed


def _entered(unit: _Unit, is_open: int, counts: _Counts) -> _Counts:
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


def _largest_first(units: Sequence[_Unit], depth: int, needed: int, wanted: int) -> _Chosen:
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
    used: list[_Unit] = []
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
    return _filled(used, wanted, _counted(used, depth))


def _counted(units: Iterable[_Unit], depth: int) -> _Counts:
    """Return how many domains of each level *units* are in, those of members that run left out."""
    chosen = list(units)
    return tuple(
        len({unit.path[: level + 1] for unit in chosen if not unit.own[level]})
        for level in range(depth)
    )


def _filled(units: Sequence[_Unit], wanted: int, counts: _Counts) -> _Chosen:
    """Return *units* filled one after the other, the largest first."""
    order = sorted(units, key=lambda unit: (-unit.slices, unit.area.name))
    shares, left = [], wanted
    for unit in order:
        shares.append(min(unit.slices, left))
        left -= shares[-1]
    return _Chosen(tuple(order), tuple(shares), counts)


# ------------------------------------------------------------------------------------------------
# Equal numbers.


def _balanced_choice(
    units: Sequence[_Unit], depth: int, amounts: tuple[int, int], balance: Balance
) -> _Chosen:
    """Return the best balanced choice; if one domain of the coarser levels does, in one of them."""
    needed, wanted = amounts
    outer = {unit.path[:-1]: unit for unit in units}
    if len(outer) > 1:
        groups = [[unit for unit in units if unit.path[:-1] == path] for path in outer]
        enough = [group for group in groups if sum(unit.slices for unit in group) >= needed]
        if not enough:
            inside = _tightest(units, depth, needed, wanted)
            coarse = {unit.path[:-1] for unit in inside.units}
            units = [unit for unit in units if unit.path[:-1] in coarse]
        else:
            options = [_balanced(group, amounts, balance) for group in enough]
            return min(
                (_with_counts(option, depth) for option in options),
                key=lambda one: _balanced_cost(one, balance, wanted),
            )
    return _with_counts(_balanced(units, amounts, balance), depth)


def _with_counts(chosen: _Chosen, depth: int) -> _Chosen:
    """Return *chosen* with its domains counted at every level."""
    return _Chosen(chosen.units, chosen.shares, _counted(chosen.units, depth))


def _balanced_cost(
    chosen: _Chosen, balance: Balance, wanted: int
) -> tuple[_Counts, tuple[int, int], int, int, tuple[str, ...]]:
    placed, places = sum(chosen.shares), sum(unit.places for unit in chosen.units)
    names = tuple(sorted(unit.area.name for unit in chosen.units))
    spread = _spread_cost(chosen, balance)
    return chosen.counts[:-1], spread, wanted - placed, places - placed, names


def _spread_cost(chosen: _Chosen, balance: Balance) -> tuple[int, int]:
    uneven = _unevenness(chosen.shares) if balance is not Balance.NONE else 0
    finest = chosen.counts[-1]
    return (uneven, finest) if balance is Balance.EVEN else (finest, uneven)


def _unevenness(shares: Sequence[int]) -> int:
    """Return by how much more than one pod, or slice, the numbers differ."""
    return max(max(shares) - min(shares) - 1, 0) if shares else 0


def _balanced(units: Sequence[_Unit], amounts: tuple[int, int], balance: Balance) -> _Chosen:
    needed = amounts[0]
    largest = sorted(units, key=lambda unit: -unit.slices)
    fewest, sum_ = 0, 0
    while sum_ < needed:
        sum_ += largest[fewest].slices
        fewest += 1
    most = min(len(units), needed) if balance is Balance.EVEN else fewest
    best: _Chosen | None = None
    for count in range(fewest, most + 1):
        one = _balanced_over(units, count, amounts)
        if best is None or _unevenness(one.shares) < _unevenness(best.shares):
            best = one
        if not _unevenness(best.shares):
            break
    if best is None:
        raise LookupError("a gang that needs no pods")
    return best


def _balanced_over(units: Sequence[_Unit], count: int, amounts: tuple[int, int]) -> _Chosen:
    """Return the best *count* units for equal numbers: the tightest that allow it."""
    needed, wanted = amounts
    low, more = divmod(needed, count)
    order = sorted(units, key=lambda unit: (unit.places, unit.slices, unit.area.name))
    exact = sum(unit.slices >= low + 1 for unit in order) >= more
    if exact and sum(unit.slices >= low for unit in order) >= count:
        used = _tightest_for(order, count, low, more)
    else:
        used = _least_uneven(order, count, needed)
    shares = levelled([unit.slices for unit in used], needed)
    extra = min(wanted, sum(unit.slices for unit in used))
    if extra > needed:
        shares = levelled([unit.slices for unit in used], extra)
    return _Chosen(tuple(used), tuple(shares), (0,))


def _tightest_for(order: Sequence[_Unit], count: int, low: int, more: int) -> list[_Unit]:
    """Return the first *count* units that take *low* each, and *more* of them one above that."""
    used: list[_Unit] = []
    small = 0
    for unit in order:
        if len(used) == count or unit.slices < low:
            continue
        if unit.slices == low:
            if small == count - more:
                continue
            small += 1
        used.append(unit)
    return used


def _least_uneven(order: Sequence[_Unit], count: int, needed: int) -> list[_Unit]:
    """Return the *count* units whose numbers differ least, where they must differ by more than one.

    The largest allow what any others do. Of those that allow as much, the tightest are taken: for
    each least number that a domain may get, what others get more is limited.
    """
    largest = sorted(order, key=lambda unit: -unit.slices)[:count]
    shares = levelled([unit.slices for unit in largest], needed)
    apart = max(shares) - min(shares)
    if len(order) * (count + 1) * (needed + 1) * (max(shares) + 1) > _MOST_WORK:
        return largest
    best, places = largest, sum(unit.places for unit in largest)
    for low in range(min(shares), needed // count + 1):
        able = [unit for unit in order if unit.slices >= low]
        flat = [
            replace(unit, path=(at,), own=(False,), slices=min(unit.slices, low + apart))
            for at, unit in enumerate(able)
        ]
        table = _Table(flat, (count,), needed)
        if (count,) in table.counts(needed):
            used = table.best((count,), needed)
            if sum(unit.places for unit in used) < places:
                best, places = [able[unit.path[0]] for unit in used], sum(u.places for u in used)
    return best


def levelled(sizes: Sequence[int], count: int) -> list[int]:
    """Return *count* given to domains of *sizes* as evenly as they allow, in their order."""
    shares = [0] * len(sizes)
    open_ = sorted(range(len(sizes)), key=lambda at: sizes[at])
    left = count
    for done, at in enumerate(open_):
        shares[at] = min(sizes[at], left // (len(open_) - done))
        left -= shares[at]
    for at in reversed(open_):
        extra = min(left, sizes[at] - shares[at])
        shares[at] += extra
        left -= extra
    return shares


# ------------------------------------------------------------------------------------------------
# From units to domains of the levels below, and a last slice that is smaller.


def _with_finer_levels(area: Area, wish: Wish, chosen: _Chosen, finest: int) -> Choice:
    """Return the choice for *chosen*, each unit's pods placed well at the levels inside it."""
    size = wish.slices[0].size if wish.slices else 1
    shares: list[Share] = []
    inner: list[Cost] = []
    for unit, count in zip(chosen.units, chosen.shares, strict=True):
        if not count:
            continue
        pods = count * size
        inside = Wish(
            needed=pods,
            wanted=pods,
            preferred=frozenset(level for level in wish.preferred if level > finest),
            slices=wish.slices[1:],
            balance=wish.balance,
        )
        found = _best_in(unit.area, inside)
        if found is None:
            raise LookupError(f"{unit.area.name} takes {pods} pods, and yet it does not")
        shares += found.shares
        inner.append(found.cost)
    placed = sum(count for _, count in shares)
    used = [unit for unit, count in zip(chosen.units, chosen.shares, strict=True) if count]
    left = sum(unit.places for unit in used) - placed
    names = tuple(sorted(unit.area.name for unit in used))
    finer = _summed((*cost[0], cost[1][0], *cost[2]) for cost in inner)
    spread = _spread_cost(chosen, wish.balance)
    rest, whole = wish.wanted - placed, area.takes - placed
    cost: Cost = (chosen.counts[:-1], spread, finer, rest, left, whole, (area.name, *names))
    return Choice(area, tuple(shares), cost)


def _summed(rows: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(map(sum, zip(*rows, strict=False)))


def _with_rest(area: Area, wish: Wish, rest: int) -> Choice | None:
    """Return the best choice where the last slice, of *rest* pods, is smaller than the others."""
    first, found = wish.slices[0], list[Choice]()
    seen: set[tuple[int, int]] = set()
    inner = Wish(needed=rest, wanted=rest, slices=(), preferred=frozenset())
    full = wish.needed - rest
    for one in area.at(first.level):
        if one.takes < rest or (key := (one.takes, takes(one, wish.slices))) in seen:
            continue
        seen.add(key)
        if not full:
            choice = _best_in(one, inner)
        else:
            smaller = _without(area, one, rest)
            others = Wish(
                needed=full,
                wanted=full,
                preferred=wish.preferred,
                slices=wish.slices,
                balance=wish.balance,
            )
            choice = _best_in(smaller, others)
        if choice is not None:
            shares = _added(choice.shares if full else (), one, rest)
            found.append(Choice(area, shares, choice.cost))
    return min(found, key=lambda one: one.cost, default=None)


def less(area: Area, shares: Iterable[Share]) -> Area:
    """Return *area* where those of *shares* take so many fewer; they are used already."""
    for one, count in shares:
        area = _without(area, one, count)
    return area


def _without(area: Area, taken: Area, count: int) -> Area:
    """Return *area* where *taken* takes so many fewer; it is one that is used already."""
    if (area.level, area.name) == (taken.level, taken.name):
        return Area(area.level, area.name, area.takes - count, (), is_own=True)
    parts = tuple(_without(part, taken, count) for part in area.parts)
    inside = any(part is not before for part, before in zip(parts, area.parts, strict=True))
    if not inside:
        return area
    return Area(area.level, area.name, area.takes - count, parts, is_own=area.is_own)


def _added(shares: tuple[Share, ...], area: Area, count: int) -> tuple[Share, ...]:
    """Return *shares* with *count* pods more for *area*."""
    merged = {one.name: (one, pods) for one, pods in shares}
    known = merged.get(area.name, (area, 0))[1]
    merged[area.name] = (area, known + count)
    return tuple(merged.values())
