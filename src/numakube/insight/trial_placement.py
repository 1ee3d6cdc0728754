"""What would become of pods now: places them on an engine that is in use, and takes them off again.

Unlike `numakube.insight.how_many_fit` this leaves the engine as it was, so that a scheduler can
answer with its own state between two cycles.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from numakube.insight.how_many_fit import EngineBooks, FirstOfEquals
from numakube.scheduling.cycle import Chosen, Cycle, Refused
from numakube.scheduling.framework.state import CycleState
from numakube.scheduling.numa.caches.model_belief import ExactBelief
from numakube.scheduling.plugins.gang_scheduling.gang_plugin import GANG_DOMAIN, domains_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numakube.api.nodes import Node
    from numakube.api.nrt import NodeResourceTopology
    from numakube.scheduling.assembly import Engine
    from numakube.scheduling.framework.plugins import Nomination
    from numakube.scheduling.numa.caches.mispredictions import Refusal, ZoneUse
    from numakube.scheduling.plugins.gang_scheduling.gang_plugin import Domain
    from numakube.scheduling.plugins.gang_scheduling.pod_gangs import Gang
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


def try_gang(
    engine: Engine,
    pods: Sequence[PodInfo],
    gang: Gang,
    *,
    besides: Sequence[tuple[Node, NodeResourceTopology]] = (),
    preempting: bool = False,
) -> list[Trial]:
    """Return what would become of the members of *gang*: in one topology domain if it asks for one.

    Of several domains that is the first that takes all, or else one that takes the most.
    """
    best: list[Trial] = []
    key = gang.required_topology or gang.preferred_topology
    values = domains_of(engine.cluster.snapshot(), key) if key else {}
    domains: list[Domain | None] = [(key, one) for one in sorted(values)]
    for domain in (*domains, *(() if gang.required_topology else (None,))):
        found = try_pods(engine, pods, besides=besides, preempting=preempting, domain=domain)
        best = max(best, found, key=lambda one: sum(bool(trial.node) for trial in one))
        if all(one.node for one in found):
            return found
    return best or [Trial(one, reason=f"no node has the label {key}") for one in pods]


def try_pods(
    engine: Engine,
    pods: Iterable[PodInfo],
    *,
    besides: Sequence[tuple[Node, NodeResourceTopology]] = (),
    alike: bool = False,
    preempting: bool = False,
    domain: Domain | None = None,
) -> list[Trial]:
    """Return what would become of *pods*, one after the other; the engine stays as it is.

    Args:
        engine: decides.
        pods: each counts on the room that those before it leave.
        besides: nodes that do not exist, with their reports.
        alike: whether pods that are all alike end with the first that does not fit.
        preempting: whether pods that fit only after evictions count as placed.
        domain: only nodes with this label are tried.
    """
    cycle = Cycle(engine.cluster, engine.nominations, FirstOfEquals())
    found: list[Trial] = []
    with ExitStack() as stack:
        for node, report in besides:
            stack.enter_context(_added(engine, node, report))
        for pod in pods:
            runtime = engine.runtime_for(pod.scheduler_name)
            decision = cycle.decide(pod, runtime, _inside(domain))
            if isinstance(decision, Chosen):
                found.append(stack.enter_context(_booked(engine, pod, decision)))
            elif preempting and isinstance(decision, Refused) and decision.nomination is not None:
                found.append(stack.enter_context(_promised(engine, pod, decision.nomination)))
            else:
                found.append(Trial(pod, reason=decision.why))
            if alike and not found[-1].node:
                break
    return found


def _inside(domain: Domain | None) -> CycleState | None:
    if domain is None:
        return None
    state = CycleState()
    state.write(GANG_DOMAIN, domain)
    return state


@contextmanager
def _promised(engine: Engine, pod: PodInfo, nomination: Nomination) -> Iterator[Trial]:
    """Keep others off the room that evictions would make."""
    engine.nominations.nominate(pod, nomination.node)
    try:
        yield Trial(pod, nomination.node, victims=tuple(nomination.victims))
    finally:
        engine.nominations.drop(pod.uid)


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


@contextmanager
def _booked(engine: Engine, pod: PodInfo, chosen: Chosen) -> Iterator[Trial]:
    books = EngineBooks(engine)
    status = books.reserve(pod, chosen)
    node = engine.cluster.node(chosen.node)
    if node is None or not status.ok:
        yield Trial(pod, reason=f"{status.plugin}: {status.message}")
        return
    belief = node.numa
    use = belief.foreseen.get(pod.uid) if isinstance(belief, ExactBelief) else None
    try:
        yield Trial(pod, node.name, use)
    finally:
        books.give_back(pod, chosen)
