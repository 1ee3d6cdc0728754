"""A refusal that is not looked into again is what a new look would say."""

from __future__ import annotations

from random import Random

import pytest
from tests.scheduling.test_nominated_verdicts import engine_of_nodes

from numakube.scheduling.assembly import Engine
from numakube.scheduling.cycle import Chosen, Cycle, FirstOfEquals, Refused
from numakube.scheduling.framework.cycle_state import CycleState
from numakube.scheduling.framework.diagnosis import Diagnosis
from numakube.scheduling.known_refusals import KnownRefusals
from numakube.scheduling.plugins.rejection_guard import NODE_SECONDS
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing import pod


def cycle_of(engine: Engine) -> Cycle:
    """Return a cycle that remembers nothing yet."""
    return Cycle(engine.cluster, engine.nominations, FirstOfEquals())


def what_of(decision: object) -> object:
    """Return all of a decision that anybody reads; where room is made changes from time to time."""
    if isinstance(decision, Refused):
        diagnosis, evicts = decision.diagnosis, decision.nomination is not None
        return evicts or diagnosis.message(), diagnosis.plugins(), diagnosis.statuses()
    assert isinstance(decision, Chosen)
    return decision.node


@pytest.mark.parametrize("priorities", [1, 2])
def test_while_pods_come_and_go(priorities: int) -> None:
    """Room is made before each look, mostly on nodes that stay too full."""
    engine, rng = engine_of_nodes(), Random(priorities)
    (runtime,) = engine.runtimes.values()
    nodes, lasting = sorted(engine.cluster.row_of), cycle_of(engine)
    leaving = PodInfo(pod("leaving", cpu="1", priority=priorities))
    held = 0
    for step in range(70):
        number = rng.randrange(40)
        one = PodInfo(pod(f"p{number}", cpu=str(1 + number % 6), priority=number % priorities))
        engine.cluster.remove_pod(one.uid)
        for come in (one, leaving)[rng.random() < 0.2 :]:
            engine.cluster.place(come, rng.choice(nodes))
        engine.cluster.remove_pod(leaving.uid)
        for cpu in ("3", "5", "7", "40"):
            asked = PodInfo(pod(f"asked{step}", cpu=cpu, priority=priorities - 1))
            found = lasting.decide(asked, runtime)
            assert what_of(found) == what_of(cycle_of(engine).decide(asked, runtime))
            held += isinstance(found, Refused) and found.remembered
    assert (held > 40) == (priorities == 1)


def test_a_node_that_rejected_a_pod_is_tried_again_when_its_time_is_over() -> None:
    """Nothing else need happen: time alone makes such a refusal void."""
    engine = engine_of_nodes()
    (runtime,) = engine.runtimes.values()
    cycle = cycle_of(engine)
    for node in engine.cluster.nodes():
        rejected = PodInfo(pod(f"on-{node.name}", cpu="2", node_name=node.name))
        assert node.numa is not None
        engine.guard.rejected(rejected, 0.0, report=node.numa.topology)
    again = PodInfo(pod("again", cpu="2"))

    refused = cycle.decide(again, runtime)
    engine.guard.advance(NODE_SECONDS + 1)
    decision = cycle.decide(again, runtime)

    assert isinstance(refused, Refused)
    assert isinstance(decision, Chosen)


def test_room_that_was_kept_for_others_is_found_when_it_is_given_back() -> None:
    """Though no node has changed."""
    engine = engine_of_nodes()
    (runtime,) = engine.runtimes.values()
    cycle, asked = cycle_of(engine), PodInfo(pod("asked", cpu="2"))
    kept = {f"{node}-{one}": node for node in engine.cluster.row_of for one in range(8)}
    for name, node in kept.items():
        engine.nominations.nominate(PodInfo(pod(name, cpu="2")), node)
    refused = cycle.decide(asked, runtime)
    for name in kept:
        engine.nominations.drop(PodInfo(pod(name, cpu="2")).uid)

    assert isinstance(refused, Refused)
    assert isinstance(cycle.decide(asked, runtime), Chosen)


def test_what_is_remembered_is_bounded_by_the_nodes_of_all_refusals() -> None:
    """Refusals by large clusters take more memory, so that fewer are kept; of none, many are."""
    engine = engine_of_nodes()
    (runtime,) = engine.runtimes.values()
    for total, kept in ((400_000, 1), (0, 4)):
        known = KnownRefusals(engine.cluster, engine.nominations)
        asked = [PodInfo(pod(f"asked{number}", cpu=str(20 + number))) for number in range(4)]
        for one in asked:
            known.put(one, Diagnosis(total=total), CycleState())
        assert sum(known.get(one, runtime) is not None for one in asked) == kept
