"""Gangs in a simulation: what the scheduler would bind together runs, and nothing else does."""

from __future__ import annotations

from typing import Any

import pytest
from packages.planning.tests.simulation.test_simulator import _cluster, _come, _run, _workload

from numakube.api.pod import Pod
from numakube.errors import ConfigError, MalformedObject
from numakube.insight.node_setup import nodes_of_kinds
from numakube.scheduling.plugins.pod_gangs import DISRUPTION_MODE, MIN_LABEL, NAME_LABEL
from numakube.testing.pods import pod
from numakube_planning.simulation.compared_schedulers import scheduler_arm
from numakube_planning.simulation.simulated_cluster import SimulatedCluster
from numakube_planning.simulation.simulator import Run, SimulatorOptions
from numakube_planning.simulation.workload import (
    Arrival,
    ArrivingWork,
    OwnerKind,
    workload_of_mix,
)


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


NODES = "32x 1 socket, 8 cores, smt 1, 16Gi, nvidia.com/gpu 4; ; rack=4,block=8"


def mix(**asked: str) -> ArrivingWork:
    """Return a gang, then small pods on half of the nodes, then more gangs."""
    gang = {
        "name": "train",
        "pods": 4,
        "gang": 4,
        "annotations": asked,
        "requests": {"cpu": 6, "memory": "1Gi", "nvidia.com/gpu": 4},
    }
    small = {"name": "clean", "pods": 12, "requests": {"cpu": 6, "memory": "1Gi"}}
    later = [{**small, "arrivals": {"at": "5s"}}, {**gang, "count": 4, "arrivals": {"at": "10s"}}]
    return workload_of_mix({"workloads": [gang, *later]}, "mix", 1)


def gangs_that_run(arm: str) -> int:
    """Return how many of five gangs get a rack each."""
    cluster = SimulatedCluster(nodes=nodes_of_kinds([NODES]))
    asked = {"numakube.dev/gang-topology": "rack"}
    run = Run(cluster, scheduler_arm(arm), 1, SimulatorOptions())
    run.play(mix(**asked))
    rack_of = {node.name: node.labels["rack"] for node in cluster.nodes}
    racks: dict[str, list[str]] = {}
    for name, node in run.fates().items():
        if name.startswith("train"):
            racks.setdefault(name.rpartition("-")[0], []).append(rack_of.get(node, ""))
    assert all(len(set(found)) == 1 and len(found) == 4 for found in racks.values())
    return sum(found[0] != "" for found in racks.values())


def test_what_protection_is_worth_is_an_arm() -> None:
    """Twelve small pods break three racks of eight, and every rack without protection."""
    assert gangs_that_run("numakube") == 5
    assert gangs_that_run("numakube:without-DomainProtection") < 5


def test_domains_are_runs_of_nodes() -> None:
    labels = [node.labels for node in nodes_of_kinds([NODES])]
    assert [one["rack"] for one in labels[3:5]] == ["a-0", "a-1"]
    assert [one["block"] for one in labels[7:9]] == ["a-0", "a-1"]
    with pytest.raises(ConfigError, match="'rack=0' is not a node label and how many nodes share"):
        nodes_of_kinds(["4x 1 socket, 8 cores, 16Gi; ; rack=0"])


def test_an_arm_without_an_unknown_plugin_is_refused() -> None:
    with pytest.raises(ConfigError, match="has no plugin 'GangSchedulin'; did you mean Gang"):
        scheduler_arm("numakube:without-GangSchedulin")


def test_a_gang_of_more_pods_than_it_has_is_refused() -> None:
    entry = {"name": "g", "pods": 2, "gang": 3, "requests": {"cpu": 1}}
    with pytest.raises(MalformedObject, match=r"gang: 3 is not between 0 and its 2 pods"):
        workload_of_mix({"workloads": [entry]}, "mix", 1)
