"""Domains that get equal numbers of a gang's pods, as far as their room allows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from numakube_levels.domain_table import MOST_WORK, Chosen, Table, counted, tightest
from numakube_levels.placement_wish import Balance

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numakube_levels.domain_table import Unit
    from numakube_levels.placement_wish import Counts


def balanced_choice(
    units: Sequence[Unit], depth: int, amounts: tuple[int, int], balance: Balance
) -> Chosen:
    """Return the best balanced choice; if one domain of the coarser levels does, in one of them."""
    needed, wanted = amounts
    outer = {unit.path[:-1]: unit for unit in units}
    if len(outer) > 1:
        groups = [[unit for unit in units if unit.path[:-1] == path] for path in outer]
        enough = [group for group in groups if sum(unit.slices for unit in group) >= needed]
        if not enough:
            inside = tightest(units, depth, needed, wanted)
            coarse = {unit.path[:-1] for unit in inside.units}
            units = [unit for unit in units if unit.path[:-1] in coarse]
        else:
            options = [_balanced(group, amounts, balance) for group in enough]
            return min(
                (_with_counts(option, depth) for option in options),
                key=lambda one: _balanced_cost(one, balance, wanted),
            )
    return _with_counts(_balanced(units, amounts, balance), depth)


def _with_counts(chosen: Chosen, depth: int) -> Chosen:
    """Return *chosen* with its domains counted at every level."""
    return Chosen(chosen.units, chosen.shares, counted(chosen.units, depth))


def _balanced_cost(
    chosen: Chosen, balance: Balance, wanted: int
) -> tuple[Counts, tuple[int, int], int, int, tuple[str, ...]]:
    placed, places = sum(chosen.shares), sum(unit.places for unit in chosen.units)
    names = tuple(sorted(unit.area.name for unit in chosen.units))
    spread = spread_cost(chosen, balance)
    return chosen.counts[:-1], spread, wanted - placed, places - placed, names


def spread_cost(chosen: Chosen, balance: Balance) -> tuple[int, int]:
    """Return the number of domains and how uneven they are, in the order in which that counts."""
    uneven = _unevenness(chosen.shares) if balance is not Balance.NONE else 0
    finest = chosen.counts[-1]
    return (uneven, finest) if balance is Balance.EVEN else (finest, uneven)


def _unevenness(shares: Sequence[int]) -> int:
    """Return by how much more than one pod, or slice, the numbers differ."""
    return max(max(shares) - min(shares) - 1, 0) if shares else 0


def _balanced(units: Sequence[Unit], amounts: tuple[int, int], balance: Balance) -> Chosen:
    needed = amounts[0]
    largest = sorted(units, key=lambda unit: -unit.slices)
    fewest, sum_ = 0, 0
    while sum_ < needed:
        sum_ += largest[fewest].slices
        fewest += 1
    most = min(len(units), needed) if balance is Balance.EVEN else fewest
    best: Chosen | None = None
    for count in range(fewest, most + 1):
        one = _balanced_over(units, count, amounts)
        if best is None or _unevenness(one.shares) < _unevenness(best.shares):
            best = one
        if not _unevenness(best.shares):
            break
    if best is None:
        raise LookupError("a gang that needs no pods")
    return best


def _balanced_over(units: Sequence[Unit], count: int, amounts: tuple[int, int]) -> Chosen:
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
    return Chosen(tuple(used), tuple(shares), (0,))


def _tightest_for(order: Sequence[Unit], count: int, low: int, more: int) -> list[Unit]:
    """Return the first *count* units that take *low* each, and *more* of them one above that."""
    used: list[Unit] = []
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


def _least_uneven(order: Sequence[Unit], count: int, needed: int) -> list[Unit]:
    """Return the *count* units whose numbers differ least, where they must differ by more than one.

    The largest allow what any others do. Of those that allow as much, the tightest are taken: for
    each least number that a domain may get, what others get more is limited.
    """
    largest = sorted(order, key=lambda unit: -unit.slices)[:count]
    shares = levelled([unit.slices for unit in largest], needed)
    apart = max(shares) - min(shares)
    if len(order) * (count + 1) * (needed + 1) * (max(shares) + 1) > MOST_WORK:
        return largest
    best, places = largest, sum(unit.places for unit in largest)
    for low in range(min(shares), needed // count + 1):
        able = [unit for unit in order if unit.slices >= low]
        flat = [
            replace(unit, path=(at,), own=(False,), slices=min(unit.slices, low + apart))
            for at, unit in enumerate(able)
        ]
        table = Table(flat, (count,), needed)
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
