"""The readable definition beside the fast one: every way to give domains their pods, one by one."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from numakube_levels.placement_wish import Balance

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numakube_levels.placement_wish import Area, Wish


def best_cost(whole: Area, wish: Wish) -> tuple[object, ...] | None:
    """Return what the cheapest placement costs, names left out; nothing if there is none."""
    roots = [whole] if wish.required is None else list(whole.at(wish.required))
    costs = [cost for root in roots for cost in _costs(root, wish)]
    return min(costs, default=None)


def _costs(root: Area, wish: Wish) -> Iterator[tuple[object, ...]]:
    leaves = list(_leaves(root, ()))
    for shares in product(*(range(min(leaf.takes, wish.wanted) + 1) for _, leaf in leaves)):
        placed = sum(shares)
        if wish.needed <= placed <= wish.wanted and _in_slices(leaves, shares, wish):
            yield _cost(root, wish, leaves, shares)


def _leaves(area: Area, path: tuple[Area, ...]) -> Iterator[tuple[tuple[Area, ...], Area]]:
    path = (*path, area)
    if not area.parts:
        yield path, area
    for part in area.parts:
        yield from _leaves(part, path)


def _sums(
    leaves: Sequence[tuple[tuple[Area, ...], Area]], shares: Sequence[int], level: int
) -> dict[str, tuple[Area, int]]:
    found: dict[str, tuple[Area, int]] = {}
    for (path, _), share in zip(leaves, shares, strict=True):
        area = next((one for one in path if one.level == level), None)
        if area is not None and share:
            found[area.name] = (area, found.get(area.name, (area, 0))[1] + share)
    return found


def _in_slices(
    leaves: Sequence[tuple[tuple[Area, ...], Area]], shares: Sequence[int], wish: Wish
) -> bool:
    return all(
        count % one.size == 0
        for one in wish.slices
        for _, count in _sums(leaves, shares, one.level).values()
    )


def _cost(
    root: Area,
    wish: Wish,
    leaves: Sequence[tuple[tuple[Area, ...], Area]],
    shares: Sequence[int],
) -> tuple[object, ...]:
    placed = sum(shares)
    preferred = sorted(level for level in wish.preferred if level > root.level)
    unit = wish.slices[0].level if wish.slices else max(preferred, default=root.level)
    coarse = tuple(len(_sums(leaves, shares, level)) for level in preferred if level < unit)
    at_unit = _sums(leaves, shares, unit)
    size = wish.slices[0].size if wish.slices else 1
    numbers = [count // size for _, count in at_unit.values()]
    uneven = 0
    if wish.balance is not Balance.NONE:
        uneven = max(max(numbers) - min(numbers) - 1, 0)
    count = len(at_unit)
    spread = (uneven, count) if wish.balance is Balance.EVEN else (count, uneven)
    left = sum(area.takes for area, _ in at_unit.values()) - placed
    return coarse, spread, wish.wanted - placed, left, root.takes - placed
