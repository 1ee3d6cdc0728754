"""Proposes where the members of a gang go: all domains are costed, the best are tried first.

Pods that are alike are counted by node, and the choice among domains is exact. Pods of several
kinds are bounded kind by kind, and tried. Sub-groups with wishes of their own are placed one after
the other, the hardest first: what is left for the next is counted once the one before has its
places. What cannot be counted node by node is tried, and what a trial shows counts from then on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from numakube.scheduling.gang_placements import Part, Placement, largest_first
from numakube.scheduling.plugins.gang_scheduling import GangNodes
from numakube.scheduling.snapshot.pod_equivalence import replica_key
from numakube_levels.aligned_counts import Deciding
from numakube_levels.domain_tree import domains_in
from numakube_levels.eviction_losses import EvictionLosses
from numakube_levels.gang_areas import choice_wish, gang_areas, positions_of
from numakube_levels.gang_bounds import SeveralKinds
from numakube_levels.gang_wishes import LevelWish, sub_group_of
from numakube_levels.placement_choice import choices
from numakube_levels.placement_wish import Choice, Wish, less
from numakube_levels.pod_ranks import in_rank_order
from numakube_levels.refusals import why_mixed, why_not_mended, why_short
from numakube_levels.room_rows import figures_of, rooms_of
from numakube_levels.slice_mending import NoRoom, mended

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numakube.scheduling import Engine
    from numakube.scheduling.gang_placements import DomainRoom, GangRequest, PlacementFigures
    from numakube.scheduling.snapshot.pods import PodInfo
    from numakube_levels.aligned_counts import AlignedCounts, Counts
    from numakube_levels.gang_areas import GangAreas, Positions
    from numakube_levels.gang_bounds import Bound
    from numakube_levels.gang_wishes import GangWish, SubGroupWish
    from numakube_levels.level_sources import LevelTree
    from numakube_levels.placement_wish import Area, Share

PLUGIN: Final = "TopologyLevels"
_DIAGNOSED_WITH: Final = 64
"""Pods that are placed to say why the next one fits nowhere; more take long."""


@dataclass(frozen=True, slots=True)
class LevelsOfCluster:
    """What a search knows besides the gang.

    Attributes:
        most_tried: placements that are really tried.
    """

    engine: Engine
    tree: LevelTree
    counting: AlignedCounts
    most_tried: int


class EqualPods:
    """Chooses domains for pods that are alike."""

    def __init__(self, known: LevelsOfCluster, wish: LevelWish) -> None:
        self._known = known
        self.wish = wish
        self.positions: Positions = positions_of(wish, known.tree)
        self.limits: dict[str, int] = {}
        self.areas: GangAreas | None = None
        self.asked: Wish | None = None
        self.counts: Counts | None = None
        self.short: NoRoom | None = None

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
        known, snapshot = self._known, self._known.engine.cluster.snapshot()
        domains = domains_in(snapshot, known.tree)
        needed, wanted = amounts
        self.counts = known.counting.of(
            Deciding.of(known.engine, pods[0]), pods[0], wanted, evicting=evicting
        )
        takes = self.counts.takes
        if inside is not None:
            allowed = np.zeros(len(takes), dtype=np.bool_)
            allowed[inside.rows] = True
            takes = np.where(allowed, takes, 0)
        found = (snapshot.row_of.get(name, -1) for name in running_on)
        running = [row for row in found if row >= 0]
        self.areas = gang_areas(
            snapshot,
            domains,
            self.positions,
            takes,
            running=running,
            spare=self.wish.spares(known.tree, self.positions.finest),
            limits=self.limits,
        )
        self.asked = choice_wish(self.wish, self.positions, needed=needed, wanted=wanted)
        if self.positions.slices and running:
            return self._mending(self.areas, self.asked, running)
        return choices(self.areas.whole, self.asked)

    def _mending(self, areas: GangAreas, wish: Wish, running: Sequence[int]) -> list[Choice]:
        """Return choices that complete the slices of members that run before they begin others."""
        forced = mended(areas, wish.slices, running)
        if isinstance(forced, NoRoom):
            self.short = forced
            return []
        first = _up_to(forced, wish.wanted)
        count, size = sum(share for _, share in first), wish.slices[0].size
        left = max(wish.needed - count, 0)
        if not left:
            cost = ((), (0, 0), (), 0, 0, 0, tuple(area.name for area, _ in first))
            return [Choice(areas.whole, tuple(first), cost)] if first else []
        if left % size and not wish.allows_rest:
            left += size - left % size
        rest = wish.wanted - count
        if left > rest:
            return []
        more = choice_wish(self.wish, self.positions, needed=left, wanted=rest)
        found = choices(less(areas.whole, first), more)
        return [Choice(one.area, (*first, *one.shares), one.cost) for one in found]

    def nodes_of(self, areas: Iterable[Area]) -> GangNodes:
        """Return the nodes of *areas* together."""
        if self.areas is None:
            raise LookupError("nothing was counted")
        chosen = list({(area.level, area.name): area for area in areas}.values())
        rows = [self.areas.rows_of(area) for area in chosen]
        one = chosen[0] if len(chosen) == 1 else None
        number = self.areas.numbers.get((one.level, one.name), -1) if one is not None else -1
        domain = self.areas.domains.domain(one.level, number) if one and number >= 0 else None
        joined = np.unique(np.concatenate(rows)) if rows else np.zeros(0, dtype=np.intp)
        return GangNodes(joined, domain, ", ".join(area.name for area in chosen))

    def closest(self) -> GangNodes | None:
        """Return nodes that have no room for all, of the domain that takes most.

        What refuses pods there is what the gang waits for.
        """
        if self.areas is None or self.asked is None or not len(self.areas.domains.rows):
            return None
        size = self.asked.slices[0].size if self.asked.slices else 1
        if self.asked.needed % size and not self.asked.allows_rest:
            return None
        level = self.positions.required
        if level is None and self.positions.slices:
            level = self.positions.slices[0].level
        found = [self.areas.whole] if level is None else list(self.areas.whole.at(level))
        own = [self.short.area] if self.short else [area for area in found if area.is_own]
        best = max(own or found, key=lambda area: (area.takes, area.name), default=None)
        if best is None:
            return self._nodes_with(level)
        if best.takes >= self.asked.needed or self.counts is None:
            return None
        nodes = self.nodes_of([best])
        if best.takes <= _DIAGNOSED_WITH:
            return nodes
        full = nodes.rows[self.counts.takes[nodes.rows] == 0]
        return GangNodes(full, nodes.domain, nodes.name) if len(full) else nodes

    def _nodes_with(self, level: int | None) -> GangNodes | None:
        """Return the nodes of all domains of a level that take no pod.

        Spare ones may have room, and are in several domains: what is tried there would hold.
        """
        if self.areas is None or level is None or self.counts is None:
            return None
        domains = self.areas.domains
        rows = domains.rows[domains.ids[level] >= 0]
        rows = rows[self.counts.takes[rows] == 0]
        return GangNodes(rows, name=self._known.tree.levels[level].name) if len(rows) else None

    def why_short(self) -> str:
        """Say what is short."""
        if self.areas is None or self.asked is None:
            return ""
        if self.short is not None:
            return why_not_mended(self.short, self._known.tree)
        return why_short(self.areas, self.asked, self._known.tree)


def _up_to(shares: Sequence[Share], most: int) -> list[Share]:
    """Return the first of *shares* with no more than *most* pods together."""
    found: list[Share] = []
    for area, count in shares:
        if most > 0:
            found.append((area, min(count, most)))
            most -= count
    return found


class EqualSearch:
    """Proposes placements for a gang of pods that are alike."""

    def __init__(self, request: GangRequest, known: LevelsOfCluster, wish: LevelWish) -> None:
        self._request = request
        self._known = known
        self._wish = wish
        self._chooser = EqualPods(known, wish)
        self._failed: set[tuple[tuple[str, int], ...]] = set()
        self._last: Choice | None = None
        self._proposed: list[tuple[Placement, Choice]] = []
        self._losses: EvictionLosses | None = None
        self._tried = 0
        self._told = ""
        self._pods = in_rank_order(largest_first(request.pods))
        self.refused_by: frozenset[str] = frozenset({PLUGIN})

    def placements(self, *, evicting: bool) -> Iterator[Placement]:
        """Yield what to try next, the cheapest first."""
        self._tried, self._failed, self._proposed = 0, set(), []
        self._chooser.limits.clear()
        if self._has_all():
            running = len(self._request.running_on)
            self._told = f"{running} of its pods run, and gang-max-count is {self._wish.max_count}"
            return
        while self._tried < self._known.most_tried:
            options = self._options(evicting=evicting)
            option = next((one for one in options if _key(one) not in self._failed), None)
            if option is None:
                break
            self._tried += 1
            self._last, placement = option, self._placement(option)
            self._proposed.append((placement, option))
            yield placement
        if not evicting:
            self._told = _with_others(self._chooser.why_short(), self._tried, self._known)
        if not self._tried:
            self._last = None
            nodes = self._chooser.closest()
            if nodes is not None:
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
        # Of several that would do, another one than the last may have been taken.
        self._last = next((it for one, it in self._proposed if one is placement), None)
        positions = self._chooser.positions
        limited = self._wish.max_count is not None
        if self._last is None or positions.slices or limited:
            return ()
        if positions.required is None:
            return (None,)
        return (self._chooser.nodes_of([self._last.area]),)

    def why_not(self) -> str:
        """Say which level, what is needed there, and the best domain."""
        return self._told

    def rooms(self) -> Sequence[DomainRoom]:
        """Return the domains as they were counted."""
        areas = self._chooser.areas
        if areas is None:
            return ()
        return rooms_of(areas, self._known.tree, self._known.engine.cluster.by_row)

    def figures(self, nodes: Iterable[str]) -> PlacementFigures:
        """Return the domains of *nodes*, the largest ones as they were counted, and the cost."""
        found = figures_of(
            self._known.engine.cluster,
            self._known.tree,
            self._wish.levels,
            nodes,
            self._chooser.areas,
        )
        if self._last is None or not found.domains:
            return found  # there is no placement
        shares = self._last.shares
        counts = [count for _, count in shares]
        left = sum(area.takes for area, _ in shares) - sum(counts)
        return replace(found, cost={"uneven": max(counts) - min(counts), "leftOver": left})

    def _has_all(self) -> bool:
        """Tell whether as many run as are wanted; what is needed goes before that."""
        most, running = self._wish.max_count, len(self._request.running_on)
        return most is not None and running >= max(most, self._request.gang.min_count)

    def _options(self, *, evicting: bool) -> list[Choice]:
        request = self._request
        found = self._chooser.options(
            self._pods,
            (request.needed, _wanted(request, self._wish)),
            running_on=request.running_on,
            evicting=evicting,
        )
        if self._chooser.counts is not None:
            self.refused_by |= self._chooser.counts.limited_by
        return self._least_loss_first(found) if evicting and len(found) > 1 else found

    def _least_loss_first(self, options: list[Choice]) -> list[Choice]:
        """Return *options*, those first for which the fewest pods are likely to be evicted."""
        known, areas, counts = self._known, self._chooser.areas, self._chooser.counts
        if areas is None or counts is None:
            return options
        if self._losses is None:
            pod = self._pods[0]
            free = known.counting.of(Deciding.of(known.engine, pod), pod, 1).takes
            self._losses = EvictionLosses(known.engine.cluster, pod.priority, free)
        losses, rows_of = self._losses, areas.rows_of

        def loss(option: Choice) -> list[int]:
            each = [
                losses.of(rows_of(area).tolist(), counts.takes, count)
                for area, count in option.shares
            ]
            return [max(one[0] for one in each), *(sum(one[at] for one in each) for at in (1, 2))]

        return sorted(options, key=loss)

    def _placement(self, option: Choice) -> Placement:
        """Return *option* as parts: what is needed first, domain after domain."""
        parts, pods = parts_of(self._chooser, option, self._pods, self._request.needed)
        if pods:
            none = self._chooser.positions.slices or self._wish.max_count is not None
            areas = () if none else [area for area, _ in option.shares]
            parts.append(Part(pods, 0, self._chooser.nodes_of(areas)))
        return Placement(tuple(parts))


def parts_of(
    chooser: EqualPods, option: Choice, pods: list[PodInfo], needed: int
) -> tuple[list[Part], list[PodInfo]]:
    """Return *option* as parts with *pods* in their order, and the pods that are left."""
    parts: list[Part] = []
    for area, count in sorted(option.shares, key=lambda share: share[0].name):
        some, pods = pods[:count], pods[count:]
        least = min(needed, len(some))
        needed -= least
        if some:
            parts.append(Part(some, least, chooser.nodes_of([area])))
    return parts, pods


def _wanted(request: GangRequest, wish: LevelWish) -> int:
    """Return how many of the pods are to be placed at all."""
    if wish.max_count is None:
        return len(request.pods)
    return max(min(len(request.pods), wish.max_count - len(request.running_on)), request.needed)


def _with_others(told: str, tried: int, known: LevelsOfCluster) -> str:
    if tried < known.most_tried:
        return told
    return f"{tried} placements were tried, and others were not" + (f": {told}" if told else "")


def _key(option: Choice) -> tuple[tuple[str, int], ...]:
    return tuple(sorted((area.name, count) for area, count in option.shares))


# ------------------------------------------------------------------------------------------------
# Pods of several kinds.


class MixedSearch:
    """Proposes single domains for pods of several kinds, the tightest that may be enough first."""

    def __init__(self, request: GangRequest, known: LevelsOfCluster, wish: LevelWish) -> None:
        self._request = request
        self._known = known
        self._wish = wish
        self._kinds = SeveralKinds(known.engine, known.tree, wish, known.counting)
        self._pods = largest_first(request.pods)
        self._told = ""
        self.refused_by: frozenset[str] = frozenset({PLUGIN})

    def placements(self, *, evicting: bool) -> Iterator[Placement]:
        """Yield the domains, and what comes closest if none may be enough."""
        needed = self._request.needed
        if self._wish.slices:
            self._told = "its pods are of several kinds: gang-sub-groups says which have slices"
            return
        enough, closest = self._kinds.candidates(
            self._pods, needed, running_on=self._request.running_on, evicting=evicting
        )
        self.refused_by |= self._kinds.limited_by
        tried = enough[: self._known.most_tried]
        for bound in tried:
            yield Placement((Part(self._pods, needed, bound.nodes),))
        if not evicting:
            told = why_mixed(closest, needed, self._kinds.positions, self._known.tree)
            self._told = _with_others(told, len(tried), self._known)
        if not tried and closest is not None:
            yield Placement((Part(self._pods, needed, closest.nodes),))

    def failed(self, placement: Placement, fitting: frozenset[str]) -> None:
        """Go on with the next."""

    def beyond(self, placement: Placement) -> Iterable[GangNodes | None]:
        """Return all nodes, if no level is required."""
        del placement
        return () if self._kinds.positions.required is not None else (None,)

    def why_not(self) -> str:
        """Say which level, what is needed there, and the best domain."""
        return self._told

    def rooms(self) -> Sequence[DomainRoom]:
        """Return none: each kind of pods sees other ones."""
        return ()

    def figures(self, nodes: Iterable[str]) -> PlacementFigures:
        """Return the domains of *nodes*."""
        return figures_of(self._known.engine.cluster, self._known.tree, self._wish.levels, nodes)


# ------------------------------------------------------------------------------------------------
# Sub-groups.


class SubGroupSearch:
    """Proposes the domains of the whole gang; inside, one sub-group is placed after the other."""

    def __init__(self, request: GangRequest, known: LevelsOfCluster, wish: GangWish) -> None:
        self._request = request
        self._known = known
        self._wish = wish
        self._outer = SeveralKinds(known.engine, known.tree, wish.whole, known.counting)
        self._told = ""
        self.refused_by: frozenset[str] = frozenset({PLUGIN})

    def placements(self, *, evicting: bool) -> Iterator[Placement]:
        """Yield the domains that may be enough for all, the tightest first."""
        request = self._request
        enough, closest = self._outer.candidates(
            largest_first(request.pods),
            request.needed,
            running_on=request.running_on,
            evicting=evicting,
        )
        self.refused_by |= self._outer.limited_by
        tried = enough[: self._known.most_tried]
        self._told = ""
        for bound in tried:
            yield Placement((), lambda bound=bound: self._inside(bound, evicting=evicting))  # type: ignore[misc]
        if not tried:
            self._told = why_mixed(closest, request.needed, self._outer.positions, self._known.tree)
            if closest is not None:
                pods = largest_first(request.pods)
                yield Placement((Part(pods, request.needed, closest.nodes),))

    def failed(self, placement: Placement, fitting: frozenset[str]) -> None:
        """Go on with the next."""

    def beyond(self, placement: Placement) -> Iterable[GangNodes | None]:
        """Return nothing: what a sub-group can do without was tried beside it."""
        del placement
        return ()

    def why_not(self) -> str:
        """Say which sub-group lacks what."""
        return self._told

    def rooms(self) -> Sequence[DomainRoom]:
        """Return none: each kind of pods sees other ones."""
        return ()

    def figures(self, nodes: Iterable[str]) -> PlacementFigures:
        """Return the domains of *nodes*."""
        return figures_of(self._known.engine.cluster, self._known.tree, self._wish.levels, nodes)

    def _inside(self, bound: Bound, *, evicting: bool) -> Iterator[Part]:
        """Yield parts for one sub-group after the other, each once those before it are placed."""
        rests: list[Part] = []
        for group, pods, needed in self._by_hardness():
            chooser = EqualPods(self._known, group.wish)
            option = None
            if len({replica_key(pod) for pod in pods}) == 1:
                options = chooser.options(
                    pods,
                    (max(needed, 1), len(pods)),
                    running_on=self._running_in(group.name),
                    inside=bound.nodes,
                    evicting=evicting,
                )
                option = options[0] if options else None
            if option is None:
                yield from self._without_choice(group, (pods, needed), bound, chooser)
                continue
            parts, left = parts_of(chooser, option, pods, needed)
            for part in parts:
                if part.least:
                    yield Part(part.pods[: part.least], part.least, part.nodes)
                if part.pods[part.least :]:
                    rests.append(Part(part.pods[part.least :], 0, part.nodes))
            if left:
                areas = () if group.wish.slices else [area for area, _ in option.shares]
                rests.append(Part(left, 0, chooser.nodes_of(areas)))
        yield from rests

    def _without_choice(
        self,
        group: SubGroupWish,
        amounts: tuple[list[PodInfo], int],
        bound: Bound,
        chooser: EqualPods,
    ) -> Iterator[Part]:
        """Yield a part for pods of several kinds, or one that cannot be placed."""
        pods, needed = amounts
        if chooser.counts is None and not group.wish.slices:
            kinds = SeveralKinds(
                self._known.engine, self._known.tree, group.wish, self._known.counting
            )
            enough, closest = kinds.candidates(
                largest_first(pods),
                needed,
                running_on=self._running_in(group.name),
                inside=bound.nodes,
            )
            best = enough[0] if enough else closest
            yield Part(largest_first(pods), needed, best.nodes if best else bound.nodes)
            return
        short = chooser.why_short() or "its slices have pods of several kinds"
        if needed and not self._told:
            self._told = f"sub-group {group.name}: {short}"
        # Too few of them can be placed, so that this ends what was begun.
        nowhere = GangNodes(np.zeros(0, dtype=np.intp), name=bound.nodes.name)
        yield Part(pods, max(needed, 0), chooser.closest() or nowhere)

    def _by_hardness(self) -> list[tuple[SubGroupWish, list[PodInfo], int]]:
        """Return sub-groups, their pods, and how many are needed; least room first."""
        members: dict[str, list[PodInfo]] = {}
        for pod in self._request.pods:
            name = sub_group_of(pod)
            members.setdefault(name if name in self._wish.sub_groups else "", []).append(pod)
        found: list[tuple[int, SubGroupWish, list[PodInfo], int]] = []
        left = self._request.needed
        for name, pods in sorted(members.items(), reverse=True):
            group = self._wish.sub_group(name)
            running = len(self._running_in(name))
            needed = max(group.min_count - running, 0) if name else max(left, 0)
            needed = min(needed, len(pods))
            left -= needed
            ordered = in_rank_order(largest_first(pods))
            counts = self._known.counting.of(
                Deciding.of(self._known.engine, ordered[0]), ordered[0], len(pods)
            )
            self.refused_by |= counts.limited_by
            found.append((int(counts.takes.sum()) - len(pods), group, ordered, needed))
        found.sort(key=lambda one: (not one[1].wish.required, one[0], one[1].name))
        return [(group, pods, needed) for _, group, pods, needed in found]

    def _running_in(self, name: str) -> list[str]:
        """Return the nodes of members of a sub-group that have one."""
        cluster = self._known.engine.cluster
        nodes = (
            pod.node_name or cluster.node_of(pod.uid)
            for pod in self._request.placed
            if sub_group_of(pod) == name
        )
        return [node for node in nodes if node]


def search_for_wish(
    request: GangRequest, known: LevelsOfCluster, wish: GangWish
) -> EqualSearch | MixedSearch | SubGroupSearch:
    """Return what looks for placements of a gang with such a *wish*."""
    if wish.sub_groups:
        return SubGroupSearch(request, known, wish)
    # Members beyond the minimum are late, not lost.
    replaces = 0 < len(request.running_on) < request.gang.min_count
    whole = wish.whole.for_replacements() if replaces else wish.whole
    if len({replica_key(pod) for pod in request.pods}) == 1:
        return EqualSearch(request, known, whole)
    return MixedSearch(request, known, whole)
