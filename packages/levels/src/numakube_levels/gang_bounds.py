"""Pods of several kinds: which domains may take them all, judged kind by kind.

Kinds share the room of nodes, so that a domain which has room for each may not have room for all.
The bound never rules out a domain that has; a plan finds out by placing them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from numakube.scheduling.plugins.gang_scheduling import GangNodes
from numakube.scheduling.snapshot.pod_equivalence import replica_key
from numakube_levels.aligned_counts import Deciding
from numakube_levels.domain_tree import domains_in
from numakube_levels.gang_areas import left_free, positions_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numakube.scheduling import Engine
    from numakube.scheduling.arrays import IntArray, Mask
    from numakube.scheduling.snapshot.pods import PodInfo
    from numakube_levels.aligned_counts import AlignedCounts
    from numakube_levels.domain_tree import Domains
    from numakube_levels.gang_wishes import LevelWish
    from numakube_levels.level_sources import LevelTree


@dataclass(frozen=True, slots=True)
class Bound:
    """A domain, or all nodes, as pods of several kinds see it.

    Attributes:
        takes: at most so many of them.
        slack: how many more of the kind for which there is least room.
    """

    nodes: GangNodes
    takes: int
    slack: int


class SeveralKinds:
    """Judges domains for pods of several kinds."""

    def __init__(
        self, engine: Engine, tree: LevelTree, wish: LevelWish, counting: AlignedCounts
    ) -> None:
        self._engine = engine
        self._tree = tree
        self._counting = counting
        self._wish = wish
        self.positions = positions_of(wish, tree)
        self.limited_by: frozenset[str] = frozenset()

    def candidates(
        self,
        pods: Sequence[PodInfo],
        needed: int,
        *,
        running_on: Iterable[str] = (),
        inside: GangNodes | None = None,
        evicting: bool = False,
    ) -> tuple[list[Bound], Bound | None]:
        """Return what may be enough, the best first, and else what comes closest.

        Finer preferred levels come first, then coarser ones, and last the domains that are
        required, or all nodes.
        """
        snapshot = self._engine.cluster.snapshot()
        domains = domains_in(snapshot, self._tree)
        kinds = self._kinds(pods, evicting=evicting)
        rows = domains.rows
        allowed = np.ones(len(rows), dtype=np.bool_)
        if inside is not None:
            allowed = np.isin(rows, inside.rows)
        own = np.isin(rows, [snapshot.row_of.get(name, -1) for name in running_on])
        allowed &= self._unspared(domains, kinds[0][1][rows], own)
        required = self.positions.required
        if required is not None:
            allowed &= domains.ids[required] >= 0
            if own.any():
                allowed &= np.isin(domains.ids[required], domains.ids[required][own])
        judge = _Judge(domains, kinds, allowed)
        found = list(judge.over(self._levels()))
        enough = [bound for bound in found if bound.takes >= needed]
        closest = max(found, key=lambda bound: bound.takes, default=None)
        return enough, closest

    def _levels(self) -> list[int]:
        """Return the levels whose domains are tried, and -1 for all nodes."""
        required = self.positions.required
        least = -1 if required is None else required
        finer = sorted((one for one in self.positions.preferred if one > least), reverse=True)
        return [*finer, least]

    def _kinds(self, pods: Sequence[PodInfo], *, evicting: bool) -> list[tuple[int, IntArray]]:
        """Return how many there are of each kind, and what nodes take of it, the hardest first."""
        groups: dict[bytes, list[PodInfo]] = {}
        for pod in pods:
            groups.setdefault(replica_key(pod), []).append(pod)
        found: list[tuple[int, IntArray]] = []
        for alike in groups.values():
            counts = self._counting.of(
                Deciding.of(self._engine, alike[0]), alike[0], len(alike), evicting=evicting
            )
            self.limited_by |= counts.limited_by
            found.append((len(alike), counts.takes))
        return sorted(found, key=lambda kind: int(kind[1].sum()) - kind[0])

    def _unspared(self, domains: Domains, takes: IntArray, own: Mask) -> Mask:
        spare = self._wish.spares(self._tree, self.positions.finest)
        return ~left_free(takes, domains.ids, spare, own)


class _Judge:
    """Sums what kinds find in each domain."""

    def __init__(
        self,
        domains: Domains,
        kinds: Sequence[tuple[int, IntArray]],
        allowed: Mask,
    ) -> None:
        self._domains = domains
        self._kinds = kinds
        self._allowed = allowed

    def over(self, levels: Sequence[int]) -> Iterator[Bound]:
        """Yield the domains of *levels*, level after level, the tightest first."""
        for level in levels:
            yield from sorted(self._at(level), key=lambda bound: (bound.slack, bound.nodes.name))

    def _at(self, level: int) -> Iterator[Bound]:
        domains, rows = self._domains, self._domains.rows
        ids = np.zeros(len(rows), dtype=np.int64) if level < 0 else domains.ids[level]
        for number in np.unique(ids[self._allowed & (ids >= 0)]).tolist():
            inside = self._allowed & (ids == number)
            room = [int(takes[rows[inside]].sum()) for _, takes in self._kinds]
            counts = [count for count, _ in self._kinds]
            takes_ = sum(map(min, room, counts))
            slack = min(one - count for one, count in zip(room, counts, strict=True))
            name = "" if level < 0 else domains.name(level, number)
            domain = None if level < 0 else domains.domain(level, number)
            yield Bound(GangNodes(rows[inside], domain, name), takes_, slack)
