"""What a gang lacks, in a sentence: the level, what is needed there, and the best domain."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube_levels.placement_wish import takes

if TYPE_CHECKING:
    from numakube_levels.gang_areas import GangAreas, Positions
    from numakube_levels.gang_bounds import Bound
    from numakube_levels.level_sources import LevelTree
    from numakube_levels.placement_wish import Area, Slices, Wish
    from numakube_levels.slice_mending import NoRoom


def why_short(areas: GangAreas, wish: Wish, tree: LevelTree) -> str:
    """Say why *wish* cannot be met in *areas*; empty if it can, as far as counts tell."""
    if wish.slices:
        size = wish.slices[0].size
        if wish.needed % size and not wish.allows_rest:
            return (
                f"{_pods(wish.needed, 'is', 'are')} not whole slices of {size}:"
                " gang-slices-rest: Allow would let the last one be smaller"
            )
        return _short_of_slices(areas, wish, tree)
    if wish.required is not None:
        return _short_of_room(areas, wish, tree.levels[wish.required].name)
    whole = areas.whole.takes
    if whole >= wish.needed:
        return ""
    return f"{_have_to_fit(wish.needed)}; all nodes together take {whole}"


def why_not_mended(short: NoRoom, tree: LevelTree) -> str:
    """Say which domain has no room for what its slices have lost."""
    level = tree.levels[short.area.level].name
    return (
        f"slices in {level} {short.area.name} have lost {_pods(short.missing)},"
        f" and it takes {short.area.takes}"
    )


def why_mixed(closest: Bound | None, needed: int, positions: Positions, tree: LevelTree) -> str:
    """Say why pods of several kinds do not fit, as far as each kind for itself tells."""
    if closest is None:
        return f"{_have_to_fit(needed)}, and no node takes any"
    if closest.takes >= needed:
        return ""
    told = f"takes {closest.takes} at most"
    if positions.required is None:
        return f"{_have_to_fit(needed)}; the cluster {told}"
    level = tree.levels[positions.required].name
    return f"{_have_to_fit(needed)} in one {level}; the best, {closest.nodes.name}, {told}"


def _short_of_room(areas: GangAreas, wish: Wish, level: str) -> str:
    found = [] if wish.required is None else list(areas.whole.at(wish.required))
    if not found:
        told = f"{_have_to_fit(wish.needed)} in one {level}, and no {level} takes any"
        free = len(areas.spared)
        return f"{told}; {free} nodes with room stay free (gang-spare)" if free else told
    own = [area for area in found if area.is_own]
    best = _best(own or found)
    if best.takes >= wish.needed:
        return ""
    told = f"{_have_to_fit(wish.needed)} in one {level}; the best, {best.name},"
    if own:
        told = f"{_have_to_fit(wish.needed)} beside those that run, in {best.name}, which"
    in_all = sum(area.takes for area in found)
    told += f" takes {best.takes}"
    if len(found) > 1 and not own:
        told += f" ({in_all} in all domains of {level})"
    return told + _spare_words(areas, wish.needed, best)


def _short_of_slices(areas: GangAreas, wish: Wish, tree: LevelTree) -> str:
    """Name the coarsest layer of slices of which too few fit where they have to."""
    roots = [areas.whole] if wish.required is None else list(areas.whole.at(wish.required))
    first = wish.slices[0]
    level = tree.levels[first.level].name
    count = -(-wish.needed // first.size)
    best = max(roots, key=lambda root: takes(root, wish.slices), default=None)
    if best is None:
        return f"no node is in a domain of {level}"
    fit = takes(best, wish.slices) // first.size
    if fit >= count:
        return ""
    where = "" if wish.required is None else f" in {best.name}"
    told = f"{fit} of {count} slices of {first.size} fits at {level}{where}"
    if fit != 1:
        told = f"{fit} of {count} slices of {first.size} fit at {level}{where}"
    others = [area for area in best.at(first.level) if takes(area, wish.slices) < first.size]
    if not others:
        return told
    next_best = _best(others)
    told += f"; the next best domain, {next_best.name}, takes {_inner(next_best, wish.slices)}"
    return told + _spare_words(areas, first.size, next_best)


def _inner(area: Area, slices: tuple[Slices, ...]) -> int:
    return takes(area, slices[1:]) if len(slices) > 1 else area.takes


def _best(areas: list[Area]) -> Area:
    return max(areas, key=lambda area: (area.takes, _reversed(area.name)))


def _reversed(name: str) -> tuple[int, ...]:
    """Return what makes the first of equal names the largest."""
    return tuple(-ord(letter) for letter in name)


def _spare_words(areas: GangAreas, needed: int, area: Area) -> str:
    """Say that spare nodes would help, if they would."""
    number = areas.numbers.get((area.level, area.name), -1)
    if not areas.spared or number < 0:
        return ""
    rows = set(areas.domains.rows_of(area.level, number).tolist())
    free = len(rows & areas.spared)
    if not free or area.takes + free < needed:
        return f", and {free} of its nodes stay free" if free else ""
    return f", and {free} of its {len(rows)} nodes stay free; gang-spare: 0 would allow it"


def _have_to_fit(count: int) -> str:
    return f"{_pods(count, 'has', 'have')} to fit"


def _pods(count: int, *verbs: str) -> str:
    """Return so many pods, and what they do: the verb for one, and that for several."""
    told = "1 pod" if count == 1 else f"{count} pods"
    return f"{told} {verbs[count != 1]}" if verbs else told
