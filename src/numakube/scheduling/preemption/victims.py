"""The fewest and least important pods on one node whose eviction lets a pod in.

All pods of lower priority are taken away; then, the most important first, each is put back if the
pod still fits. Pods whose eviction would violate a disruption budget are put back before others.
The outcome cannot be reduced further, but on a node with NUMA zones it depends on who is put back
first: two pods may have to leave one zone although the eviction of a single one would clear
another. So the same is tried with the pods of each zone alone, and the best outcome counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, runtime_checkable

from numakube.scheduling.framework.status import Status, unresolvable
from numakube.scheduling.koordinator.node_ledgers import held_by
from numakube.scheduling.preemption.disruption_budgets import split_by_violation
from numakube.values.numamask import nodes_of
from numakube.values.topology_policy import TopologyPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numakube.scheduling.preemption.disruption_budgets import Budget
    from numakube.scheduling.preemption.what_if_node import Trial
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo

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
class Victims:
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
    pod: PodInfo, node: NodeInfo, budgets: Sequence[Budget], trial: Callable[[], Trial]
) -> Victims | Status:
    """Return the pods to evict from *node* for *pod*, or why evicting does not help.

    Args:
        pod: who needs room.
        node: where.
        budgets: disruption budgets.
        trial: makes a new copy of the node to try things out.
    """
    pods = (one for one in node.pods.values() if one.priority < pod.priority)
    lower = sorted(pods, key=by_importance)
    if not lower:
        return NO_VICTIMS
    best = _spare_most(trial(), lower, budgets)
    if isinstance(best, Status) or len(best.pods) <= 1:
        return best
    for pool in _pools(node, lower):
        found = _spare_most(trial(), pool, budgets)
        if isinstance(found, Victims) and found.cost < best.cost:
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
    trial: Trial, pods: Sequence[PodInfo], budgets: Sequence[Budget]
) -> Victims | Status:
    """Remove all of *pods* and put back those that can stay."""
    trial.remove(pods)
    status = trial.verdict()
    if not status.ok:
        return status
    violating, others = split_by_violation(pods, budgets)
    unspared = [pod for pod in violating if not _is_spared(trial, pod)]
    violations = len(unspared)
    unspared += [pod for pod in others if not _is_spared(trial, pod)]
    return Victims(tuple(sorted(unspared, key=by_importance)), violations)


def _is_spared(trial: Trial, pod: PodInfo) -> bool:
    trial.restore(pod)
    if trial.verdict().ok:
        return True
    trial.remove([pod])
    return False
