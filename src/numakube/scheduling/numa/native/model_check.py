"""The kubelet model's word: what will this very node do with this very pod?

Counts leave open which CPUs make whole cores, which memory groups are in use and how init
containers share. The model, in the state that is believed, does not. It costs a thousand times as
much as a look at counts, so it is asked about the best candidates in order until one admits, and a
refusal is remembered until the node changes.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from numakube.kubelet.admission_outcome import Admitted, Rejected
from numakube.kubelet.admission_trace import AdmissionTrace
from numakube.scheduling.numa.alignment_rejection import Kind, Rejection
from numakube.scheduling.snapshot.pod_equivalence import kubelet_demand, kubelet_key
from numakube.scheduling.snapshot.zone_belief import TAKES_A_PLACE, foresees
from numakube.values.resources import CPU, MILLI_PER_CPU

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numakube.kubelet.admission_trace import ResourceTrace
    from numakube.kubelet.kubelet_model import KubeletNode
    from numakube.kubelet.pod_demand import PodDemand, Role
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
    refused: dict[str, Rejection]


class ModelCheck:
    """Asks the models of nodes, and remembers their refusals.

    What is remembered holds for one belief: a new report or reservation makes a new one.
    """

    def __init__(self, *, remembered: int) -> None:
        self._limit = remembered
        self._refusals: OrderedDict[tuple[str, object], tuple[NumaBelief, Rejection]] = (
            OrderedDict()
        )

    def check(self, pod: PodInfo, node: NodeInfo) -> Admitted | Rejection | None:
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
        if isinstance(answer, Rejection):
            self._remember(key, belief, answer)
        return answer

    def confirm(
        self, pod: PodInfo, candidates: Iterable[NodeInfo], *, limit: int
    ) -> Confirmed | dict[str, Rejection]:
        """Return the first of *candidates* that admits *pod*, or why none of *limit* does."""
        refused: dict[str, Rejection] = {}
        for node in candidates:
            if len(refused) >= limit:
                break
            answer = self.check(pod, node)
            if not isinstance(answer, Rejection):
                return Confirmed(node, answer, refused)
            refused[node.name] = answer
        return refused

    def _remember(self, key: tuple[str, object], belief: NumaBelief, answer: Rejection) -> None:
        self._refusals[key] = belief, answer
        self._refusals.move_to_end(key)
        if len(self._refusals) > self._limit:
            self._refusals.popitem(last=False)


def ask_model(pod: PodInfo, model: KubeletNode) -> Admitted | Rejection:
    """Return the placement, or the refusal with what the trace tells about it."""
    demand = kubelet_demand(pod, model)
    # A copy, because a refusal leaves behind what was given out before it.
    outcome = model.clone().admit(demand)
    if isinstance(outcome, Admitted):
        return outcome
    # A trace costs more than the decision, so only refusals get one, the second time round.
    trace = AdmissionTrace()
    model.clone().admit(demand, trace=trace)
    return _rejection(demand, model, outcome, trace)


def _refused_early(refused: Rejected) -> Rejection:
    """Return why a pod does not fit that would fit after those that wait to be bound."""
    if refused is TAKES_A_PLACE:
        return Rejection(kind=Kind.WAITING, reason=refused.message)
    return Rejection(kind=Kind.KUBELET, reason=refused.reason, detail=refused.message)


def _rejection(
    demand: PodDemand, model: KubeletNode, refused: Rejected, trace: AdmissionTrace
) -> Rejection:
    short = _shortest(_suspects(trace))
    return Rejection(
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
    short = [one for one in resources if one.free_by_node and one.wanted]
    return max(
        short, key=lambda one: (one.wanted - max(one.free_by_node.values())) / one.wanted,
        default=None,
    )  # fmt: skip


def _best_zone(resource: ResourceTrace) -> int:
    return max(resource.free_by_node, key=lambda node: (resource.free_by_node[node], -node))


def _base(resource: ResourceTrace, amount: int) -> int:
    """Return an amount of the model, which counts whole CPUs, in base units."""
    return amount * MILLI_PER_CPU if resource.resource == CPU else amount


def _role(demand: PodDemand, container: str | None) -> Role | None:
    return next((one.role for one in demand.containers if one.name == container), None)


def _why(refused: Rejected, trace: AdmissionTrace) -> str:
    """Say why in a sentence."""
    if refused.reason == "TopologyAffinityError" and trace.alignments:
        return trace.alignments[-1].why
    return refused.message
