"""DomainProtection: pods that ask for no level go where they break no whole domain.

A gang of sixteen trays needs a domain with sixteen free ones. A single pod on each of twelve
domains can make that impossible with hundreds of devices free. So nodes are rated by what a pod
there would cost gangs of the shapes that run and wait: nodes in no domain first, then those in
domains from which no whole gang is lost, the fullest domain first, and last those where one is.

With ``Refuse`` the nodes of domains that are whole take no such pod at all. Pods of DaemonSets and
those that say so (``numakube.dev/protection: Ignore``) are exempt, and so are pods of gangs that
ask for levels.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final, Literal

import msgspec
import numpy as np

from numakube.api.codec import Wire
from numakube.errors import ConfigError, InvalidValue
from numakube.insight.usage.largest_pod import parse_shape, pod_of
from numakube.scheduling.framework import EventKind
from numakube.scheduling.framework.plugins import (
    Filter,
    PreFilter,
    PreFilterResult,
    VectorFilter,
    VectorScore,
)
from numakube.scheduling.framework.registry import METRICS
from numakube.scheduling.framework.status import SKIP, SUCCESS, Verdicts, unschedulable
from numakube.scheduling.plugins.gang_scheduling import GANG_MEMBERS, GANG_NODES
from numakube.scheduling.plugins.plugin_arguments import read_args
from numakube.scheduling.plugins.pod_gangs import gang_key
from numakube.scheduling.snapshot.pod_equivalence import replica_key
from numakube.scheduling.snapshot.pods import PodInfo
from numakube_levels.aligned_counts import Deciding
from numakube_levels.domain_figures import DomainFigures
from numakube_levels.domain_metrics import DOMAIN_METRICS, DomainMetrics
from numakube_levels.domain_states import GangShape, damages, states_of
from numakube_levels.domain_tree import domains_in
from numakube_levels.gang_areas import positions_of
from numakube_levels.plugin import TopologyLevels

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping

    from numakube.scheduling.arrays import IntArray, Ratings, Rows
    from numakube.scheduling.framework.cycle_state import CycleState
    from numakube.scheduling.framework.registry import Handle
    from numakube.scheduling.framework.status import Status
    from numakube.scheduling.snapshot.cluster import Snapshot
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube_levels.domain_states import DomainState, LevelSummary
    from numakube_levels.gang_wishes import GangWish
    from numakube_levels.level_sources import LevelTree

PROTECTION: Final = "numakube.dev/protection"
"""On a pod: ``Ignore`` if it may break whole domains."""
OFF: Final = "Off"
PREFER: Final = "Prefer"
REFUSE: Final = "Refuse"
_MOST_SHAPES: Final = 8
_MOST_GANGS: Final = 256
"""Gangs that are looked at to learn shapes."""
_LEARNT_EVERY: Final = 64
"""Changes of the cluster after which shapes are learnt again."""
_NO_DOMAIN: Final = 100
_NO_DAMAGE: Final = 90
_FULLER: Final = 30
"""How much of that the fullest domain is better than an empty one."""
_DAMAGE: Final = 50
_KEPT: Final = unschedulable("node(s) in whole domains, which are kept for gangs")


class ShapeArgs(Wire, frozen=True):
    """What gangs are made of.

    Attributes:
        requests: of one pod.
        count: how many belong in one domain.
    """

    requests: dict[str, str]
    count: int


class DomainProtectionArgs(Wire, frozen=True):
    """Arguments of the plugin.

    Attributes:
        level: of which domains are kept whole; empty for the finest that any gang asks for.
        strength: ``Off``, ``Prefer``, or ``Refuse``.
        shapes: of gangs; empty to learn them from gangs that wait and run.
    """

    level: str = ""
    strength: Literal["Off", "Prefer", "Refuse"] = "Prefer"
    shapes: tuple[ShapeArgs, ...] = ()


class DomainProtection(PreFilter, Filter, VectorFilter, VectorScore):
    """See the module."""

    name = "DomainProtection"
    wakes_on = (
        EventKind.POD_ADDED
        | EventKind.POD_DELETED
        | EventKind.NODE_ADDED
        | EventKind.NODE_UPDATED
        | EventKind.TOPOLOGY_CHANGED
    )

    def __init__(self, args: DomainProtectionArgs, handle: Handle) -> None:
        self.args = args
        self._handle = handle
        self._fixed = tuple(map(_shape, range(len(args.shapes)), args.shapes))
        if len(self._fixed) > _MOST_SHAPES:
            raise ConfigError(f"shapes: {len(self._fixed)}; there may be {_MOST_SHAPES}")
        self._learnt: tuple[GangShape, ...] = ()
        self._levels: tuple[str, ...] = ()
        self._learnt_at = -_LEARNT_EVERY
        self._fallback: TopologyLevels | None = None
        self._counts = False
        self._figures: DomainFigures | None = None
        self.waiting: tuple[PodInfo, ...] = ()
        """Pods that wait, for tools: a scheduler knows the members of all gangs."""

    @classmethod
    def make(cls, args: Mapping[str, object], handle: Handle) -> DomainProtection:
        """Make the plugin."""
        plugin = cls(read_args(DomainProtectionArgs, args), handle)
        registry = handle.services.get(METRICS)
        if registry is not None:
            shared = handle.services.shared(DOMAIN_METRICS, lambda: DomainMetrics(registry))
            shared.follow(lambda: plugin.summaries(handle.cluster.snapshot()))
        return plugin

    def likeness(self, pod: PodInfo) -> Hashable:
        """Nothing of the pod: what breaks a domain, or adds one, may help any."""
        return None

    def pre_filter(self, state: CycleState, pod: PodInfo, snapshot: Snapshot) -> PreFilterResult:
        """Leave the filter out wherever it refuses nothing: refusals by others are remembered."""
        if self.args.strength == REFUSE and self._is_about(state, pod):
            return PreFilterResult()
        return PreFilterResult(SKIP)

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """With ``Refuse``, refuse a node of a whole domain to a pod that asks for no level."""
        if self.args.strength != REFUSE:
            return SUCCESS
        row = np.array([node.row], dtype=np.intp)
        verdicts = self.filter_all(state, pod, self._handle.cluster.snapshot(), row)
        return SUCCESS if verdicts is None else verdicts.status(0)

    def filter_all(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows
    ) -> Verdicts | None:
        """With ``Refuse``, refuse nodes of whole domains to pods that ask for no level."""
        if self.args.strength != REFUSE or self._counts or not self._is_about(state, pod):
            return None
        # What gangs would find is asked of all filters, of this one too.
        self._counts = True
        try:
            whole = self._whole_rows(snapshot)
        finally:
            self._counts = False
        if whole is None or not len(whole):
            return None
        # A pod that arrives may break a domain, and so open it to others: nothing is remembered.
        state.is_one_of_a_kind = True
        return Verdicts.where(~np.isin(rows, whole), _KEPT)

    def score_all(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows) -> Ratings:
        """Rate nodes by what *pod* would cost gangs there."""
        none = np.zeros(len(rows), dtype=np.int64)
        if self.args.strength == OFF or not self._is_about(state, pod):
            return none
        protected = self.protected(snapshot)
        if protected is None:
            return none
        tree, level, shapes = protected
        domains = domains_in(snapshot, tree)
        ids_by_row = np.full(len(snapshot.by_row), -1, dtype=np.int64)
        ids_by_row[domains.rows] = domains.ids[level]
        ids = ids_by_row[rows]
        if (ids < 0).all():
            return none
        total = np.zeros(len(rows), dtype=np.float64)
        for shape in shapes:
            total += self._rated(shape, pod, rows, (ids, domains.ids[level], domains.rows))
        rated: Ratings = np.rint(total / len(shapes)).astype(np.int64)
        return rated

    def _rated(
        self,
        shape: GangShape,
        pod: PodInfo,
        rows: Rows,
        where: tuple[IntArray, IntArray, Rows],
    ) -> IntArray:
        ids, all_ids, all_rows = where
        deciding, counting = self._deciding(), self._planner().counting
        takes = counting.kept(deciding, shape.pod).takes
        some = all_ids >= 0
        sums = np.bincount(all_ids[some], weights=takes[all_rows][some]).astype(np.int64)
        # What is refused by a node says nothing about others like it: those with none lose none.
        takes_some = takes[rows] > 0
        losses = np.zeros(len(rows), dtype=np.int64)
        after = counting.after(deciding, pod, shape.pod, rows[takes_some])
        losses[takes_some] = np.maximum(takes[rows][takes_some] - after, 0)
        damage = damages(sums, ids, losses, shape.size)
        most = max(int(sums.max(initial=0)), 1)
        free = np.where(ids >= 0, sums[np.maximum(ids, 0)], 0) / most
        worst = max(int(damage.max(initial=1)), 1)
        harmful = _DAMAGE * (1 - damage / worst) + _FULLER / 3 * (1 - free)
        rated = np.where(damage > 0, harmful, _NO_DAMAGE - _FULLER * free)
        result: IntArray = np.where(ids >= 0, rated, _NO_DOMAIN)
        return result

    def protected(self, snapshot: Snapshot) -> tuple[LevelTree, int, tuple[GangShape, ...]] | None:
        """Return the tree, level and shapes that are protected; nothing if there are none."""
        self._learn(snapshot)
        shapes = self._fixed or self._learnt
        names = (self.args.level,) if self.args.level else self._levels
        if not shapes or not names:
            return None
        planner = self._planner()
        tree = planner.tree_named(names)
        found = [at for at in map(tree.position, names) if at is not None]
        return (tree, max(found), shapes) if found else None

    def states(self, snapshot: Snapshot) -> Iterator[tuple[str, GangShape, list[DomainState]]]:
        """Yield the name of the level, a shape, and all domains, for each shape."""
        protected = self.protected(snapshot)
        if protected is None:
            return
        tree, level, shapes = protected
        domains = domains_in(snapshot, tree)
        counted = self._deciding(), self._planner().counting
        for shape in shapes:
            found = states_of(domains, level, shape, counted, self._asks_for_levels)
            yield tree.levels[level].name, shape, found

    def summaries(self, snapshot: Snapshot) -> Iterator[tuple[str, GangShape, LevelSummary]]:
        """Yield the name of the level, a shape, and all domains added up, for each shape."""
        protected = self.protected(snapshot)
        if protected is None:
            return
        tree, level, shapes = protected
        domains, figures, deciding = domains_in(snapshot, tree), self._kept(), self._deciding()
        for shape in shapes:
            yield tree.levels[level].name, shape, figures.summary(deciding, domains, level, shape)

    def _whole_rows(self, snapshot: Snapshot) -> Rows | None:
        protected = self.protected(snapshot)
        if protected is None:
            return None
        tree, level, shapes = protected
        domains, figures, deciding = domains_in(snapshot, tree), self._kept(), self._deciding()
        numbers = [
            number for shape in shapes for number in figures.whole(deciding, domains, level, shape)
        ]
        kept: Rows = domains.rows[np.isin(domains.ids[level], numbers)]
        return kept

    def _kept(self) -> DomainFigures:
        if self._figures is None:
            self._figures = DomainFigures(self._planner().counting, self._asks_for_levels)
        return self._figures

    def _is_about(self, state: CycleState, pod: PodInfo) -> bool:
        """Tell whether *pod* is one from which domains are to be protected."""
        if state.read(GANG_NODES) is not None or self._asks_for_levels(pod):
            return False
        meta = pod.pod.metadata
        of_daemon_set = any(owner.kind == "DaemonSet" for owner in meta.owner_references)
        return not of_daemon_set and meta.annotations.get(PROTECTION) != "Ignore"

    def _asks_for_levels(self, pod: PodInfo) -> bool:
        wish = self._wish_of(pod)
        return wish is not None and bool(wish.levels)

    def _wish_of(self, pod: PodInfo) -> GangWish | None:
        try:
            return self._planner().wish_of(pod)
        except InvalidValue:
            return None

    def _learn(self, snapshot: Snapshot) -> None:
        """Learn the shapes of gangs, and the finest level that they ask for."""
        if self._fixed and self.args.level:
            return
        if 0 <= snapshot.generation - self._learnt_at < _LEARNT_EVERY and self._learnt:
            return
        self._learnt_at = snapshot.generation
        found: dict[tuple[bytes, int], tuple[int, GangShape]] = {}
        levels: dict[str, None] = {}
        for pod, wish, least in self._gangs():
            levels |= dict.fromkeys(wish.levels)
            size = _size_in(wish, least, self._planner().tree_for(wish))
            key = replica_key(pod), size
            count, shape = found.get(key, (0, GangShape(_unbound(pod), size)))
            found[key] = count + 1, shape
        order = sorted(found.values(), key=lambda one: (-one[0], one[1].name))
        self._learnt = tuple(shape for _, shape in order[:_MOST_SHAPES])
        self._levels = tuple(levels)

    def _gangs(self) -> Iterator[tuple[PodInfo, GangWish, int]]:
        """Yield a pod of each gang that asks for levels, its wish, and how many it needs."""
        members = self._handle.services.get(GANG_MEMBERS)
        known = list(members or ())[:_MOST_GANGS]
        pods = [next(iter((*one.waiting.values(), *one.placed.values())), None) for one in known]
        if members is None:
            pods = list(self._one_of_each_gang())
        for pod in filter(None, pods):
            wish = self._wish_of(pod)
            least = self._planner().least_of(pod)
            if wish is not None and wish.levels and least:
                yield pod, wish, least

    def _one_of_each_gang(self) -> Iterator[PodInfo]:
        """Yield a pod of each gang that runs, where nobody keeps their members."""
        seen: set[object] = set()
        placed = (pod for node in self._handle.cluster.nodes() for pod in node.pods.values())
        for pod in chain(self.waiting, placed):
            key = gang_key(pod)
            if key is not None and key not in seen and len(seen) < _MOST_GANGS:
                seen.add(key)
                yield pod

    def _deciding(self) -> Deciding:
        runtime = self._handle.runtime
        if runtime is None:
            raise LookupError("the profile is not made yet")
        return Deciding(self._handle.cluster, self._handle.nominations, runtime)

    def _planner(self) -> TopologyLevels:
        """Return the plugin that knows the levels."""
        runtime = self._handle.runtime
        plugin = runtime.profile.plugins().get(TopologyLevels.name) if runtime else None
        if isinstance(plugin, TopologyLevels):
            return plugin
        if self._fallback is None:
            self._fallback = TopologyLevels.make({}, self._handle)
        return self._fallback


def _unbound(pod: PodInfo) -> PodInfo:
    """Return *pod* as if it had no node: one like those that come next."""
    spec = msgspec.structs.replace(pod.pod.spec, node_name="")
    return PodInfo(msgspec.structs.replace(pod.pod, spec=spec))


def _size_in(wish: GangWish, least: int, tree: LevelTree) -> int:
    """Return how many pods of a gang belong in one domain, with the spare nodes beside them."""
    positions = positions_of(wish.whole, tree)
    size = wish.whole.slices[-1].size if wish.whole.slices else least
    spares = wish.whole.spares(tree, positions.finest)
    finest = positions.finest
    return size + (spares[finest] if finest is not None else 0)


def _shape(at: int, args: ShapeArgs) -> GangShape:
    where = f"shapes[{at}]"
    if args.count < 1:
        raise ConfigError(f"{where}.count: {args.count} is not 1 or more")
    text = ",".join(f"{name}={amount}" for name, amount in args.requests.items())
    try:
        return GangShape(PodInfo(pod_of(parse_shape(text))), args.count)
    except InvalidValue as error:
        raise ConfigError(f"{where}.requests: {error}") from None
