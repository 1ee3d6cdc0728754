"""Proposes where the members of a gang go: all domains are costed, the best are tried first.

Pods that are alike are counted by node, and the choice among domains is exact. Pods of several
kinds, and sub-groups with wishes of their own, are placed group after group, the hardest first:
what is left for the next is counted once the one before has its places. What cannot be counted node
by node is tried, and what a trial has shown counts from then on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from numakube.scheduling.gang_placements import Part, Placement, largest_first
from numakube.scheduling.plugins.gang_scheduling import GangNodes
from numakube.scheduling.snapshot.pod_equivalence import replica_key
from numakube_levels.domain_tree import domains_in
from numakube_levels.gang_areas import choice_wish, gang_areas, positions_of
from numakube_levels.placement_choice import choices
from numakube_levels.pod_ranks import in_rank_order
from numakube_levels.refusals import why_short

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numakube.scheduling.assembly import Engine
    from numakube.scheduling.gang_placements import GangRequest
    from numakube.scheduling.snapshot.pods import PodInfo
    from numakube_levels.aligned_counts import AlignedCounts, Counts
    from numakube_levels.domain_tree import Domains
    from numakube_levels.gang_areas import GangAreas, Positions
    from numakube_levels.gang_wishes import GangWish, LevelWish
    from numakube_levels.level_sources import LevelTree
    from numakube_levels.placement_choice import Area, Choice, Wish

_DIAGNOSED_WITH: Final = 64
"""Pods that are placed to say why the next one fits nowhere; more take long."""


class EqualPods:
    """Chooses domains for pods that are alike."""

    def __init__(
        self,
        engine: Engine,
        tree: LevelTree,
        wish: LevelWish,
        counting: AlignedCounts,
    ) -> None:
        self._engine = engine
        self.tree = tree
        self.wish = wish
        self._counting = counting
        self.positions: Positions = positions_of(wish, tree)
        self.limits: dict[str, int] = {}
        self.areas: GangAreas | None = None
        self.asked: Wish | None = None
        self.counts: Counts | None = None

    def options(
        self,
        pods: Sequence[PodInfo],
        amounts: tuple[int, int],
        *,
        running_on: Iterable[str] = (),
        inside: GangNodes | None = None,
        evicting: bool = False,
    ) -> list[Choice]:
        """Return the choices for *pods*, of which so many are needed and so many wanted."""
        snapshot = self._engine.cluster.snapshot()
        domains: Domains = domains_in(snapshot, self.tree)
        self.counts = self._counting.of(self._engine, pods[0], amounts[1], evicting=evicting)
        takes = self.counts.takes
        if inside is not None:
            allowed = np.zeros(len(takes), dtype=np.bool_)
            allowed[inside.rows] = True
            takes = np.where(allowed, takes, 0)
        known = (snapshot.row_of.get(name, -1) for name in running_on)
        self.areas = gang_areas(
            snapshot,
            domains,
            self.positions,
            takes,
            running=[row for row in known if row >= 0],
            spare=self._spare(),
            limits=self.limits,
        )
        needed, wanted = amounts
        self.asked = choice_wish(self.wish, self.positions, needed=needed, wanted=wanted)
        return choices(self.areas.whole, self.asked)

    def nodes_of(self, areas: Iterable[Area]) -> GangNodes:
        """Return the nodes of *areas* together."""
        if self.areas is None:
            raise LookupError("nothing was counted")
        chosen = list(areas)
        rows = [self.areas.rows_of(area) for area in chosen]
        one = chosen[0] if len(chosen) == 1 else None
        number = self.areas.numbers.get((one.level, one.name), -1) if one is not None else -1
        domain = self.areas.domains.domain(one.level, number) if one and number >= 0 else None
        joined = np.unique(np.concatenate(rows)) if rows else np.zeros(0, dtype=np.intp)
        return GangNodes(joined, domain, ", ".join(area.name for area in chosen))

    def closest(self) -> GangNodes | None:
        """Return the nodes of the domain that takes most, for what refuses pods there."""
        if self.areas is None or not len(self.areas.domains.rows):
            return None
        level = self.positions.required
        if level is None and self.positions.slices:
            level = self.positions.slices[0].level
        if level is None:
            return None
        found = list(self.areas.whole.at(level))
        if not found:
            return None
        best = max(found, key=lambda area: (area.takes, area.name))
        nodes = self.nodes_of([best])
        if best.takes <= _DIAGNOSED_WITH or self.counts is None:
            return nodes
        full = nodes.rows[self.counts.takes[nodes.rows] == 0]
        return GangNodes(full, nodes.domain, nodes.name) if len(full) else nodes

    def _spare(self) -> list[int]:
        """Return for each level how many nodes of a domain stay free."""
        own = [level.spare for level in self.tree.levels]
        if self.wish.spare is None:
            return own
        if any(own):
            return [self.wish.spare if spare else 0 for spare in own]
        return [self.wish.spare if at == self.positions.finest else 0 for at in range(len(own))]


class LevelSearch:
    """Proposes placements for one gang."""

    def __init__(
        self,
        request: GangRequest,
        engine: Engine,
        wish: GangWish,
        trees: tuple[LevelTree, AlignedCounts],
        *,
        most_tried: int,
    ) -> None:
        tree, counting = trees
        self._request = request
        self._engine = engine
        self._wish = wish
        self._most_tried = most_tried
        self._chooser = EqualPods(engine, tree, wish.whole, counting)
        self._failed: set[tuple[tuple[str, int], ...]] = set()
        self._last: Choice | None = None
        self._tried = 0
        self._told = ""
        self.refused_by: frozenset[str] = frozenset({"TopologyLevels"})

    def placements(self, *, evicting: bool) -> Iterator[Placement]:
        """Yield what to try next, the cheapest first."""
        self._tried, self._failed = 0, set()
        self._chooser.limits.clear()
        while self._tried < self._most_tried:
            options = self._options(evicting=evicting)
            option = next((one for one in options if _key(one) not in self._failed), None)
            if option is None:
                break
            self._tried += 1
            self._last = option
            yield self._placement(option)
        self._note(evicting=evicting)
        if not self._tried:
            self._last = None
            nodes = self._chooser.closest()
            yield Placement((Part(self._pods, self._request.needed, nodes),))

    def failed(self, placement: Placement, fitting: frozenset[str]) -> None:
        """Count what each domain really took, if that is less than was promised."""
        if self._last is None:
            return
        self._failed.add(_key(self._last))
        areas = {area.name: area for area, _ in self._last.shares}
        for part in placement.parts:
            name = part.nodes.name if part.nodes is not None else ""
            took = sum(pod.uid in fitting for pod in part.pods)
            if name in areas and took < part.least:
                self._chooser.limits[name] = min(self._chooser.limits.get(name, took), took)
                return

    def beyond(self, placement: Placement) -> Iterable[GangNodes | None]:
        """Return where pods beyond the minimum may go: all that is not ruled out."""
        del placement
        positions = self._chooser.positions
        if self._last is None or positions.slices:
            return ()
        if positions.required is None:
            return (None,)
        return (self._chooser.nodes_of([self._last.area]),)

    def why_not(self) -> str:
        """Say which level, what is needed there, and the best domain."""
        return self._told

    @property
    def _pods(self) -> list[PodInfo]:
        return in_rank_order(largest_first(self._request.pods))

    def _options(self, *, evicting: bool) -> list[Choice]:
        request, most = self._request, self._wish.whole.max_count
        wanted = len(request.pods)
        if most is not None:
            wanted = max(min(wanted, most - len(request.running_on)), request.needed)
        found = self._chooser.options(
            self._pods,
            (request.needed, wanted),
            running_on=request.running_on,
            evicting=evicting,
        )
        if self._chooser.counts is not None:
            self.refused_by |= self._chooser.counts.limited_by
        return found

    def _placement(self, option: Choice) -> Placement:
        """Return *option* as parts: what is needed first, domain after domain."""
        pods, needed = self._pods, self._request.needed
        parts: list[Part] = []
        for area, count in sorted(option.shares, key=lambda share: share[0].name):
            some, pods = pods[:count], pods[count:]
            least = min(needed, len(some))
            needed -= least
            parts.append(Part(some, least, self._chooser.nodes_of([area])))
        if pods:
            nodes = self._chooser.nodes_of(
                () if self._chooser.positions.slices else [area for area, _ in option.shares]
            )
            parts.append(Part(pods, 0, nodes))
        return Placement(tuple(parts))

    def _note(self, *, evicting: bool) -> None:
        if evicting or self._chooser.areas is None or self._chooser.asked is None:
            return
        self._told = why_short(self._chooser.areas, self._chooser.asked, self._chooser.tree)
        if self._tried >= self._most_tried:
            self._told = f"{self._tried} placements were tried, and others were not: {self._told}"


def _key(option: Choice) -> tuple[tuple[str, int], ...]:
    return tuple(sorted((area.name, count) for area, count in option.shares))


def is_of_one_kind(pods: Sequence[PodInfo]) -> bool:
    """Tell whether all of *pods* are alike."""
    first = replica_key(pods[0])
    return all(replica_key(pod) == first for pod in pods)
