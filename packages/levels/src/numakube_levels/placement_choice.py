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
would take too long, the largest are taken first, which is exact for their number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube_levels.balanced_domains import balanced_choice, spread_cost
from numakube_levels.domain_table import Chosen, Unit, tightest
from numakube_levels.placement_wish import Area, Balance, Choice, Wish, takes, without

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numakube_levels.placement_wish import Cost, Share


def choices(whole: Area, wish: Wish) -> list[Choice]:
    """Return the best choice of each domain that may be the gang's, the cheapest first."""
    areas = [whole] if wish.required is None else list(whole.at(wish.required))
    own = [area for area in areas if area.is_own]
    found = (_best_in(area, wish) for area in own or areas)
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
        return tightest(units, len(counting), needed, wanted)
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
            smaller = without(area, one, rest)
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


def _added(shares: tuple[Share, ...], area: Area, count: int) -> tuple[Share, ...]:
    """Return *shares* with *count* pods more for *area*."""
    merged = {one.name: (one, pods) for one, pods in shares}
    known = merged.get(area.name, (area, 0))[1]
    merged[area.name] = (area, known + count)
    return tuple(merged.values())
