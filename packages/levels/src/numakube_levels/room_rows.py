"""The domains that a gang chooses from, for people: what each takes, and why not more."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import numpy as np

from numakube.scheduling.gang_placements import DomainRoom, PlacementFigures
from numakube_levels.domain_tree import domains_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numakube.scheduling.snapshot.cluster import Cluster
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube_levels.gang_areas import GangAreas
    from numakube_levels.level_sources import LevelTree
    from numakube_levels.placement_wish import Area

_MOST_ROWS: Final = 200
_NAMES: Final = 3


def figures_of(
    cluster: Cluster,
    tree: LevelTree,
    levels: Iterable[str],
    nodes: Iterable[str],
    areas: GangAreas | None = None,
) -> PlacementFigures:
    """Return by level how many of *nodes* are in each domain, and what the largest one took.

    Those levels are told that the gang names, and all coarser ones.
    """
    domains = domains_in(cluster.snapshot(), tree)
    finest = max((at for at in map(tree.position, levels) if at is not None), default=-1)
    rows = [cluster.row_of[name] for name in nodes if name in cluster.row_of]
    at = np.searchsorted(domains.rows, rows)
    found: dict[str, dict[str, int]] = {}
    largest: dict[str, int] = {}
    for level in range(finest + 1):
        ids, name = domains.ids[level], tree.levels[level].name
        counted = Counter(ids[at].tolist())
        own = {domains.name(level, number): counted[number] for number in counted if number >= 0}
        if own:
            found[name] = dict(sorted(own.items()))
        if areas is not None:
            some = ids >= 0
            sums = np.bincount(ids[some], weights=areas.takes[some])
            largest[name] = int(sums.max(initial=0))
    return PlacementFigures(domains=found, largest=largest)


def rooms_of(
    areas: GangAreas, tree: LevelTree, by_row: Sequence[NodeInfo | None]
) -> list[DomainRoom]:
    """Return the domains of *areas*, each before those in it; no more than people read."""
    found: list[DomainRoom] = []
    for depth, area in _walk(areas.whole, 0):
        if len(found) >= _MOST_ROWS:
            break
        rows = areas.rows_of(area).tolist()
        spare = _spare_in(areas, area)
        found.append(
            DomainRoom(
                level=tree.levels[area.level].name,
                name=area.name,
                depth=depth,
                nodes=len(rows) + spare,
                takes=area.takes,
                why="" if area.parts else _why(areas, rows, spare, by_row),
            )
        )
    return found


def _walk(area: Area, depth: int) -> Iterator[tuple[int, Area]]:
    for part in area.parts:
        yield depth, part
        yield from _walk(part, depth + 1)


def _spare_in(areas: GangAreas, area: Area) -> int:
    number = areas.numbers.get((area.level, area.name), -1)
    if number < 0:
        return 0
    return len(areas.spared & set(areas.domains.rows_of(area.level, number).tolist()))


def _why(
    areas: GangAreas, rows: Sequence[int], spare: int, by_row: Sequence[NodeInfo | None]
) -> str:
    """Say what keeps the nodes of a domain from taking more."""
    takes = dict(zip(areas.domains.rows.tolist(), areas.takes.tolist(), strict=True))
    full = [node for row in rows if not takes.get(row) and (node := by_row[row]) is not None]
    stays = "stays" if spare == 1 else "stay"
    parts = [f"{_nodes(spare)} {stays} free"] if spare else []
    if full:
        pods = sorted(pod.key for node in full for pod in node.pods.values())
        held = ", ".join(pods[:_NAMES])
        more = f" and {len(pods) - _NAMES} more" if len(pods) > _NAMES else ""
        told = f": {held}{more}" if pods else ""
        verb = "takes" if len(full) == 1 else "take"
        parts.append(f"{_nodes(len(full))} {verb} none{told}")
    return "; ".join(parts)


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"
