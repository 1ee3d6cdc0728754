"""That a pod can never be aligned is told even while its nodes are full."""

from __future__ import annotations

import pytest

from numakube.scheduling.cycle import Refused
from numakube.testing import World, pod

MACHINE = "2 sockets, 4 cores, smt 1, 16Gi"
"""Zones of three and four CPUs."""
NEVER = "cannot align container (cpu: best zone has 4 of 5 even if idle)"


def filled(*nodes: str, size: str = MACHINE) -> World:
    """Return nodes that have no CPU left."""
    world = World()
    for name in nodes:
        world.add_node(name, machine=size)
        for number, cpu in enumerate("34"):
            world.run(pod(f"{name}-{number}", cpu=cpu), name)
    return world


def message(world: World, cpu: str) -> str:
    """Return what users read of a pod that fits nowhere."""
    decision = world.scheduler().decide(pod("new", cpu=cpu))
    assert isinstance(decision, Refused)
    return decision.diagnosis.message()


def test_a_pod_that_no_zone_can_hold_is_told_so_while_nodes_are_full() -> None:
    """In the words that it reads on idle nodes, after kube-scheduler's own."""
    idle = World()
    idle.add_node("a", machine=MACHINE)
    assert f"1 {NEVER}" in message(idle, "5")
    told = message(filled("a", "b"), "5")
    assert told.startswith("0/2 nodes are available: 2 Insufficient cpu. preemption: ")
    assert told.endswith(f" Besides, 2 {NEVER}.")


@pytest.mark.parametrize("cpu", ["3", "4"])
def test_a_pod_that_a_zone_could_hold_reads_nothing_else(cpu: str) -> None:
    """It waits for others to end."""
    told = message(filled("a", "b"), cpu)
    assert told.startswith("0/2 nodes are available: 2 Insufficient cpu.")
    assert "Besides" not in told


def test_a_pod_that_one_of_the_nodes_could_hold_reads_nothing_else() -> None:
    """Whatever the others are like."""
    world = filled("a")
    world.add_node("large", machine="2 sockets, 8 cores, smt 1, 16Gi")
    for number, cpu in enumerate("77"):
        world.run(pod(f"large-{number}", cpu=cpu), "large")
    assert "Besides" not in message(world, "5")
