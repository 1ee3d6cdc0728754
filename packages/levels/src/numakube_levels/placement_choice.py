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
would take too long, the largest are taken first, which is exact for their number. So it is at
first sight where many domains may be the one that is required.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from numakube_levels.balanced_domains import balanced_choice, spread_cost
from numakube_levels.domain_table import Chosen, Unit, tightest
from numakube_levels.placement_wish import Area, Balance, Choice, Wish, takes, without

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numakube_levels.placement_wish import Cost, Share

_MOST_EXACT: Final = 8
"""Domains inside which all sets of domains are compared, for some tenths of a second each."""
_MOST_RESTS: Final = 32
"""Domains that are looked at for the smaller slice: those that lose the fewest others, if any."""


def choices(whole: Area, wish: Wish) -> list[Choice]:
    """Return the best choice of each domain that may be the gang's, the cheapest first.

    Of many, only those are looked at closely that are the cheapest at first sight.
    """
    areas = [whole] if wish.required is None else list(whole.at(wish.required))
    areas = [area for area in areas if area.is_own] or areas
    if len(areas) <= _MOST_EXACT:
        return _sorted(_best_in(area, wish) for area in areas)
    quick = _sorted(_best_in(area, replace(wish, is_exact=False)) for area in areas)
    close = [_best_in(one.area, wish) or one for one in quick[:_MOST_EXACT]]
    return _sorted([*close, *quick[_MOST_EXACT:]])


def _sorted(found: Iterable[Choice | None]) -> list[Choice]:
    return sorted((one for one in found if one is not None), key=lambda one: one.cost)


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


def _units(area: Area, counting: Sequence[int], wish: Wish, size: int) -> list[Unit]:
    """Return the units inside *area* that take a slice, side by side where domains are shared."""
    found: list[Unit] = []
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
            found.append(Unit(one, path, own, slices, one.takes))

    for part in sorted(area.parts, key=lambda part: part.name) if area.parts else (area,):
        walk(part, (), ())
    return found


def _chosen_units(area: Area, wish: Wish, finest: int, size: int) -> Chosen:
    counting = sorted({level for level in wish.preferred if area.level < level < finest})
    counting = [*counting, max(finest, area.level)]
    units = _units(area, counting, wish, size)
    needed, wanted = -(-wish.needed // size), max(wish.wanted // size, -(-wish.needed // size))
    if wish.balance is Balance.NONE:
        return tightest(units, len(counting), needed, wanted, is_exact=wish.is_exact)
    return balanced_choice(units, len(counting), (needed, wanted), wish.balance)


def _with_finer_levels(area: Area, wish: Wish, chosen: Chosen, finest: int) -> Choice:
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
            is_exact=wish.is_exact,
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
    spread = spread_cost(chosen, wish.balance)
    rest, whole = wish.wanted - placed, area.takes - placed
    cost: Cost = (chosen.counts[:-1], spread, finer, rest, left, whole, (area.name, *names))
    return Choice(area, tuple(shares), cost)


def _summed(rows: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(map(sum, zip(*rows, strict=False)))


def _with_rest(area: Area, wish: Wish, rest: int) -> Choice | None:
    """Return the best choice where the last slice, of *rest* pods, is smaller than the others."""
    kinds: dict[tuple[int, int], Area] = {}
    for one in area.at(wish.slices[0].level):
        if one.takes >= rest:
            kinds.setdefault((one.takes, takes(one, wish.slices)), one)
    at_once = wish if len(kinds) <= _MOST_EXACT else replace(wish, is_exact=False)
    few = sorted(kinds.values(), key=lambda one: (_lost(one, wish, rest), one.takes))[:_MOST_RESTS]
    found = [(choice, one) for one in few if (choice := _rest_in(area, at_once, one))]
    found.sort(key=lambda pair: pair[0].cost)
    if at_once is not wish and wish.is_exact:
        close = [(_rest_in(area, wish, one) or choice, one) for choice, one in found[:_MOST_EXACT]]
        found = sorted(close, key=lambda pair: pair[0].cost)
    return found[0][0] if found else None


def _lost(area: Area, wish: Wish, rest: int) -> int:
    """Return how many whole slices *area* takes fewer with *rest* pods more."""
    size = wish.slices[0].size
    return area.takes // size - (area.takes - rest) // size


def _rest_in(area: Area, wish: Wish, one: Area) -> Choice | None:
    """Return the best choice where the smaller slice is in the domain *one*."""
    rest = wish.needed % wish.slices[0].size
    full = wish.needed - rest
    if not full:
        choice = _best_in(one, Wish(needed=rest, wanted=rest))
    else:
        others = replace(wish, needed=full, wanted=full, required=None, allows_rest=False)
        choice = _best_in(without(area, one, rest), others)
    if choice is None:
        return None
    return Choice(area, _added(choice.shares if full else (), one, rest), choice.cost)


def _added(shares: tuple[Share, ...], area: Area, count: int) -> tuple[Share, ...]:
    """Return *shares* with *count* pods more for *area*."""
    merged = {one.name: (one, pods) for one, pods in shares}
    known = merged.get(area.name, (area, 0))[1]
    merged[area.name] = (area, known + count)
    return tuple(merged.values())
