"""The kubelet model's word: what will this very node do with this very pod, and which devices?

Counts leave open which CPUs make whole cores, which memory groups are in use and how init
containers share. The model, in the state that is believed, does not. It costs a thousand times as
much as a look at counts, so it is asked about the best candidates in order until one admits, and a
refusal is remembered until the node changes.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from numakube.api.koordinator.devices import is_chosen_by_scheduler
from numakube.api.strictness import Leniency
from numakube.kubelet.admission_outcome import Admitted, Rejected
from numakube.kubelet.admission_trace import AdmissionTrace
from numakube.kubelet.device_pairs import WITHIN, foresee
from numakube.kubelet.machine import Closeness
from numakube.scheduling.framework.plugins import MAX_NODE_SCORE
from numakube.scheduling.numa.alignment_refusal import AlignmentRefusal, Kind
from numakube.scheduling.numa.native.pod_wants import wants_of
from numakube.scheduling.snapshot.pod_equivalence import kubelet_demand, kubelet_key
from numakube.scheduling.snapshot.zone_belief import TAKES_A_PLACE, foresees
from numakube.values.resources import CPU, MILLI_PER_CPU

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numakube.api.strictness import RequiredCloseness, Strictness
    from numakube.kubelet.admission_trace import ResourceTrace
    from numakube.kubelet.device_pairs import Prospect
    from numakube.kubelet.kubelet_model import KubeletNode
    from numakube.kubelet.pod_demand import ContainerRole, PodDemand
    from numakube.scheduling.arrays import IntArray, Rows, SmallScores
    from numakube.scheduling.snapshot.cluster import Snapshot
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo
    from numakube.scheduling.snapshot.zone_belief import NumaBelief


@dataclass(frozen=True, slots=True)
class Confirmed:
    """The first candidate that will admit the pod.

    Attributes:
        placement: what its kubelet will give; ``None`` if the node has no exact data.
        refused: why those before it will not, by name.
    """

    node: NodeInfo
    placement: Admitted | None
    refused: dict[str, AlignmentRefusal]


class ModelCheck:
    """Asks the models of nodes, and remembers their refusals.

    What is remembered holds for one belief: a new report or reservation makes a new one.
    """

    def __init__(self, *, remembered: int) -> None:
        self._limit = remembered
        self._refusals: OrderedDict[tuple[str, object], tuple[NumaBelief, AlignmentRefusal]] = (
            OrderedDict()
        )

    def check(self, pod: PodInfo, node: NodeInfo) -> Admitted | AlignmentRefusal | None:
        """Return what the kubelet of *node* will do with *pod*; ``None`` if that is unknown."""
        belief = node.numa
        if belief is None:
            return None
        key = node.name, kubelet_key(pod)
        known = self._refusals.get(key)
        if known is not None and known[0] is belief:
            return known[1]
        outcome = belief.outcome_of(pod) if foresees(belief) else None
        if isinstance(outcome, Admitted):
            return outcome
        model = belief.model()
        if model is None:
            return None
        answer = ask_model(pod, model)
        if isinstance(answer, Admitted) and outcome is not None:
            answer = _refused_early(outcome)
        if isinstance(answer, AlignmentRefusal):
            self._remember(key, belief, answer)
        return answer

    def confirm(
        self, pod: PodInfo, candidates: Iterable[NodeInfo], *, limit: int
    ) -> Confirmed | dict[str, AlignmentRefusal]:
        """Return the first of *candidates* that admits *pod*, or why none of *limit* does."""
        refused: dict[str, AlignmentRefusal] = {}
        for node in candidates:
            if len(refused) >= limit:
                break
            answer = self.check(pod, node)
            if not isinstance(answer, AlignmentRefusal):
                return Confirmed(node, answer, refused)
            refused[node.name] = answer
        return refused

    def _remember(
        self, key: tuple[str, object], belief: NumaBelief, answer: AlignmentRefusal
    ) -> None:
        self._refusals[key] = belief, answer
        self._refusals.move_to_end(key)
        if len(self._refusals) > self._limit:
            self._refusals.popitem(last=False)


def ask_model(pod: PodInfo, model: KubeletNode) -> Admitted | AlignmentRefusal:
    """Return the placement, or the refusal with what the trace tells about it."""
    demand = kubelet_demand(pod, model)
    # A copy, because a refusal leaves behind what was given out before it.
    outcome = model.clone().admit(demand)
    if isinstance(outcome, Admitted):
        return outcome
    # A trace costs more than the decision, so only refusals get one, the second time round.
    trace = AdmissionTrace()
    model.clone().admit(demand, trace=trace)
    return _refusal(demand, model, outcome, trace)


def _refused_early(refused: Rejected) -> AlignmentRefusal:
    """Return why a pod does not fit that would fit after those that wait to be bound."""
    if refused is TAKES_A_PLACE:
        return AlignmentRefusal(kind=Kind.WAITING, reason=refused.message)
    return AlignmentRefusal(kind=Kind.KUBELET, reason=refused.reason, detail=refused.message)


def _refusal(
    demand: PodDemand, model: KubeletNode, refused: Rejected, trace: AdmissionTrace
) -> AlignmentRefusal:
    short = _shortest(_suspects(trace))
    return AlignmentRefusal(
        kind=Kind.KUBELET,
        container=refused.container or "",
        role=_role(demand, refused.container),
        one_of_several=refused.container is not None and len(demand.containers) > 1,
        resource=short.resource if short else "",
        zones=(_best_zone(short),) if short else (),
        wanted=_base(short, short.wanted) if short else 0,
        free=_base(short, max(short.free_by_node.values())) if short else 0,
        policy=model.settings.topology_policy,
        scope=model.settings.topology_scope,
        reason=refused.reason,
        detail=_why(refused, trace),
    )


def _suspects(trace: AdmissionTrace) -> tuple[ResourceTrace, ...]:
    """Return the resources of what failed: an allocation, or else the last alignment."""
    if trace.failed or not trace.alignments:
        return trace.failed
    return trace.alignments[-1].resources


def _shortest(resources: Iterable[ResourceTrace]) -> ResourceTrace | None:
    """Return the resource of which the best NUMA node lacks the largest part."""
    short = [resource for resource in resources if resource.free_by_node and resource.wanted]
    return max(
        short, key=lambda one: (one.wanted - max(one.free_by_node.values())) / one.wanted,
        default=None,
    )  # fmt: skip


def _best_zone(resource: ResourceTrace) -> int:
    return max(resource.free_by_node, key=lambda node: (resource.free_by_node[node], -node))


def _base(resource: ResourceTrace, amount: int) -> int:
    """Return an amount of the model, which counts whole CPUs, in base units."""
    return amount * MILLI_PER_CPU if resource.resource == CPU else amount


def _role(demand: PodDemand, container: str | None) -> ContainerRole | None:
    return next((other.role for other in demand.containers if other.name == container), None)


def _why(refused: Rejected, trace: AdmissionTrace) -> str:
    """Say why in a sentence."""
    if refused.reason == "TopologyAffinityError" and trace.alignments:
        return trace.alignments[-1].why
    return refused.message


# ------------------------------------------------------------------------------------------------
# How close to each other a pod's devices will be on a node, and what is made of that.
#
# Only pods with devices of several resources are asked about, on nodes whose report says how
# devices are connected. The kubelet model says which NUMA nodes and devices the pod will get
# (`numakube.kubelet.device_pairs`), so each answer costs as much as a confirmation: it is kept
# until the node changes, and at most `_ASKED_AT_ONCE` nodes are asked for one pod, the best ones
# first.

Share: TypeAlias = npt.NDArray[np.float64]

_WORTH: Final = {
    Closeness.SELF: 1.0,
    Closeness.LINK: 1.0,
    Closeness.PIX: 1.0,
    Closeness.PXB: 0.9,
    Closeness.PHB: 0.5,
    Closeness.NODE: 0.3,
    Closeness.SYS: 0.0,
}
_UNKNOWN_WORTH: Final = _WORTH[Closeness.NODE]
_ASKED_AT_ONCE: Final = 256
_PAIR: Final = 2


def wants_pairs(pod: PodInfo) -> bool:
    """Tell whether *pod* asks kubelets for devices of several resources."""
    steps = pod.memo("numa-wants", wants_of).steps
    names = {name for step in steps for name, _ in step.want.devices}
    return sum(not is_chosen_by_scheduler(name) for name in names) >= _PAIR


class DeviceForecasts:
    """How close the devices of pods are expected to be on nodes.

    What is remembered holds for one belief: a new report or reservation makes a new one.
    """

    def __init__(self, *, remembered: int) -> None:
        self._limit = remembered
        self._known: OrderedDict[
            tuple[str, object], tuple[NumaBelief, tuple[Prospect, ...] | None]
        ] = OrderedDict()

    def of(self, pod: PodInfo, node: NodeInfo) -> tuple[Prospect, ...] | None:
        """Return how close devices will be; ``None`` if the node does not tell or refuses."""
        belief = node.numa
        if belief is None or not _is_connected(belief):
            return None
        key = node.name, kubelet_key(pod)
        known = self._known.get(key)
        if known is None or known[0] is not belief:
            known = self._known[key] = belief, _foresee(pod, belief)
            self._known.move_to_end(key)
            if len(self._known) > self._limit:
                self._known.popitem(last=False)
        return known[1]

    def rated(self, pod: PodInfo, node: NodeInfo, score: int, weight: int) -> int:
        """Return the *score* of a node with how close devices are counted in."""
        return _blended(score, worth_of(self.of(pod, node)), weight)

    def worth_of_all(
        self, pod: PodInfo, snapshot: Snapshot, rows: Rows, scores: SmallScores, worths: Worths
    ) -> Share:
        """Return how close devices are on the nodes at *rows*, for `blended`.

        All say how their devices are connected; those that would be asked too late are unknown.
        """

        def ask(row: int) -> float:
            return worth_of(self.of(pod, snapshot.at(row)))

        return worths.of(rows, scores, snapshot.zones.changes.at, ask)


class Worths:
    """How close the devices of pods of one kind will be, by row, as far as it was asked."""

    def __init__(self) -> None:
        self._seen: IntArray = np.zeros(0, dtype=np.int64)
        self._worth: Share = np.zeros(0)

    def of(
        self, rows: Rows, scores: SmallScores, change: IntArray, ask: Callable[[int], float]
    ) -> Share:
        """Return that of *rows*; those that have changed are asked, the best by *scores* first."""
        if not len(rows):
            return np.zeros(0)
        if len(self._seen) != len(change):
            more = len(change) - len(self._seen)
            self._seen = np.pad(self._seen, (0, more), constant_values=-1)
            self._worth = np.pad(self._worth, (0, more))
        fresh = np.flatnonzero(self._seen[rows] != change[rows])
        if len(fresh) > _ASKED_AT_ONCE:
            self._worth[rows[fresh]] = _UNKNOWN_WORTH
            fresh = fresh[np.argsort(-scores[fresh], kind="stable")[:_ASKED_AT_ONCE]]
        for row in rows[fresh].tolist():
            self._worth[row] = ask(row)
            self._seen[row] = change[row]
        return self._worth[rows]


def _is_connected(belief: NumaBelief) -> bool:
    report = belief.topology.report if belief.topology is not None else None
    return report is not None and report.connects_devices


def _foresee(pod: PodInfo, belief: NumaBelief) -> tuple[Prospect, ...] | None:
    model = belief.model()
    if model is None:
        return None
    demand = model.demand_of(pod.pod)
    outcome = belief.outcome_of(pod) if foresees(belief) else model.clone().admit(demand)
    return foresee(model, demand, outcome) if isinstance(outcome, Admitted) else None


def worth_of(prospects: tuple[Prospect, ...] | None) -> float:
    """Rate a prediction from 0 to 1, uncertain ones by their average."""
    if not prospects:
        return _UNKNOWN_WORTH
    return min(map(_expected, prospects))


def _expected(prospect: Prospect) -> float:
    if not prospect.chances:
        return _UNKNOWN_WORTH
    even = 1 / len(prospect.chances)
    return sum(
        _WORTH[level] * (even if share is None else share) for level, share in prospect.chances
    )


def blended(scores: SmallScores, worths: Share, weight: int) -> IntArray:
    """Mix *scores* with *worths* as `_blended` does."""
    share = ((100 - weight) * scores.astype(np.int64) / MAX_NODE_SCORE + weight * worths) / 100
    return np.where(scores == 0, 0, 1 + ((MAX_NODE_SCORE - 1) * share).astype(np.int64))


@lru_cache(maxsize=16)
def blended_unknown(weight: int) -> IntArray:
    """Return by score, from 0, what becomes of it where nothing is known of devices."""
    every = range(MAX_NODE_SCORE + 1)
    return np.array([_blended(score, _UNKNOWN_WORTH, weight) for score in every])


def _blended(score: int, worth: float, weight: int) -> int:
    """Mix both; a node that promises too little, with 0, stays where it is."""
    if not score:
        return 0
    share = ((100 - weight) * score / MAX_NODE_SCORE + weight * worth) / 100
    return 1 + int((MAX_NODE_SCORE - 1) * share)


def too_far(asked: Strictness, prospects: tuple[Prospect, ...] | None) -> AlignmentRefusal | None:
    """Return why devices cannot be as close as *asked*; ``None`` if they can, or need not be."""
    if asked.closeness is None:
        return None
    if prospects is None:
        return unconnected(asked.closeness)
    found = (_too_far(asked, asked.closeness, prospect) for prospect in prospects)
    return next((one for one in found if one is not None), None)


def unconnected(asked: RequiredCloseness) -> AlignmentRefusal:
    """Return the refusal of a node that does not say how its devices are connected."""
    reason = f"{asked}: not known how devices are connected"
    return AlignmentRefusal(kind=Kind.CLOSENESS, reason=reason, hopeless=True)


def _too_far(
    asked: Strictness, closeness: RequiredCloseness, prospect: Prospect
) -> AlignmentRefusal | None:
    best, worst = prospect.best, prospect.worst
    if best is None or worst is None:
        names = _names(prospect.unknown or prospect.resources)
        reason = f"{closeness}: not known how {names} are connected"
    elif best > WITHIN[closeness]:
        reason = f"{closeness}: {_names(prospect.resources)} would be {best.name}"
    elif worst > WITHIN[closeness] and asked.luck is Leniency.REFUSE:
        reason = f"{closeness}: {_names(prospect.resources)} may be {worst.name}, by luck"
    else:
        return None
    return AlignmentRefusal(kind=Kind.CLOSENESS, container=prospect.container, reason=reason)


def _names(resources: Iterable[str]) -> str:
    return " and ".join(resources)
