"""PodTopologySpread: spreads pods evenly over zones, nodes or other domains.

Hard constraints filter, soft ones score. Pods without constraints of their own get the defaults of
the plugin's arguments, about the pods of the same services and owner. Follows kube-scheduler 1.37.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from numakube.api.affinity_and_taints import TopologySpreadConstraint
from numakube.api.selectors import Selector, exactly, selector_of
from numakube.errors import InvalidValue
from numakube.scheduling.framework.cluster_events import EventKind
from numakube.scheduling.framework.cycle_state import StateKey
from numakube.scheduling.framework.plugins import (
    MAX_NODE_SCORE,
    Filter,
    NormalizesScores,
    PreFilter,
    PreFilterResult,
    PreScore,
    Score,
    VectorFilter,
    VectorScore,
)
from numakube.scheduling.framework.status import (
    SKIP,
    SUCCESS,
    Status,
    Verdicts,
    failure,
    unresolvable,
    unschedulable,
)
from numakube.scheduling.matching import keeps_away, required_nodes, taint_sets
from numakube.scheduling.plugins.plugin_arguments import PodTopologySpreadArgs, read_args
from numakube.scheduling.snapshot.node_columns import MISSING
from numakube.scheduling.snapshot.pod_equivalence import encoded
from numakube.scheduling.snapshot.pod_indexes import PodQuery, PodSelection

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import numpy.typing as npt

    from numakube.api.meta import LabelSelector
    from numakube.scheduling.arrays import IntArray, Mask, Rows
    from numakube.scheduling.framework.cluster_events import ClusterEvent
    from numakube.scheduling.framework.cycle_state import CycleState
    from numakube.scheduling.snapshot.cluster import Snapshot
    from numakube.scheduling.snapshot.cluster_objects import ClusterObjects
    from numakube.scheduling.snapshot.node_columns import NodeColumn
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pod_indexes import Counts
    from numakube.scheduling.snapshot.pods import PodInfo


# ------------------------------------------------------------------------------------------------
# Spread constraints of a pod: its own, or the defaults with a selector made for the pod.

HARD: Final = "DoNotSchedule"
SOFT: Final = "ScheduleAnyway"
HONOR: Final = "Honor"
IGNORE: Final = "Ignore"
HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"

SYSTEM_DEFAULTS: Final = (
    TopologySpreadConstraint(max_skew=3, topology_key=HOSTNAME, when_unsatisfiable=SOFT),
    TopologySpreadConstraint(max_skew=5, topology_key=ZONE, when_unsatisfiable=SOFT),
)


@dataclass(frozen=True, slots=True)
class SpreadConstraint:
    """One constraint with everything filled in.

    Attributes:
        min_domains: with fewer domains than this, an empty one is thought of.
        honors_affinity: whether nodes that the pod's affinity rules out are left out.
        honors_taints: whether nodes whose taints rule the pod out are left out.
    """

    max_skew: int
    topology_key: str
    selector: Selector
    min_domains: int
    honors_affinity: bool
    honors_taints: bool

    def includes(self, pod: PodInfo, node: NodeInfo) -> bool:
        """Tell whether *node* takes part in the spreading of *pod*."""
        if self.honors_affinity and not required_nodes(pod).accepts(node):
            return False
        away = self.honors_taints and keeps_away(node.node.spec.taints, pod.pod.spec.tolerations)
        return not away

    def including(self, pod: PodInfo, snapshot: Snapshot, rows: Rows) -> Mask | None:
        """Return which of *rows* take part, or ``None`` if all do."""
        mask: Mask | None = None
        if self.honors_affinity and not required_nodes(pod).is_empty:
            mask = required_nodes(pod).where(snapshot, rows)
        column = taint_sets(snapshot)
        if self.honors_taints and column.values:
            tolerations = pod.pod.spec.tolerations
            ok = column.where(lambda taints: not keeps_away(taints or (), tolerations), rows)
            mask = ok if mask is None else mask & ok
        return mask


def own_constraints(pod: PodInfo, action: str) -> tuple[SpreadConstraint, ...]:
    """Return the constraints of *pod* itself.

    Raises:
        InvalidValue: a selector cannot be read.
    """
    return _constraints(pod.pod.spec.topology_spread_constraints, pod.labels, action)


def default_constraints(
    defaults: Iterable[TopologySpreadConstraint],
    pod: PodInfo,
    action: str,
    objects: ClusterObjects,
) -> tuple[SpreadConstraint, ...]:
    """Return the *defaults* for *pod*; none if nothing says which pods belong together."""
    constraints = _constraints(defaults, pod.labels, action)
    if not constraints:
        return ()
    selector = siblings(pod, objects)
    if selector.is_empty:
        return ()
    return tuple(replace(constraint, selector=selector) for constraint in constraints)


def siblings(pod: PodInfo, objects: ClusterObjects) -> Selector:
    """Return a selector for the pods of the services and the owner of *pod*."""
    merged: dict[str, str] = {}
    for service in objects.services.group(pod.namespace).values():
        chosen = service.spec.selector
        if chosen and chosen.items() <= pod.labels.items():
            merged.update(chosen)
    owner = pod.pod.metadata.controller
    if owner is None:
        return exactly(merged)
    key = f"{pod.namespace}/{owner.name}"
    match (owner.api_version, owner.kind):
        case ("v1", "ReplicationController"):
            controller = objects.replication_controllers.get(key)
            return exactly({**merged, **(controller.spec.selector if controller else {})})
        case ("apps/v1", "ReplicaSet"):
            replica_set = objects.replica_sets.get(key)
            return _also(exactly(merged), replica_set.spec.selector if replica_set else None)
        case ("apps/v1", "StatefulSet"):
            stateful_set = objects.stateful_sets.get(key)
            return _also(exactly(merged), stateful_set.spec.selector if stateful_set else None)
        case _:
            return exactly(merged)


def _constraints(
    constraints: Iterable[TopologySpreadConstraint], labels: Mapping[str, str], action: str
) -> tuple[SpreadConstraint, ...]:
    return tuple(
        SpreadConstraint(
            max_skew=constraint.max_skew,
            topology_key=constraint.topology_key,
            selector=_selector(constraint, labels),
            min_domains=1 if constraint.min_domains is None else constraint.min_domains,
            honors_affinity=(constraint.node_affinity_policy or HONOR) == HONOR,
            honors_taints=(constraint.node_taints_policy or IGNORE) == HONOR,
        )
        for constraint in constraints
        if constraint.when_unsatisfiable == action
    )


def _selector(constraint: TopologySpreadConstraint, labels: Mapping[str, str]) -> Selector:
    selector = selector_of(constraint.label_selector)
    same = {key: labels[key] for key in constraint.match_label_keys if key in labels}
    return selector.also(exactly(same)) if same else selector


def _also(selector: Selector, owner: LabelSelector | None) -> Selector:
    try:
        return selector.also(selector_of(owner))
    except InvalidValue:
        return selector


# ------------------------------------------------------------------------------------------------
# Hard constraints: how many matching pods each domain has, and what one more would do.

_TEXT: Final = "node(s) didn't match pod topology spread constraints"
SKEWED: Final = unschedulable(_TEXT)
NO_DOMAIN: Final = unresolvable(f"{_TEXT} (missing required label)")


@dataclass(slots=True)
class Domains:
    """The domains of one constraint.

    Attributes:
        counts: matching pods by code of the domain.
        present: which codes are domains, that is, have a node that takes part.
        own: 1 if the pod itself matches the constraint's selector.
    """

    constraint: SpreadConstraint
    column: NodeColumn[str]
    counts: IntArray
    present: Mask
    own: int

    def clone(self) -> Domains:
        """Return an independent copy."""
        return Domains(self.constraint, self.column, self.counts.copy(), self.present, self.own)

    def fewest(self) -> int:
        """Return the count of the emptiest domain."""
        found = self.counts[self.present]
        if not len(found) or len(found) < self.constraint.min_domains:
            return 0
        return int(found.min())

    def judge(self, node: NodeInfo) -> Status:
        """Say whether the pod can go to *node*."""
        value = node.labels.get(self.constraint.topology_key)
        if value is None:
            return NO_DOMAIN
        code = self.column.code_of.get(value)
        count = 0 if code is None else int(self.counts[code])
        return SKEWED if self._exceeds(count) else SUCCESS

    def refused(self, rows: Rows) -> tuple[Mask, Mask]:
        """Return which of *rows* have no domain, and where the skew would be too large."""
        codes = self.column.codes[rows]
        limit = self.constraint.max_skew - self.own + self.fewest()
        return codes < 0, np.append(self.counts > limit, False)[codes]

    def change(self, node: NodeInfo, delta: int) -> None:
        """Take into account *delta* more matching pods on *node*."""
        code = self.column.code_of[node.labels[self.constraint.topology_key]]
        self.counts[code] += delta

    def _exceeds(self, count: int) -> bool:
        return count + self.own - self.fewest() > self.constraint.max_skew


@dataclass(slots=True)
class SpreadFilterState:
    """What the filter knows of all hard constraints of a pod."""

    domains: list[Domains]

    def clone(self) -> SpreadFilterState:
        """Return an independent copy."""
        return SpreadFilterState([domain.clone() for domain in self.domains])

    def change(self, pod: PodInfo, other: PodInfo, node: NodeInfo, delta: int) -> None:
        """Take into account that *other* comes to *node*, or leaves it.

        kube-scheduler forgets here that it does not count pods that are being deleted, nor any pod
        for an empty selector; we do not.
        """
        if other.namespace != pod.namespace or other.is_being_deleted:
            return
        if any(domain.constraint.topology_key not in node.labels for domain in self.domains):
            return
        for domain in self.domains:
            constraint = domain.constraint
            counts = not constraint.selector.is_empty and constraint.selector.matches(other.labels)
            if counts and constraint.includes(pod, node):
                domain.change(node, delta)


def filter_state(
    pod: PodInfo, constraints: Iterable[SpreadConstraint], snapshot: Snapshot
) -> SpreadFilterState:
    """Count the matching pods of every domain."""
    constraints = tuple(constraints)
    rows = with_keys(constraints, snapshot, snapshot.rows)
    return SpreadFilterState(
        [_domains(pod, constraint, snapshot, rows) for constraint in constraints]
    )


def with_keys(constraints: Iterable[SpreadConstraint], snapshot: Snapshot, rows: Rows) -> Rows:
    """Return those of *rows* whose nodes have the topology keys of all *constraints*."""
    for constraint in constraints:
        known = snapshot.label(constraint.topology_key).present(rows)
        if not known.all():
            rows = rows[known]
    return rows


def matching_pods(pod: PodInfo, constraint: SpreadConstraint, snapshot: Snapshot) -> Counts | None:
    """Return how many pods each row has that the constraint is about; ``None`` for no pod at all.

    An empty selector is about none: that is how kube-scheduler counts.
    """
    if constraint.selector.is_empty or constraint.selector.requirements is None:
        return None
    sets = (PodSelection(frozenset({pod.namespace}), constraint.selector),)
    return snapshot.pods.counts.counts(PodQuery(sets, terminating=False))


def _domains(pod: PodInfo, constraint: SpreadConstraint, snapshot: Snapshot, rows: Rows) -> Domains:
    column = snapshot.label(constraint.topology_key)
    included = constraint.including(pod, snapshot, rows)
    if included is not None:
        rows = rows[included]
    present = np.zeros(len(column.values), dtype=np.bool_)
    present[column.codes[rows]] = True
    pods = matching_pods(pod, constraint, snapshot)
    counts = np.zeros(len(present), dtype=np.int64) if pods is None else column.sums(pods, rows)
    return Domains(constraint, column, counts, present, constraint.selector.matches(pod.labels))


# ------------------------------------------------------------------------------------------------
# Soft constraints: the fewer matching pods a node's domains have, the better.


@dataclass(frozen=True, slots=True)
class SoftDomains:
    """The domains of one soft constraint.

    Attributes:
        counts: matching pods by code of the domain; for host names by row instead.
        weight: how much a pod counts; more domains give each a larger weight.
    """

    constraint: SpreadConstraint
    column: NodeColumn[str]
    counts: npt.NDArray[np.integer]
    weight: float

    @property
    def by_row(self) -> bool:
        """Tell whether each node is taken to be a domain of its own."""
        return self.constraint.topology_key == HOSTNAME

    def score(self, node: NodeInfo) -> float:
        """Rate one node; more is worse."""
        value = node.labels.get(self.constraint.topology_key)
        if value is None:
            return 0.0
        count = self.counts[node.row if self.by_row else self.column.code_of[value]]
        return float(count) * self.weight + float(self.constraint.max_skew - 1)

    def score_all(self, rows: Rows) -> npt.NDArray[np.float64]:
        """Rate the nodes at *rows*."""
        codes = self.column.codes[rows]
        counts = self.counts[rows] if self.by_row else np.append(self.counts, 0)[codes]
        scores = counts.astype(np.float64) * self.weight + float(self.constraint.max_skew - 1)
        return np.where(codes < 0, 0.0, scores)


@dataclass(frozen=True, slots=True)
class ScoreState:
    """What the score knows of all soft constraints of a pod.

    Attributes:
        ignored: which of the feasible nodes lack a topology key; they score nothing.
        ignored_rows: the same as rows.
    """

    domains: tuple[SoftDomains, ...]
    ignored: Mask
    ignored_rows: frozenset[int]

    def score(self, node: NodeInfo) -> int:
        """Rate one node; more is worse."""
        if node.row in self.ignored_rows:
            return 0
        total = 0.0
        for domain in self.domains:
            total += domain.score(node)
        return math.floor(total) + (total - math.floor(total) >= 0.5)

    def score_all(self, rows: Rows) -> IntArray:
        """Rate the nodes at *rows*."""
        total = np.zeros(len(rows))
        for domain in self.domains:
            total += domain.score_all(rows)
        whole = np.floor(total)
        rounded = (whole + (total - whole >= 0.5)).astype(np.int64)
        if self.ignored_rows:
            rounded[np.isin(rows, list(self.ignored_rows))] = 0
        return rounded

    def normalized(self, scores: IntArray) -> IntArray:
        """Return the best score for the least crowded nodes, and none for ignored ones."""
        counted = scores[~self.ignored]
        largest = int(counted.max(initial=0))
        if not largest:
            return np.where(self.ignored, 0, MAX_NODE_SCORE)
        least = int(counted.min())
        return np.where(self.ignored, 0, MAX_NODE_SCORE * (largest + least - scores) // largest)


def score_state(
    pod: PodInfo,
    constraints: tuple[SpreadConstraint, ...],
    snapshot: Snapshot,
    rows: Rows,
    *,
    all_keys: bool,
) -> ScoreState:
    """Count the matching pods of the domains of feasible *rows*.

    Args:
        pod: the pod to place.
        constraints: its soft constraints.
        snapshot: the cluster.
        rows: the feasible nodes.
        all_keys: whether only nodes with all topology keys take part.
    """
    feasible, everywhere = rows, snapshot.rows
    if all_keys:
        feasible = with_keys(constraints, snapshot, rows)
        everywhere = with_keys(constraints, snapshot, everywhere)
    ignored = ~np.isin(rows, feasible) if len(feasible) < len(rows) else np.zeros(len(rows), bool)
    domains = tuple(
        _soft(pod, constraint, snapshot, feasible, everywhere) for constraint in constraints
    )
    return ScoreState(domains, ignored, frozenset(rows[ignored].tolist()))


def _soft(
    pod: PodInfo, constraint: SpreadConstraint, snapshot: Snapshot, feasible: Rows, everywhere: Rows
) -> SoftDomains:
    column = snapshot.label(constraint.topology_key)
    pods = matching_pods(pod, constraint, snapshot)
    if constraint.topology_key == HOSTNAME:
        if pods is None:
            pods = np.zeros(len(snapshot.by_row), dtype=np.int32)
        return SoftDomains(constraint, column, pods, math.log(len(feasible) + 2))
    included = constraint.including(pod, snapshot, everywhere)
    if included is not None:
        everywhere = everywhere[included]
    counts = np.zeros(len(column.values), dtype=np.int64)
    if pods is not None:
        counts = column.sums(pods, everywhere)
    size = _distinct(column, feasible)
    return SoftDomains(constraint, column, counts, math.log(size + 2))


def _distinct(column: NodeColumn[str], rows: Rows) -> int:
    """Return how many domains *rows* have; nodes without the label are one, called ``""``."""
    there = np.zeros(len(column.values) + 1, dtype=np.bool_)
    there[column.codes[rows]] = True
    empty = column.code_of.get("")
    if empty is not None:
        there[empty] |= there[MISSING]
        there[MISSING] = False
    return int(there.sum())


# ------------------------------------------------------------------------------------------------
# The plugin: which constraints hold for a pod, and when to ask it again.

_FILTER: Final = StateKey[SpreadFilterState]("PodTopologySpread.filter")
_SCORE: Final = StateKey[ScoreState]("PodTopologySpread.score")


class PodTopologySpread(
    PreFilter, Filter, VectorFilter, PreScore, Score, VectorScore, NormalizesScores
):
    """Spreads pods over domains of the cluster."""

    name = "PodTopologySpread"
    wakes_on = (
        EventKind.POD_ADDED
        | EventKind.POD_UPDATED
        | EventKind.POD_DELETED
        | EventKind.UNSCHEDULED_POD_UPDATED
        | EventKind.NODE_ADDED
        | EventKind.NODE_UPDATED
        | EventKind.NODE_REMOVED
    )

    def __init__(self, args: PodTopologySpreadArgs | None = None) -> None:
        args = args or PodTopologySpreadArgs()
        self._system = args.defaulting_type == "System"
        self._defaults = SYSTEM_DEFAULTS if self._system else args.default_constraints

    @classmethod
    def from_args(cls, args: Mapping[str, object]) -> PodTopologySpread:
        """Return the plugin for *args* as they stand in a configuration."""
        return cls(read_args(PodTopologySpreadArgs, args))

    def pre_filter(self, state: CycleState, pod: PodInfo, snapshot: Snapshot) -> PreFilterResult:
        """Count pods by domain; skip a pod without hard constraints."""
        try:
            constraints = self._constraints(pod, HARD, snapshot.objects)
        except InvalidValue as error:
            return PreFilterResult(failure(f"get constraints from pod: {error.reason or error}"))
        if not constraints:
            return PreFilterResult(SKIP)
        state.write(_FILTER, filter_state(pod, constraints, snapshot))
        return PreFilterResult()

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeInfo) -> None:
        """Count one more."""
        known = state.read(_FILTER)
        if known is not None:
            known.change(pod, added, node, 1)

    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, node: NodeInfo) -> None:
        """Count one less."""
        known = state.read(_FILTER)
        if known is not None:
            known.change(pod, removed, node, -1)

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Refuse a node without domain, and one whose domain would have too many pods."""
        known = state.read(_FILTER)
        for domain in known.domains if known is not None else ():
            status = domain.judge(node)
            if not status.ok:
                return status
        return SUCCESS

    def filter_all(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows
    ) -> Verdicts | None:
        """Refuse nodes without domain, and those whose domain would have too many pods."""
        known = state.read(_FILTER)
        refusals = []
        for domain in known.domains if known is not None else ():
            missing, skewed = domain.refused(rows)
            refusals += [(missing, NO_DOMAIN), (skewed, SKEWED)]
        if not any(mask.any() for mask, _ in refusals):
            return None
        return Verdicts.first_of(len(rows), refusals)

    def pre_score(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows) -> Status:
        """Count pods by domain; skip a pod without soft constraints."""
        try:
            constraints = self._constraints(pod, SOFT, snapshot.objects)
        except InvalidValue as error:
            return failure(f"calculating preScoreState: {error.reason or error}")
        if not constraints:
            return SKIP
        own = bool(pod.pod.spec.topology_spread_constraints)
        found = score_state(pod, constraints, snapshot, rows, all_keys=own or not self._system)
        state.write(_SCORE, found)
        return SUCCESS

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """Rate one node; more is worse until it is normalised."""
        known = state.read(_SCORE)
        return known.score(node) if known is not None else 0

    def score_all(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows
    ) -> IntArray:
        """Rate all nodes; more is worse until it is normalised."""
        known = state.read(_SCORE)
        return known.score_all(rows) if known is not None else np.zeros(len(rows), dtype=np.int64)

    def normalize(self, state: CycleState, pod: PodInfo, scores: IntArray) -> IntArray:
        """Fewer is better; nodes outside all domains get nothing."""
        known = state.read(_SCORE)
        return known.normalized(scores) if known is not None else scores

    def likeness(self, pod: PodInfo) -> bytes:
        """Its constraints, and its labels where they say which pods count."""
        own = pod.pod.spec.topology_spread_constraints
        names = {key for constraint in own for key in constraint.match_label_keys}
        labels = {key: value for key, value in pod.labels.items() if key in names}
        return encoded(pod.namespace, own, labels)

    def wakes(self, pod: PodInfo, event: ClusterEvent) -> bool:
        """A pod must be of those that are spread, or a node have the topology keys."""
        own = pod.pod.spec.topology_spread_constraints
        if not own or event.kind is EventKind.UNSCHEDULED_POD_UPDATED:
            return True
        if event.pod is not None:
            if event.pod.namespace != pod.namespace:
                return False
            return event.kind is EventKind.POD_UPDATED or _is_spread(pod, event.pod)
        node = event.node_info
        if node is None or event.kind is not EventKind.NODE_ADDED:
            return True
        hard = (constraint for constraint in own if constraint.when_unsatisfiable == HARD)
        return all(constraint.topology_key in node.labels for constraint in hard)

    def _constraints(
        self, pod: PodInfo, action: str, objects: ClusterObjects
    ) -> tuple[SpreadConstraint, ...]:
        if pod.pod.spec.topology_spread_constraints:
            return own_constraints(pod, action)
        return default_constraints(self._defaults, pod, action, objects)


def _is_spread(pod: PodInfo, other: PodInfo) -> bool:
    """Tell whether *other* counts for a hard constraint of *pod*."""
    try:
        hard = own_constraints(pod, HARD)
    except InvalidValue:
        return True
    return any(constraint.selector.matches(other.labels) for constraint in hard)
