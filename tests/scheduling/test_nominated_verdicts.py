"""What nominated pods leave to others is remembered for pods that are alike, and never wrong."""

from __future__ import annotations

from random import Random

from numakube.insight.scheduler_engine import BindsNothing
from numakube.scheduling.assembly import Engine, all_plugins, assemble, default_configuration
from numakube.scheduling.cycle import Attempt, Chosen, Cycle, FirstOfEquals
from numakube.scheduling.framework.nominations import Nominations
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.simulation.node_kinds import nodes_of_kinds
from numakube.simulation.virtual_node import NodeFactory
from numakube.testing import pod

NODES = "6x 2 sockets, 4 cores, smt 1, 16Gi; policy=single-numa-node"


class Forgetful(Nominations):
    """Remembers no verdict."""

    def verdict(self, kind: bytes, node: str, state: object) -> None:
        """Know nothing."""
        del kind, node, state


def engine_of_nodes() -> Engine:
    """Return an engine that knows a few empty nodes."""
    engine = assemble(default_configuration(), all_plugins(BindsNothing.make))
    factory = NodeFactory({})
    for plan in nodes_of_kinds([NODES]):
        node = factory.make(plan)
        engine.cluster.set_node(node.object)
        report = node.report(1, exact=True)
        engine.cluster.take(engine.cache.set_report(report), engine.cache)
    return engine


def feasible(engine: Engine, asked: PodInfo, nominations: Nominations) -> list[int]:
    """Return the rows that are left for a pod."""
    runtime = next(iter(engine.runtimes.values()))
    attempt = Attempt(runtime, asked, engine.cluster.snapshot(), nominations)
    rows: list[int] = attempt.feasible_rows().tolist()
    return rows


def test_remembered_verdicts_are_what_a_new_look_would_say() -> None:
    """While pods are nominated, placed and taken off in any order."""
    engine, rng = engine_of_nodes(), Random(7)
    nodes = sorted(engine.cluster.row_of)
    remembering, forgetful = engine.nominations, Forgetful()
    refused = 0
    for step in range(80):
        number, node = rng.randrange(12), rng.choice(nodes)
        one = PodInfo(pod(f"p{number}", cpu=str(1 + number % 3), priority=number % 2))
        change = rng.randrange(5)
        for some in (remembering, forgetful):
            if change < 2:
                some.nominate(one, node)
            elif change == 2:
                some.drop(one.uid)
        if change > 2:
            engine.cluster.remove_pod(one.uid)
        if change > 3:
            engine.cluster.place(one, node)
        for cpu in ("2", "3"):
            asked = PodInfo(pod(f"asked{step}", cpu=cpu))
            found = feasible(engine, asked, remembering)
            assert found == feasible(engine, asked, forgetful)
            refused += len(found) < len(nodes)
    assert refused > 10


def test_a_pod_takes_its_own_room_while_its_like_is_refused() -> None:
    """Room on the only node is kept for one of two pods that are alike."""
    engine = engine_of_nodes()
    runtime = next(iter(engine.runtimes.values()))
    cycle = Cycle(engine.cluster, engine.nominations, FirstOfEquals())
    for number, node in enumerate(sorted(engine.cluster.row_of)):
        for place in range(2):
            engine.nominations.nominate(PodInfo(pod(f"k{number}-{place}", cpu="3")), node)
    mine = PodInfo(pod("k0-0", cpu="3"))

    assert not isinstance(cycle.decide(PodInfo(pod("other", cpu="3")), runtime), Chosen)
    decision = cycle.decide(mine, runtime)

    assert isinstance(decision, Chosen)
    assert decision.node == min(engine.cluster.row_of)
