"""Gangs in a simulation: what the scheduler would bind together runs, and nothing else does."""

from __future__ import annotations

from typing import Any

from packages.planning.tests.simulation.test_simulator import _cluster, _come, _run, _workload

from numakube.api.pod import Pod
from numakube.scheduling.plugins.pod_gangs import DISRUPTION_MODE, MIN_LABEL, NAME_LABEL
from numakube.testing.pods import pod
from numakube_planning.simulation.compared_schedulers import scheduler_arm
from numakube_planning.simulation.simulator import Run, SimulatorOptions
from numakube_planning.simulation.workload import Arrival, OwnerKind


def member(name: str, least: int, cpu: str = "6", gang: str = "g", **more: Any) -> Pod:
    """Return a member of a gang; a node takes two of six CPUs."""
    return pod(name, cpu=cpu, labels={NAME_LABEL: gang, MIN_LABEL: str(least)}, **more)


def fates(*arrivals: Arrival, nodes: int = 1) -> dict[str, str]:
    """Return what becomes of pods that come."""
    run = Run(_cluster(nodes), scheduler_arm("numakube"), 1, SimulatorOptions())
    run.play(_workload(*arrivals))
    return {name.partition("-")[0]: fate for name, fate in run.fates().items()}


def test_no_member_runs_where_the_gang_does_not_fit() -> None:
    """One node takes two of three; that is said of each of them."""
    names = ("a", "b", "c")
    arrivals = [_come(member(name, 3)) for name in names]
    assert fates(*arrivals) == dict.fromkeys(names, "Pending")
    result = _run(_workload(*arrivals))
    assert result.bound == 0
    assert any("gang default/g: 2 of 3 needed pods fit" in why for why in result.unplaced)


def test_a_gang_waits_for_its_last_member() -> None:
    """Nothing of it is bound before that one comes; a pod on its own goes first."""
    first = [_come(member(name, 2)) for name in "a"]
    came = fates(*first, _come(pod("alone", cpu="6"), 1.0), _come(member("b", 2), 2.0), nodes=2)
    assert all(node.startswith("node-") for node in came.values())
    assert fates(*first) == {"a": "Pending"}


def test_members_beyond_the_minimum_run_as_far_as_there_is_room() -> None:
    came = fates(*(_come(member(name, 1)) for name in "abc"))
    assert sorted(came.values()) == ["Pending", "node-0", "node-0"]


def test_a_gang_evicts_only_what_all_of_its_needed_members_need() -> None:
    """Two of a higher priority take two nodes; three would take more than there is."""
    low = [_come(pod(f"low{n}", cpu="6", priority=0), owner=OwnerKind.POD) for n in range(4)]
    high = [_come(member(f"h{n}", 2, priority=9), 5.0) for n in range(2)]
    result = _run(_workload(*low, *high), nodes=2)
    assert result.evictions == 2
    assert result.ran == 6
    many = [_come(member(f"h{n}", 5, priority=9), 5.0) for n in range(5)]
    assert _run(_workload(*low, *many), nodes=2).evictions == 0


def test_gangs_that_are_evicted_together_go_together() -> None:
    """One place is needed, and the whole gang that held it has to go."""
    mode = {DISRUPTION_MODE: "all"}
    low = [
        _come(member(f"l{n}", 2, annotations=mode, priority=0), owner=OwnerKind.POD)
        for n in range(2)
    ]
    result = _run(_workload(*low, _come(pod("high", cpu="6", priority=9), 5.0)))
    assert result.evictions == 2


def test_a_gang_of_which_too_few_run_is_evicted_after_its_time() -> None:
    """A member is evicted for good; ten minutes later the other goes as well."""
    low = [
        _come(member(f"l{n}", 2, priority=0), owner=OwnerKind.POD, seconds=None) for n in range(2)
    ]
    result = _run(_workload(*low, _come(pod("high", cpu="6", priority=9), 5.0)))
    assert result.evictions == 2
