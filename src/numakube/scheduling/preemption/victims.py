"""The fewest and least important pods on one node whose eviction lets a pod in.

All pods of lower priority are taken away; then, the most important first, each is put back if the
pod still fits. Pods whose eviction would violate a disruption budget are put back before others.
The outcome cannot be reduced further, but on a node with NUMA zones it depends on who is put back
first: two pods may have to leave one zone although the eviction of a single one would clear
another. So the same is tried with the pods of each zone alone, and the best outcome counts.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from itertools import accumulate, combinations
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, runtime_checkable

from numakube.api.selectors import selector_of
from numakube.errors import InvalidValue
from numakube.scheduling.framework.status import Status, unresolvable
from numakube.scheduling.snapshot.pods import held_by
from numakube.scheduling.snapshot.zone_belief import is_extensible
from numakube.values.numamask import nodes_of
from numakube.values.resources import PODS, is_native
from numakube.values.topology_policy import TopologyPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence

    from numakube.api.workloads import PodDisruptionBudget
    from numakube.scheduling.framework.cycle_state import CycleState
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo

    _Shape = tuple[int, frozenset[tuple[str, int]]]
    """Priority and requests of a pod."""


# ------------------------------------------------------------------------------------------------
# Which evictions violate a disruption budget.


class BudgetSelector(Protocol):
    """Says which labels are meant."""

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Tell whether *labels* are meant."""
        ...


@dataclass(frozen=True, slots=True)
class Budget:
    """How many of the pods that *pods* matches may go.

    Attributes:
        allowed: how many more may go now.
        disrupted: names of pods whose eviction the API server has counted already.
    """

    namespace: str
    pods: BudgetSelector
    allowed: int
    disrupted: frozenset[str] = frozenset()

    def protects(self, pod: PodInfo) -> bool:
        """Tell whether the eviction of *pod* counts against the budget."""
        return (
            pod.namespace == self.namespace
            and pod.name not in self.disrupted
            and bool(pod.labels)
            and self.pods.matches(pod.labels)
        )


def budgets_of(objects: Iterable[PodDisruptionBudget]) -> list[Budget]:
    """Return what *objects* allow; one whose selector is empty or wrong protects no pod."""
    budgets = []
    for budget in objects:
        try:
            selector = selector_of(budget.spec.selector)
        except InvalidValue:
            continue
        if not selector.is_empty:
            status = budget.status
            disrupted = frozenset(status.disrupted_pods)
            budgets.append(
                Budget(budget.metadata.namespace, selector, status.disruptions_allowed, disrupted)
            )
    return budgets


def split_by_violation(
    pods: Iterable[PodInfo], budgets: Sequence[Budget]
) -> tuple[list[PodInfo], list[PodInfo]]:
    """Return those of *pods* whose eviction violates a budget, and the others, in their order.

    Budgets are used up in the order of *pods*: the first to go are still within them.
    """
    left = [budget.allowed for budget in budgets]
    violating: list[PodInfo] = []
    fine: list[PodInfo] = []
    for pod in pods:
        violates = False
        for number, budget in enumerate(budgets):
            if budget.protects(pod):
                left[number] -= 1
                violates = violates or left[number] < 0
        (violating if violates else fine).append(pod)
    return violating, fine


# ------------------------------------------------------------------------------------------------
# A what-if copy of a node with some pods removed.
#
# The filters are asked about the copy. What its NUMA zones would have free is part of it:
# `numakube.scheduling.snapshot.zone_belief.NumaBelief.without` gives no credit for pods whose
# place is unknown, so that no pod is evicted in vain.


class TriesOut(Protocol):
    """What the runtime of a profile offers to those who try things out."""

    def admits(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Return what filters and final checks together say of one node."""
        ...

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeInfo) -> None:
        """Put *added* on *node*, a clone, and tell the pre-filters of it."""
        ...

    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, node: NodeInfo) -> None:
        """Take *removed* off *node*, a clone, and tell the pre-filters of it."""
        ...


class EvictionTrial:
    """A copy of *node* from which pods are taken away, to see whether *pod* fits then.

    Args:
        runtime: the plugins.
        state: the state of the cycle in which *pod* was refused.
        pod: who needs room.
        node: where.
        nominated: pods for which room is being made on the node and that go first.
    """

    def __init__(
        self,
        runtime: TriesOut,
        state: CycleState,
        pod: PodInfo,
        node: NodeInfo,
        *,
        nominated: Sequence[PodInfo] = (),
    ) -> None:
        self._runtime = runtime
        self._state = state.clone()
        self._pod = pod
        self._node = node.clone()
        self._belief = node.numa
        self._gone: set[str] = set()
        self._nominated = nominated

    def remove(self, pods: Iterable[PodInfo]) -> None:
        """Take *pods* away."""
        for pod in pods:
            self._gone.add(pod.uid)
            self._runtime.remove_pod(self._state, self._pod, pod, self._node)

    def restore(self, pod: PodInfo) -> None:
        """Put *pod* back."""
        self._gone.discard(pod.uid)
        self._runtime.add_pod(self._state, self._pod, pod, self._node)

    def verdict(self) -> Status:
        """Return what the filters and the final check say now.

        Pods nominated to the node may or may not come, so the pod must fit with and without them.
        """
        if self._belief is not None:
            self._node.numa = self._belief.without(self._gone)
        status = self._runtime.admits(self._state, self._pod, self._node)
        return self._beside_nominated() if status.ok and self._nominated else status

    def _beside_nominated(self) -> Status:
        state, node = self._state.clone(), self._node.clone()
        for other in self._nominated:
            before = node.numa
            self._runtime.add_pod(state, self._pod, other, node)
            # A runtime without the NUMA plugin leaves the zones to us.
            if node.numa is before and is_extensible(before):
                node.numa = before.followed_by(other) or before
        return self._runtime.admits(state, self._pod, node)


# ------------------------------------------------------------------------------------------------
# The fewest and least important pods on one node whose eviction lets a pod in.

Cost: TypeAlias = tuple[int, int, int, int]
"""Violated budgets, highest priority, sum of priorities, number of pods: smaller is better."""

_PRIORITY_OFFSET: Final = 1 << 31
"""Makes every priority positive, so that fewer pods of a negative one have the smaller sum."""
_NOT_STARTED: Final = "~"
"""Sorts after every time."""
_MOST_PAIRED_ZONES: Final = 8

NO_VICTIMS: Final = unresolvable("No preemption victims found for incoming pod")


@runtime_checkable
class KnowsPlaces(Protocol):
    """A belief that can tell where pods are."""

    def places_of(self, uid: str) -> frozenset[int]:
        """Return the NUMA nodes on which a pod is known to hold something."""
        ...


@dataclass(frozen=True, slots=True)
class ChosenVictims:
    """The pods to evict, the most important first; none if the pod fits as it is."""

    pods: tuple[PodInfo, ...]
    violations: int

    @property
    def cost(self) -> Cost:
        """What is lost, by kube-scheduler's criteria for choosing a node."""
        priorities = [pod.priority for pod in self.pods]
        total = sum(priorities) + _PRIORITY_OFFSET * len(priorities)
        return self.violations, max(priorities), total, len(priorities)

    @property
    def started(self) -> str:
        """When the first of the most important victims started: the later the better."""
        top = max(pod.priority for pod in self.pods)
        return min(started_at(pod) for pod in self.pods if pod.priority == top)


def lowest_cost(top: int, others: int, count: int) -> Cost:
    """Return the least that *count* victims can cost, one of which has priority *top*.

    The priorities of the others add up to *others* at least.
    """
    return 0, top, top + others + _PRIORITY_OFFSET * count, count


def started_at(pod: PodInfo) -> str:
    """Return when *pod* started, as a text that sorts by time."""
    status = pod.pod.status
    return (status.start_time if status is not None else None) or _NOT_STARTED


def by_importance(pod: PodInfo) -> tuple[int, str]:
    """Sort key: the higher priority first, then the longer runtime."""
    return -pod.priority, started_at(pod)


def find_victims(
    pod: PodInfo, node: NodeInfo, budgets: Sequence[Budget], trial: Callable[[], EvictionTrial]
) -> ChosenVictims | Status:
    """Return the pods to evict from *node* for *pod*, or why evicting does not help.

    Args:
        pod: who needs room.
        node: where.
        budgets: disruption budgets.
        trial: makes a new copy of the node to try things out.
    """
    pods = (other for other in node.pods.values() if other.priority < pod.priority)
    lower = sorted(pods, key=by_importance)
    if not lower:
        return NO_VICTIMS
    best = _spare_most(trial(), lower, budgets)
    if isinstance(best, Status) or len(best.pods) <= 1:
        return best
    for pool in _pools(node, lower):
        found = _spare_most(trial(), pool, budgets)
        if isinstance(found, ChosenVictims) and found.cost < best.cost:
            best = found
    return best


def _pools(node: NodeInfo, pods: Sequence[PodInfo]) -> Iterator[Sequence[PodInfo]]:
    """Yield the pods of each zone, and of each pair of zones if a pod may span them."""
    places = _places(node, pods)
    zones = sorted(frozenset().union(*places.values()))
    sets = [frozenset({zone}) for zone in zones]
    topology = None if node.numa is None else node.numa.topology
    if (topology is None or topology.policy is not TopologyPolicy.SINGLE_NUMA_NODE) and len(
        zones
    ) <= _MOST_PAIRED_ZONES:
        sets += [frozenset(pair) for pair in combinations(zones, 2)]
    for chosen in sets:
        pool = [pod for pod in pods if places[pod.uid] & chosen]
        if 0 < len(pool) < len(pods):
            yield pool


def _places(node: NodeInfo, pods: Sequence[PodInfo]) -> dict[str, frozenset[int]]:
    """Return the NUMA nodes on which each of *pods* is known to hold something.

    By its annotations, if a scheduler gave it some, and else by what is believed of its kubelet.
    """
    belief = node.numa
    places: dict[str, frozenset[int]] = {}
    for pod in pods:
        held = held_by(pod)
        if held is not None:
            places[pod.uid] = frozenset((*held.total.zones, *nodes_of(held.total.mask)))
        elif isinstance(belief, KnowsPlaces):
            places[pod.uid] = belief.places_of(pod.uid)
        else:
            places[pod.uid] = frozenset()
    return places


def _spare_most(
    trial: EvictionTrial, pods: Sequence[PodInfo], budgets: Sequence[Budget]
) -> ChosenVictims | Status:
    """Remove all of *pods* and put back those that can stay."""
    trial.remove(pods)
    status = trial.verdict()
    if not status.ok:
        return status
    violating, others = split_by_violation(pods, budgets)
    unspared = [pod for pod in violating if not _is_spared(trial, pod)]
    violations = len(unspared)
    unspared += [pod for pod in others if not _is_spared(trial, pod)]
    return ChosenVictims(tuple(sorted(unspared, key=by_importance)), violations)


def _is_spared(trial: EvictionTrial, pod: PodInfo) -> bool:
    trial.restore(pod)
    if trial.verdict().ok:
        return True
    trial.remove([pod])
    return False


# ------------------------------------------------------------------------------------------------
# The least that must be lost on each node, from sums of requests alone.
#
# A trial asks every filter many times; these bounds take microseconds. A node is worth a trial
# only if its bound is better than what was found elsewhere, and none at all if even the eviction
# of all pods of lower priority would leave too little.

_SHAPES_KEPT: Final = 16


@dataclass(frozen=True, slots=True)
class _Column:
    """What the pods of a node ask for of one resource, the least important pod first.

    Attributes:
        sums: of this pod and all less important ones.
        largest: single request among these.
    """

    sums: Sequence[int]
    largest: Sequence[int]


@dataclass(frozen=True, slots=True)
class _Table:
    """The pods of a node in the order of their priorities, and sums of these."""

    generation: int
    priorities: Sequence[int]
    sums: Sequence[int]
    columns: dict[str, _Column]


class Bounds:
    """Computes bounds, and keeps them and what they are computed from until a node changes."""

    def __init__(self) -> None:
        self._tables: dict[str, _Table] = {}
        self._known: dict[_Shape, dict[str, tuple[int, Cost | None]]] = {}

    def of(self, pod: PodInfo, nodes: Iterable[NodeInfo]) -> list[Cost | None]:
        """Return the least that making room for *pod* costs on each of *nodes*.

        ``None`` says that no eviction makes room.
        """
        known = self._known_for(pod)
        bounds = []
        for node in nodes:
            found = known.get(node.name)
            if found is None or found[0] != node.generation:
                found = known[node.name] = (node.generation, self._compute(pod, node))
            bounds.append(found[1])
        return bounds

    def _known_for(self, pod: PodInfo) -> dict[str, tuple[int, Cost | None]]:
        """Return what is known of pods that ask for the same with the same priority."""
        shape = (pod.priority, frozenset(pod.requests.items()))
        known = self._known.pop(shape, {})
        self._known[shape] = known
        if len(self._known) > _SHAPES_KEPT:
            del self._known[next(iter(self._known))]
        return known

    def _compute(self, pod: PodInfo, node: NodeInfo) -> Cost | None:
        table = self._table(node)
        lower = bisect_left(table.priorities, pod.priority)
        if not lower:
            return None
        index, count = 0, 1
        for name, wanted in (*pod.requests.items(), (PODS, 1)):
            missing = wanted - _free(node, name)
            if missing <= 0:
                continue
            column = table.columns.get(name)
            if column is None or column.sums[lower - 1] < missing:
                if is_native(name):
                    return None
                # It may be one that the fit filter was told to ignore.
                continue
            index = max(index, bisect_left(column.sums, missing))
            count = max(count, -(-missing // column.largest[lower - 1]))
        others = table.sums[count - 2] if count > 1 else 0
        return lowest_cost(table.priorities[index], others, count)

    def forget_others(self, nodes: Container[str]) -> None:
        """Forget everything about nodes that are not among *nodes*."""
        self._known.clear()
        self._tables = {name: table for name, table in self._tables.items() if name in nodes}

    def _table(self, node: NodeInfo) -> _Table:
        known = self._tables.get(node.name)
        if known is None or known.generation != node.generation:
            known = self._tables[node.name] = _make(node)
        return known


def _free(node: NodeInfo, name: str) -> int:
    if name == PODS:
        return node.allowed_pods - len(node.pods)
    return node.allocatable.get(name, 0) - node.requested.get(name, 0)


def _make(node: NodeInfo) -> _Table:
    pods = sorted(node.pods.values(), key=lambda pod: pod.priority)
    names = {name for pod in pods for name in pod.requests}
    columns = {name: [pod.requests.get(name, 0) for pod in pods] for name in names}
    columns[PODS] = [1] * len(pods)
    priorities = [pod.priority for pod in pods]
    return _Table(
        node.generation,
        priorities,
        list(accumulate(priorities)),
        {
            name: _Column(list(accumulate(amounts)), list(accumulate(amounts, max)))
            for name, amounts in columns.items()
        },
    )
