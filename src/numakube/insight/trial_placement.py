"""What would become of pods now: places them on an engine that is in use, and takes them off again.

Unlike `numakube.insight.how_many_fit` this leaves the engine as it was, so that a scheduler can
answer with its own state between two cycles.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from numakube.insight.how_many_fit import FirstOfEquals, book
from numakube.scheduling.cycle import Chosen, Cycle
from numakube.scheduling.numa.caches.model_belief import ExactBelief
from numakube.scheduling.numa.topology_match import pending_changes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numakube.api.nodes import Node
    from numakube.api.nrt import NodeResourceTopology
    from numakube.scheduling.assembly import Engine
    from numakube.scheduling.numa.caches.mispredictions import Refusal, ZoneUse
    from numakube.scheduling.snapshot.pods import PodInfo


@dataclass(frozen=True, slots=True)
class Trial:
    """What would become of one pod.

    Attributes:
        node: where it would go; empty if nowhere.
        use: what it would hold there, by NUMA node, if that can be foreseen.
        reason: why it would go nowhere.
    """

    pod: PodInfo
    node: str = ""
    use: ZoneUse | Refusal | None = None
    reason: str = ""


def try_pods(
    engine: Engine,
    pods: Iterable[PodInfo],
    *,
    besides: Sequence[tuple[Node, NodeResourceTopology]] = (),
    alike: bool = False,
) -> list[Trial]:
    """Return what would become of *pods*, one after the other; the engine stays as it is.

    Args:
        engine: decides.
        pods: each counts on the room that those before it leave.
        besides: nodes that do not exist, with their reports.
        alike: whether pods that are all alike end with the first that does not fit.
    """
    cycle = Cycle(engine.cluster, engine.nominations, FirstOfEquals())
    found: list[Trial] = []
    with ExitStack() as stack:
        for node, report in besides:
            stack.enter_context(_added(engine, node, report))
        for pod in pods:
            runtime = engine.runtime_for(pod.scheduler_name)
            decision = cycle.decide(pod, runtime)
            if isinstance(decision, Chosen):
                found.append(stack.enter_context(_booked(engine, pod, decision)))
            else:
                found.append(Trial(pod, reason=decision.why))
            if alike and not found[-1].node:
                break
    return found


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
    runtime, state = engine.runtime_for(pod.scheduler_name), chosen.state
    status = book(engine, runtime, state, pod, chosen.node)
    node = engine.cluster.node(chosen.node)
    if node is None or not status.ok:
        yield Trial(pod, reason=f"{status.plugin}: {status.message}")
        return
    belief = node.numa
    use = belief.foreseen.get(pod.uid) if isinstance(belief, ExactBelief) else None
    try:
        yield Trial(pod, node.name, use)
    finally:
        runtime.unreserve(state, pod, node.name)
        engine.cluster.take(pending_changes(state), engine.cache)
        engine.cluster.remove_pod(pod.uid)
