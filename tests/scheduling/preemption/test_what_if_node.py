"""A node in thought: pods that are taken away free their zones, pods that will come take theirs."""

from __future__ import annotations

import pytest
from tests.scheduling.preemption.room import PlainFilters

from numakube.scheduling.cycle import Chosen
from numakube.scheduling.framework.cycle_state import CycleState
from numakube.scheduling.preemption.what_if_node import Trial
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing import World, pod


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize(
    ("cpu", "nominated", "fits"),
    [
        ("7", ["4"], True),
        ("7", ["7"], True),
        ("7", ["8"], True),
        ("8", ["7"], True),
        ("8", ["8"], False),
        ("8", ["3", "3"], True),
        ("7", ["4", "4"], False),
        ("4", ["7", "5"], False),
    ],
)
def test_a_nominated_pod_takes_its_zone_once(
    cpu: str, nominated: list[str], fits: bool, plain: bool
) -> None:
    """Whether the plugins see to that or leave it to us; zones have 7 and 8 free CPUs."""
    world = World()
    world.add_node("n0")
    deciding = world.scheduler()
    one = PodInfo(pod("new", cpu))
    decision = deciding.decide(one.pod)
    assert isinstance(decision, Chosen)
    node = deciding.engine.cluster.node("n0")
    assert node is not None
    runtime = PlainFilters() if plain else deciding.runtime
    state = CycleState() if plain else decision.state
    others = [
        PodInfo(pod(f"nominated-{number}", wanted, priority=9))
        for number, wanted in enumerate(nominated)
    ]
    assert Trial(runtime, state, one, node, nominated=others).verdict().ok is fits
    assert Trial(runtime, state, one, node).verdict().ok
