"""A plan: moves, in steps that each open room on a node, what these cost, and who may be moved.

The cost is restarts: how many, of which priorities, which disruption budgets they use, and how long
they take. That time is what the same pods took from their creation until they were ready, one
after the other; pods for which it is not known are left out.

Moved are pods that a controller makes again elsewhere, as they are. Not moved are daemons and
static pods, pods with local data, so that none is lost, pods that `MOVABLE` or the autoscaler's
annotation keeps where they are, pods of higher priority than the one that needs the room, and pods
that a disruption budget protects, all moves of a plan together.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from numakube.errors import InvalidValue
from numakube.insight.node_groups import stays_with_its_node
from numakube.insight.unknown_zones import blind_nodes, unknown_cordoned
from numakube.scheduling.numa.caches.counts_belief import CountsBelief
from numakube.scheduling.numa.caches.model_belief import ExactBelief
from numakube.scheduling.preemption.victims import budgets_of, split_by_violation
from numakube.scheduling.snapshot.pod_equivalence import scheduling_key
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.values.times import parse_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from numakube.api.pod import Pod
    from numakube.api.workloads import PodDisruptionBudget
    from numakube.insight import ClusterFacts
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.values.resources import Amounts


@dataclass(frozen=True, slots=True)
class Move:
    """A pod that leaves its node for another.

    Attributes:
        pod: ``namespace/name``.
        closed: nodes that are cordoned meanwhile, so that its replacement goes where it should.
    """

    pod: str
    from_node: str
    to_node: str
    closed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MoveStep:
    """The moves that open room on a node, in their order."""

    node: str
    moves: tuple[Move, ...]


@dataclass(slots=True)
class MovePlan:
    """How room is made.

    Attributes:
        wanted: pods that are to fit.
        aligns: the pod that runs and is to be aligned, ``namespace/name``, if the plan is for that.
        nodes: where each of those goes that fit, in order.
        steps: what is moved for them.
        why_not: why the next one does not fit, whatever is moved; empty if all fit.
        is_hopeless: whether that one fits no node, even if all pods left that may.
        takers: pods that wait already and fit then as well: they may come first.
        stranded: what is stranded in the cluster before the moves, if that is to be less.
        stranded_after: what is stranded after them.
    """

    wanted: int
    nodes: list[str] = field(default_factory=list)
    steps: list[MoveStep] = field(default_factory=list)
    why_not: str = ""
    is_hopeless: bool = False
    takers: list[str] = field(default_factory=list)
    aligns: str = ""
    stranded: Amounts | None = None
    stranded_after: Amounts | None = None

    @property
    def moves(self) -> int:
        """How many pods are restarted."""
        return sum(len(step.moves) for step in self.steps)

    @property
    def next(self) -> Move:
        """The first move."""
        return self.steps[0].moves[0]

    def after_next(self) -> MovePlan:
        """Return what is left of the plan after its first move."""
        first, *later = self.steps
        begun = [MoveStep(first.node, first.moves[1:])] if len(first.moves) > 1 else []
        return replace(self, steps=[*begun, *later])


def on_known_zones(
    facts: ClusterFacts, pods: Iterable[Pod], make: Callable[[ClusterFacts], MovePlan]
) -> MovePlan:
    """Return the plan that *make* makes for *pods* without nodes of unknown zones.

    They are cordoned during each move, so that the scheduler sends no pod to where nobody can say
    whether the kubelet takes it.
    """
    known = unknown_cordoned(facts, pods)
    plan, blind = make(known), blind_nodes(facts) if known is not facts else []
    plan.steps = [
        replace(step, moves=tuple(_keeping_off(move, blind) for move in step.moves))
        for step in plan.steps
    ]
    return plan


def _keeping_off(move: Move, nodes: Iterable[str]) -> Move:
    return replace(move, closed=tuple(sorted({*move.closed, *nodes})))


@dataclass(frozen=True, slots=True)
class PlanCosts:
    """What carrying out a plan takes.

    Attributes:
        restarts: pods that are moved.
        priorities: how many of each priority.
        budgets: by ``namespace/name``, how many evictions count against a disruption budget, and
            how many it allows now.
        seconds: how long the restarts take, one after the other, as far as that is known.
    """

    restarts: int
    priorities: Mapping[int, int]
    budgets: Mapping[str, tuple[int, int]]
    seconds: float


def costs_of(plan: MovePlan, facts: ClusterFacts) -> PlanCosts:
    """Return what *plan*, made for *facts*, costs."""
    pods = {one.metadata.key: one for one in facts.pods}
    moved = [pods[move.pod] for step in plan.steps for move in step.moves if move.pod in pods]
    infos = [PodInfo(one) for one in moved]
    budgets: dict[str, tuple[int, int]] = {}
    for key, one in facts.objects.disruption_budgets.items():
        for budget in budgets_of([one]):
            used = sum(map(budget.protects, infos))
            if used:
                budgets[key] = used, budget.allowed
    return PlanCosts(
        restarts=len(moved),
        priorities=dict(sorted(Counter(info.priority for info in infos).items())),
        budgets=budgets,
        seconds=sum(map(_seconds_to_ready, moved)),
    )


def _seconds_to_ready(pod: Pod) -> float:
    """Return how long *pod* took from its creation until it was ready; 0 if that is unknown."""
    conditions = pod.status.conditions if pod.status else ()
    ready = next(
        (
            condition
            for condition in conditions
            if (condition.type, condition.status) == ("Ready", "True")
        ),
        None,
    )
    created = pod.metadata.creation_timestamp
    if ready is None or ready.last_transition_time is None or created is None:
        return 0.0
    try:
        taken = parse_time(ready.last_transition_time) - parse_time(created)
    except InvalidValue:
        return 0.0
    return max(0.0, taken.total_seconds())


MOVABLE: Final = "numakube.dev/movable"
"""Annotation of pods: ``false`` keeps them where they are."""
_BELIEFS: Final = (ExactBelief, CountsBelief)
_SAFE_TO_EVICT: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict"


class MovablePods:
    """Knows who may be moved."""

    def __init__(self, budgets: Iterable[PodDisruptionBudget]) -> None:
        self._budgets = budgets_of(budgets)
        self._places: dict[str, frozenset[int]] = {}

    def on(self, node: NodeInfo, *, priority: int | None = None) -> list[PodInfo]:
        """Return the pods of *node* that may move, for a pod of *priority*; the least first."""
        found = [
            one
            for one in node.pods.values()
            if may_move(one) and (priority is None or one.priority <= priority)
        ]
        return sorted(found, key=lambda one: (one.priority, one.name))

    def places_of(self, pod: PodInfo, node: NodeInfo) -> frozenset[int]:
        """Return the NUMA nodes on which *pod* holds something, as far as that is known.

        Which does not change as long as it stays: it is looked up once.
        """
        if pod.uid not in self._places:
            known = node.numa.places_of(pod.uid) if isinstance(node.numa, _BELIEFS) else frozenset()
            self._places[pod.uid] = known
        return self._places[pod.uid]

    def kind(self, pod: PodInfo, node: NodeInfo) -> object:
        """Return what is equal for pods of *node* that leave the same room and need the same."""
        return scheduling_key(pod), self.places_of(pod, node)

    def within_budgets(self, leaving: Iterable[PodInfo]) -> bool:
        """Tell whether the budgets allow all of *leaving* to go."""
        return not self._budgets or not split_by_violation(leaving, self._budgets)[0]


def may_move(pod: PodInfo) -> bool:
    """Tell whether *pod* may be moved, whatever budgets say."""
    return pod.memo("may-move", lambda _: _may_move(pod))


def _may_move(pod: PodInfo) -> bool:
    meta, volumes = pod.pod.metadata, pod.pod.spec.volumes
    kept = {meta.annotations.get(key) for key in (MOVABLE, _SAFE_TO_EVICT)}
    local = any(volume.empty_dir is not None or volume.host_path is not None for volume in volumes)
    return (
        meta.controller is not None
        and "false" not in kept
        and not local
        and not pod.is_being_deleted
        and not stays_with_its_node(pod)
    )
