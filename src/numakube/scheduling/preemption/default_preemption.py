"""The post-filter ``DefaultPreemption``: on which node to make room, and whom to evict."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from numakube.api.codec import Wire, convert
from numakube.errors import ConfigError
from numakube.scheduling.framework.cluster_events import EventKind
from numakube.scheduling.framework.plugins import Nomination, PostFilter
from numakube.scheduling.framework.status import SUCCESS, Code, Status, failure, unschedulable
from numakube.scheduling.preemption.victims import (
    NO_VICTIMS,
    Bounds,
    ChosenVictims,
    EvictionTrial,
    KnowsPlaces,
    budgets_of,
    find_victims,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from numakube.scheduling.framework.cycle_state import CycleState
    from numakube.scheduling.framework.plugins import Nominations
    from numakube.scheduling.framework.registry import Factory, Handle
    from numakube.scheduling.framework.runtime import Runtime
    from numakube.scheduling.preemption.victims import Budget, Cost, TriesOut
    from numakube.scheduling.snapshot.cluster import Snapshot
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo


_NOT_HELPFUL: Final = "Preemption is not helpful for scheduling"
_AWAITS_REPORT: Final = (
    "preemption: not eligible until the nominated node reports that its victims are gone."
)
_MOST_TRIALS: Final = 256
"""Nodes tried in one cycle; the next attempt goes on with others."""
_MOST_CANDIDATES: Final = 32
"""Candidates are found in the order of their bounds, so that later ones are seldom better."""
_ATTEMPTS_BETWEEN_CLEANUPS: Final = 1000


@dataclass(frozen=True, slots=True)
class PreemptionSettings:
    """How many nodes on which room can be made are enough to choose from."""

    min_candidate_nodes_percentage: int = 10
    min_candidate_nodes_absolute: int = 100

    def candidates_among(self, nodes: int) -> int:
        """Return how many candidates are enough when *nodes* come into question."""
        share = nodes * self.min_candidate_nodes_percentage // 100
        return min(nodes, max(share, self.min_candidate_nodes_absolute))


@dataclass(frozen=True, slots=True)
class _EvictionCandidate:
    """A node on which room can be made."""

    node: str
    victims: ChosenVictims


class DefaultPreemption(PostFilter):
    """Evicts pods of lower priority."""

    name: ClassVar[str] = "DefaultPreemption"

    def __init__(
        self, args: PreemptionSettings, handle: Handle, budgets: Callable[[], Sequence[Budget]]
    ) -> None:
        self._args = args
        self._budgets = budgets
        self._handle = handle
        self._bounds = Bounds()
        self._aftermath = Aftermath()
        self._turn = 0
        self._attempts = 0

    def post_filter(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, refusals: Mapping[str, Status]
    ) -> tuple[Nomination | None, Status]:
        """Return the node on which the least is lost, and who must leave it."""
        runtime = self._handle.runtime
        if runtime is None:
            return None, failure("the plugins of the profile are not known")
        nominated = self._handle.nominations.node_of(pod.uid) or pod.nominated_node_name
        leaving = self._handle.nominations.leaving(pod.uid)
        reason = why_not(pod, nominated, snapshot, refusals, leaving)
        if reason is None and self._aftermath.awaits_report(pod, snapshot):
            return None, unschedulable(_AWAITS_REPORT, detail=_helped_by_reports(runtime))
        if reason is not None:
            return None, unschedulable(f"preemption: {reason}")
        lowest = snapshot.pods.lowest_priority
        if lowest is None or lowest >= pod.priority:
            # The usual case by far where all pods have the same priority.
            hopeless = sum(refusal.code is Code.UNSCHEDULABLE for refusal in refusals.values())
            counts = Counter({NO_VICTIMS.message: hopeless})
            return None, unschedulable(f"preemption: {_message(counts, len(snapshot.rows))}")
        search = _EvictionSearch(
            runtime, state, pod, nominations=self._handle.nominations, budgets=self._budgets()
        )
        nodes = self._in_order(pod, snapshot, refusals)
        enough = min(_MOST_CANDIDATES, self._args.candidates_among(len(nodes)))
        best = search.run(nodes, enough=enough)
        if best is None:
            why = f"preemption: {search.message(len(snapshot.rows))}"
            return None, unschedulable(why, detail=frozenset(search.refused_by))
        nomination = Nomination(best.node, best.victims.pods)
        self._aftermath.note(pod, nomination)
        return nomination, SUCCESS

    def _in_order(
        self, pod: PodInfo, snapshot: Snapshot, refusals: Mapping[str, Status]
    ) -> list[tuple[Cost | None, NodeInfo]]:
        """Return the nodes that eviction may help, the least costly first.

        Among equals another one comes first each time, so that in the end all are tried.
        """
        row_of, by_row = snapshot.row_of, snapshot.by_row
        rows = [
            row_of.get(name)
            for name, status in refusals.items()
            if status.code is Code.UNSCHEDULABLE
        ]
        nodes = [node for row in rows if row is not None and (node := by_row[row]) is not None]
        self._turn = (self._turn + _MOST_TRIALS) % max(1, len(nodes))
        rotated = nodes[self._turn :] + nodes[: self._turn]
        self._attempts += 1
        if self._attempts % _ATTEMPTS_BETWEEN_CLEANUPS == 0:
            self._bounds.forget_others(snapshot.row_of)
        bounds = zip(self._bounds.of(pod, rotated), rotated, strict=True)
        return sorted(bounds, key=lambda bound: (bound[0] is None, bound[0] or ()))


class _EvictionSearch:
    """The search for the best node for one pod.

    Attributes:
        refused_by: plugins that refuse the pod even if others were evicted.
    """

    def __init__(
        self,
        runtime: TriesOut,
        state: CycleState,
        pod: PodInfo,
        *,
        nominations: Nominations,
        budgets: Sequence[Budget],
    ) -> None:
        self._runtime = runtime
        self._nominations = nominations
        self._budgets = budgets
        self._state = state
        self._pod = pod
        self._reasons: Counter[str] = Counter()
        self.refused_by: set[str] = set()

    def run(
        self, nodes: Sequence[tuple[Cost | None, NodeInfo]], *, enough: int
    ) -> _EvictionCandidate | None:
        """Return the node on which the least is lost, among *enough* candidates; or nothing."""
        best: _EvictionCandidate | None = None
        found = 0
        for trials, (bound, node) in enumerate(self._worth_trying(nodes)):
            if trials >= _MOST_TRIALS or (best is not None and best.victims.cost <= bound):
                break
            victims = self._victims_on(node)
            if victims is None:
                continue
            found += 1
            candidate = _EvictionCandidate(node.name, victims)
            best = candidate if best is None else _better(best, candidate)
            if found >= enough and not best.victims.violations:
                break
        return best

    def message(self, total: int) -> str:
        """Say why eviction helps on none of *total* nodes."""
        return _message(self._reasons, total)

    def _worth_trying(
        self, nodes: Sequence[tuple[Cost | None, NodeInfo]]
    ) -> Iterator[tuple[Cost, NodeInfo]]:
        for bound, node in nodes:
            if bound is None:
                self._reasons[NO_VICTIMS.message] += 1
            else:
                yield bound, node

    def _victims_on(self, node: NodeInfo) -> ChosenVictims | None:
        nominated = self._nominations.before(self._pod, node.name)

        def trial() -> EvictionTrial:
            return EvictionTrial(self._runtime, self._state, self._pod, node, nominated=nominated)

        found = find_victims(self._pod, node, self._budgets, trial)
        if isinstance(found, ChosenVictims) and found.pods:
            return found
        if isinstance(found, Status):
            self._reasons.update(found.reasons)
            self.refused_by |= {found.plugin} - {""}
        else:
            self._reasons[_NOT_HELPFUL] += 1
        return None


def _message(reasons: Counter[str], total: int) -> str:
    """Say why eviction helps on none of *total* nodes, as kube-scheduler does."""
    counts = reasons + Counter({_NOT_HELPFUL: total - reasons.total()})
    told = ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items()))
    return f"0/{total} nodes are available: {told}."


def _better(one: _EvictionCandidate, other: _EvictionCandidate) -> _EvictionCandidate:
    """Return the candidate that costs less; among equals the one that started last, or *one*."""
    if one.victims.cost != other.victims.cost:
        return min(one, other, key=lambda candidate: candidate.victims.cost)
    return other if other.victims.started > one.victims.started else one


_NEVER: Final = "not eligible due to preemptionPolicy=Never."
_TERMINATING: Final = "not eligible due to a terminating pod on the nominated node."


def why_not(
    pod: PodInfo,
    nominated: str,
    snapshot: Snapshot,
    refusals: Mapping[str, Status],
    leaving: Collection[str] = (),
) -> str | None:
    """Return why *pod* must not evict anybody, in kube-scheduler's words; ``None`` if it may.

    A pod without a grace period is gone as soon as it is deleted, so it is never seen on its way
    out. When the first of several victims is gone, the others still look as if they stayed; only
    *leaving* tells that they go.

    Args:
        pod: the pod that fits nowhere.
        nominated: the node on which room has been made for it already, if any.
        snapshot: the cluster.
        refusals: why each node refused the pod.
        leaving: uids of those that are being evicted for it.
    """
    if pod.pod.spec.preemption_policy == "Never":
        return _NEVER
    refusal = refusals.get(nominated)
    if not nominated or (
        refusal is not None and refusal.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    ):
        return None
    node = snapshot.node(nominated)
    pods = node.pods.values() if node is not None else ()
    is_making_room = any(
        other.uid in leaving or (other.priority < pod.priority and is_being_preempted(other))
        for other in pods
    )
    return _TERMINATING if is_making_room else None


def _helped_by_reports(runtime: Runtime) -> frozenset[str]:
    """Return the plugins whose pods are tried again when a node reports."""
    plugins = runtime.profile.plugins().items()
    return frozenset(name for name, one in plugins if EventKind.TOPOLOGY_CHANGED in one.wakes_on)


def is_being_preempted(pod: PodInfo) -> bool:
    """Tell whether *pod* is going away to make room for another."""
    conditions = pod.pod.status.conditions if pod.pod.status else ()
    return pod.is_being_deleted and any(
        condition.type == "DisruptionTarget"
        and condition.status == "True"
        and condition.reason == "PreemptionByScheduler"
        for condition in conditions
    )


_MOST_WAITS: Final = 5
"""Attempts; with the queue's backoff that is about half a minute."""
_MOST_KEPT: Final = 4096


@dataclass(slots=True)
class _Eviction:
    """Whom a pod has had evicted, where, and how often it has waited for the report since."""

    node: str
    victims: frozenset[str]
    waits: int = 0


class Aftermath:
    """Remembers for whom room has been made."""

    def __init__(self) -> None:
        self._evictions: dict[str, _Eviction] = {}

    def note(self, pod: PodInfo, nomination: Nomination) -> None:
        """Note that room is being made for *pod*."""
        victims = frozenset(victim.uid for victim in nomination.victims)
        self._evictions.pop(pod.uid, None)
        self._evictions[pod.uid] = _Eviction(nomination.node, victims)
        if len(self._evictions) > _MOST_KEPT:
            del self._evictions[next(iter(self._evictions))]

    def awaits_report(self, pod: PodInfo, snapshot: Snapshot) -> bool:
        """Tell whether the room made for *pod* is there, but not reported yet."""
        eviction = self._evictions.get(pod.uid)
        node = snapshot.node(eviction.node) if eviction is not None else None
        if eviction is None or node is None or eviction.waits >= _MOST_WAITS:
            return False
        belief = node.numa
        if not isinstance(belief, KnowsPlaces):
            return False
        gone = eviction.victims - node.pods.keys()
        if not any(belief.places_of(uid) for uid in gone):
            return False
        eviction.waits += 1
        return True


# ------------------------------------------------------------------------------------------------
# How DefaultPreemption is made from its arguments.
#
# Names, defaults, limits and messages are those of kube-scheduler 1.37
# (kubescheduler.config.k8s.io/v1, DefaultPreemptionArgs).

_WHOLE: Final = 100


class DefaultPreemptionArgs(Wire, frozen=True):
    """Arguments of DefaultPreemption as they stand under ``pluginConfig``."""

    min_candidate_nodes_percentage: int = 10
    min_candidate_nodes_absolute: int = 100
    api_version: str = ""
    kind: str = ""


def make_preemption(args: Mapping[str, object], handle: Handle) -> DefaultPreemption:
    """Make the plugin; raises `ConfigError` if the arguments are wrong."""
    read = convert(DefaultPreemptionArgs, dict(args), "DefaultPreemptionArgs")
    problems = list(_problems(read))
    if problems:
        raise ConfigError("; ".join(problems))
    objects = handle.cluster.objects
    return DefaultPreemption(
        PreemptionSettings(
            min_candidate_nodes_percentage=read.min_candidate_nodes_percentage,
            min_candidate_nodes_absolute=read.min_candidate_nodes_absolute,
        ),
        handle,
        lambda: budgets_of(objects.disruption_budgets.values()),
    )


def _problems(args: DefaultPreemptionArgs) -> Iterator[str]:
    percentage, absolute = args.min_candidate_nodes_percentage, args.min_candidate_nodes_absolute
    of, other = "minCandidateNodesPercentage", "minCandidateNodesAbsolute"
    if not 0 <= percentage <= _WHOLE:
        yield f"{of}: Invalid value: {percentage}: not in valid range [0, 100]"
    if absolute < 0:
        yield f"{other}: Invalid value: {absolute}: not in valid range [0, inf)"
    if percentage == 0 and absolute == 0:
        yield f"{of}: Invalid value: 0: cannot be zero at the same time as {other}"
        yield f"{other}: Invalid value: 0: cannot be zero at the same time as {of}"


REGISTRY: Final[Mapping[str, Factory]] = {DefaultPreemption.name: make_preemption}
"""Factory by the name that a KubeSchedulerConfiguration uses."""
