"""Members for which room is kept go there: after evictions, for a hold, after a restart.

Room was found for all of them at once, so that together it gives the gang what it asked for. What
it asks for may have changed since, or labels may: then the places are no better than others.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from numakube.scheduling.gang_placements import Part, Placement
from numakube.scheduling.plugins.gang_scheduling import GangNodes
from numakube_levels.domain_tree import domains_in
from numakube_levels.gang_areas import positions_of
from numakube_levels.gang_wishes import sub_group_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numakube.scheduling.gang_placements import (
        DomainRoom,
        GangRequest,
        PlacementFigures,
        PlacementSearch,
    )
    from numakube.scheduling.snapshot.pods import PodInfo
    from numakube_levels.domain_tree import Domains
    from numakube_levels.gang_wishes import GangWish, LevelWish
    from numakube_levels.level_search import LevelsOfCluster


class HeldFirst:
    """Proposes the places that are kept for the members, and then what another search finds."""

    def __init__(self, search: PlacementSearch, held: Placement) -> None:
        self._search = search
        self._held = held
        self._is_held = False
        self.refused_by = search.refused_by

    def placements(self, *, evicting: bool) -> Iterator[Placement]:
        """Yield what to try next."""
        if not evicting:
            self._is_held = True
            yield self._held
        self._is_held = False
        yield from self._search.placements(evicting=evicting)
        self.refused_by = self._search.refused_by

    def failed(self, placement: Placement, fitting: frozenset[str]) -> None:
        """Go on."""
        if not self._is_held:
            self._search.failed(placement, fitting)

    def beyond(self, placement: Placement) -> Iterable[GangNodes | None]:
        """Return nothing for kept places: a further pod has its turn when these are bound."""
        return () if self._is_held else self._search.beyond(placement)

    def why_not(self) -> str:
        """Say what the other search says."""
        return self._search.why_not()

    def rooms(self) -> Sequence[DomainRoom]:
        """Return what the other search has seen."""
        return self._search.rooms()

    def figures(self, nodes: Iterable[str]) -> PlacementFigures:
        """Return the figures of the placement."""
        return self._search.figures(nodes)


def held_placement(
    request: GangRequest, known: LevelsOfCluster, wish: GangWish
) -> Placement | None:
    """Return the places that are kept for members, if they are enough, and what the gang asks."""
    row_of, node_of = known.engine.cluster.row_of, known.engine.nominations.node_of
    rows = {pod.uid: row_of.get(node_of(pod.uid) or "", -1) for pod in request.pods}
    held = [pod for pod in request.pods if rows[pod.uid] >= 0]
    if len(held) < request.needed:
        return None
    domains = domains_in(known.engine.cluster.snapshot(), known.tree)
    where = known.engine.cluster.node_of
    placed = [
        (one, row_of.get(one.node_name or where(one.uid) or "", -1)) for one in request.placed
    ]
    everybody = [*placed, *((pod, rows[pod.uid]) for pod in held)]
    if not _is_granted(wish, everybody, domains):
        return None
    parts = [Part([pod], 1, GangNodes(np.array([rows[pod.uid]], dtype=np.intp))) for pod in held]
    rest = [pod for pod in request.pods if rows[pod.uid] < 0]
    if rest:
        parts.append(Part(rest, 0, GangNodes(np.zeros(0, dtype=np.intp))))
    return Placement(tuple(parts))


def _is_granted(wish: GangWish, places: Sequence[tuple[PodInfo, int]], domains: Domains) -> bool:
    """Tell whether pods at these rows have what the gang, and each sub-group, asks for."""
    if not _is_kept(wish.whole, [row for _, row in places], domains):
        return False
    for name, group in wish.sub_groups.items():
        rows = [row for pod, row in places if sub_group_of(pod) == name]
        if rows and not _is_kept(group.wish, rows, domains):
            return False
    return True


def _is_kept(wish: LevelWish, rows: Sequence[int], domains: Domains) -> bool:
    positions = positions_of(wish, domains.tree)
    at = np.searchsorted(domains.rows, [row for row in rows if row >= 0])
    if positions.required is not None:
        ids = domains.ids[positions.required][at]
        if len(np.unique(ids)) != 1 or ids[0] < 0:
            return False
    for one in positions.slices:
        counts = Counter(domains.ids[one.level][at].tolist())
        broken = sum(count % one.size > 0 for count in counts.values())
        if -1 in counts or broken > wish.allows_rest:
            return False
    return True
