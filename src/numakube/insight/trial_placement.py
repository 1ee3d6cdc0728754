"""What would become of pods now: places them on an engine that is in use, and takes them off again.

Unlike `numakube.insight.how_many_fit` this leaves the engine as it was, so that a scheduler can
answer with its own state between two cycles.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from numakube.insight.how_many_fit import EngineBooks
from numakube.scheduling.cycle import Chosen, Cycle, FirstOfEquals, Refused
from numakube.scheduling.gang_planning import GangPlanner
from numakube.scheduling.numa.caches.model_belief import ExactBelief

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numakube.api.nodes import Node
    from numakube.api.nrt import NodeResourceTopology
    from numakube.scheduling.assembly import Engine
    from numakube.scheduling.framework.plugins import Nomination
    from numakube.scheduling.gang_planning import GangRequest
    from numakube.scheduling.numa.caches.mispredictions import Refusal, ZoneUse
    from numakube.scheduling.snapshot.pods import PodInfo


@dataclass(frozen=True, slots=True)
class Trial:
    """Where one pod would go.

    Attributes:
        node: where it would go; empty if nowhere.
        use: what it would hold there, by NUMA node, if that can be predicted.
        reason: why no node takes it.
        victims: pods that would be evicted for it.
    """

    pod: PodInfo
    node: str = ""
    use: ZoneUse | Refusal | None = None
    reason: str = ""
    victims: tuple[PodInfo, ...] = ()


class Trials:
    """Pods that are placed to see where they would go, each beside those before it."""

    def __init__(self, engine: Engine, until: ExitStack, *, preempting: bool) -> None:
        self._engine = engine
        self._until = until
        self._preempting = preempting
        self._cycle = Cycle(engine.cluster, engine.nominations, FirstOfEquals())

    def pods(self, pods: Iterable[PodInfo], *, alike: bool = False) -> list[Trial]:
        """Place single pods; those that are all *alike* end with the first that does not fit."""
        found: list[Trial] = []
        for pod in pods:
            found.append(self._pod(pod))
            if alike and not found[-1].node:
                break
        return found

    def gang(self, request: GangRequest) -> list[Trial]:
        """Place the members of a gang, or none of them, by the scheduler's own plan."""
        planner = GangPlanner(self._engine, EngineBooks(self._engine))
        plan = planner.plan(request, may_evict=self._preempting)
        if plan.fitting < request.needed:
            why = plan.why_not(request)
            return [Trial(pod, reason=why) for pod in request.pods]
        self._until.callback(planner.undo, plan)
        return [
            *(self._placed(pod, chosen.node) for pod, chosen in plan.placements),
            *(_evicting(pod, nomination) for pod, nomination in plan.nominations),
            *(Trial(pod, reason=refused.why) for pod, refused in plan.refused),
        ]

    def _pod(self, pod: PodInfo) -> Trial:
        engine = self._engine
        decision = self._cycle.decide(pod, engine.runtime_for(pod.scheduler_name))
        if isinstance(decision, Chosen):
            books = EngineBooks(engine)
            status = books.reserve(pod, decision)
            if not status.ok:
                return Trial(pod, reason=f"{status.plugin}: {status.message}")
            self._until.callback(books.give_back, pod, decision)
            return self._placed(pod, decision.node)
        if self._preempting and isinstance(decision, Refused) and decision.nomination is not None:
            # Others must not count on the room that evictions would make.
            engine.nominations.nominate(pod, decision.nomination.node)
            self._until.callback(engine.nominations.drop, pod.uid)
            return _evicting(pod, decision.nomination)
        return Trial(pod, reason=decision.why)

    def _placed(self, pod: PodInfo, name: str) -> Trial:
        node = self._engine.cluster.node(name)
        belief = node.numa if node is not None else None
        use = belief.foreseen.get(pod.uid) if isinstance(belief, ExactBelief) else None
        return Trial(pod, name, use)


@contextmanager
def trying(
    engine: Engine,
    *,
    besides: Sequence[tuple[Node, NodeResourceTopology]] = (),
    preempting: bool = False,
) -> Iterator[Trials]:
    """Try pods on an engine that stays as it is.

    Args:
        engine: decides.
        besides: nodes that do not exist, with their reports.
        preempting: whether pods that fit only after evictions count as placed.
    """
    with ExitStack() as stack:
        for node, report in besides:
            stack.enter_context(_added(engine, node, report))
        yield Trials(engine, stack, preempting=preempting)


def _evicting(pod: PodInfo, nomination: Nomination) -> Trial:
    return Trial(pod, nomination.node, victims=tuple(nomination.victims))


@contextmanager
def _added(engine: Engine, node: Node, report: NodeResourceTopology) -> Iterator[None]:
    name = node.metadata.name
    engine.cluster.set_node(node)
    engine.cluster.take(engine.cache.set_report(report), engine.cache)
    try:
        yield
    finally:
        engine.cluster.take(engine.cache.remove_report(name), engine.cache)
        engine.cluster.remove_node(name)
