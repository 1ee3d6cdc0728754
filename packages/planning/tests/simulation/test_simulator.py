"""A run in virtual time: what becomes of pods under the real scheduler and kubelet models."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from numakube.api.meta import OwnerReference
from numakube.api.pod import Pod
from numakube.insight.node_setup import NodeSetup
from numakube.kubelet.config_from_words import lab_configuration
from numakube.kubelet.machines.shape_text import from_shape
from numakube.testing.pods import pod, running
from numakube_planning.simulation.compared_schedulers import SCHEDULERS, Arm, scheduler_arm
from numakube_planning.simulation.run_measures import RunResult
from numakube_planning.simulation.simulated_cluster import RunningPod, SimulatedCluster
from numakube_planning.simulation.simulator import SimulatorOptions, simulate
from numakube_planning.simulation.workload import Arrival, ArrivingWork, OwnerKind

SHAPE = "2 sockets, 4 cores, smt 2, 16Gi, gpu 2"
"""Two NUMA nodes with 8 CPUs each; the first keeps two for the system."""
BLIND = "least-allocated"


def _cluster(nodes: int = 1, *, words: str = "", present: tuple[RunningPod, ...] = ()) -> Any:
    machine = from_shape(SHAPE)
    told = dict(one.split("=") for one in words.split(",") if one)
    config = lab_configuration(machine, told)
    made = (
        NodeSetup(name=f"node-{number}", machine=machine, config=config) for number in range(nodes)
    )
    return SimulatedCluster(nodes=tuple(made), running=present)


def _workload(*arrivals: Arrival) -> ArrivingWork:
    return ArrivingWork(arrivals=arrivals)


def _come(one: Pod, at: float = 0.0, **more: Any) -> Arrival:
    return Arrival(at=at, pod=one, **more)


def _mix(seed: int, count: int = 15) -> ArrivingWork:
    """Return pods of several kinds, some of which end."""
    rng = np.random.default_rng(seed)
    arrivals = []
    for number in range(count):
        cpus, gpus = int(rng.integers(1, 7)), int(rng.integers(0, 3))
        arrivals.append(
            Arrival(
                at=float(rng.integers(0, 200)) / 10,
                pod=pod(f"p{number}", cpu=str(cpus), gpu=gpus, priority=int(rng.integers(0, 2))),
                copies=int(rng.integers(1, 3)),
                owner=list(OwnerKind)[int(rng.integers(0, 3))],
                seconds=float(rng.integers(5, 90)) if rng.random() < 0.5 else None,
                together=bool(rng.random() < 0.2),
            )
        )
    return _workload(*sorted(arrivals, key=lambda arrival: arrival.at))


def _run(workload: ArrivingWork, arm: str | Arm = "numakube", **more: Any) -> RunResult:
    cluster = more.pop("cluster", None) or _cluster(more.pop("nodes", 1))
    chosen = scheduler_arm(arm) if isinstance(arm, str) else arm
    return simulate(cluster, workload, chosen, **more)


@pytest.mark.parametrize("arm", SCHEDULERS)
def test_equal_input_gives_equal_bytes_and_no_pod_is_lost(arm: str) -> None:
    """Equal input gives equal bytes, and every pod and every binding is accounted for."""
    first, again = (_run(_mix(3), arm, nodes=2, seed=5) for _ in range(2))
    assert msgspec.json.encode(first) == msgspec.json.encode(again)
    rejected = sum(first.rejections.values())
    last = first.moments[-1]
    assert first.pods == first.ran + first.never_placed
    assert first.bound - rejected >= first.ran
    assert last.running == sum(first.pods_by_node)
    assert last.rejected == rejected
    assert all(0 <= share <= 1 for share in first.peak_allocated.values())
    assert first.given_up <= first.never_placed
    assert first.aligned <= first.alignable <= first.bound - rejected


def test_a_blind_scheduler_meets_rejections_that_ours_avoids() -> None:
    """A NUMA-blind scheduler meets rejections, in the kubelet's words, that ours avoids."""
    pods = _workload(*(_come(pod(name, cpu="5")) for name in "ab"), _come(pod("c", cpu="4"), 1.0))
    blind, ours = _run(pods, BLIND), _run(pods)
    # 5 + 5 of 6 + 8 CPUs leave 1 and 3: 4 in all, but on no NUMA node.
    assert blind.rejections == {"TopologyAffinityError": 20}
    assert (blind.never_placed, blind.given_up, blind.first_refused) == (1, 1, 1)
    assert blind.topology_errors_per_1000 == pytest.approx(1000 * 20 / 22)
    assert (ours.rejections, ours.never_placed, ours.given_up) == ({}, 1, 0)
    assert ours.aligned == ours.alignable == 2


def test_a_kubelet_admits_what_it_rejected_once_there_is_room() -> None:
    """A pod that comes again and again is rejected until another one ends, and then admitted."""
    pods = _workload(
        *(_come(pod(name, cpu="5"), seconds=3.0) for name in "ab"), _come(pod("c", cpu="4"), 1.0)
    )
    result = _run(pods, BLIND)
    assert (result.ran, result.given_up) == (3, 0)
    assert 5 < result.rejections["TopologyAffinityError"] < 12


def test_a_pod_runs_as_soon_as_another_has_ended() -> None:
    """A waiting pod runs as soon as another one has ended."""
    pods = _workload(
        _come(pod("a", cpu="8"), seconds=100.0), _come(pod("b", cpu="8"), 1.0, seconds=10.0)
    )
    result = _run(pods)
    assert (result.ran, result.never_placed, result.rejections) == (2, 0, {})
    assert 99.0 < result.seconds_to_run["p99"] < 101.0
    assert result.ended_at == pytest.approx(110.4, abs=1.0)
    assert result.allocated["cpu"] == 0.0
    assert result.peak_allocated["cpu"] == pytest.approx(8 / 14, abs=1e-4)


@pytest.mark.parametrize(
    ("owner", "rejections", "until"),
    [(OwnerKind.POD, 1, 0.3), (OwnerKind.REPLICA_SET, 7, 2.0), (OwnerKind.JOB, 4, 70.9)],
)
def test_owners_replace_rejected_pods_each_in_its_own_way(
    owner: OwnerKind, rejections: int, until: float
) -> None:
    """A ReplicaSet replaces a rejected pod at once, a Job with growing pauses, nobody not at all.

    A Job with a limit of 3 pauses for 10, 20 and 40 seconds.
    """
    big = pod("big", cpu="9")
    result = _run(
        _workload(_come(big, owner=owner, backoff_limit=3)),
        BLIND,
        options=SimulatorOptions(most_rejections=7),
    )
    assert result.rejections == {"TopologyAffinityError": rejections}
    assert (result.never_placed, result.given_up) == (1, 1)
    assert result.ended_at == pytest.approx(until, abs=0.4)


def test_a_gang_works_when_all_of_it_runs() -> None:
    """The life time of a gang counts from the moment when all its pods run."""
    first = _come(pod("first", cpu="8"), seconds=50.0)
    gang = _come(
        pod("gang", cpu="4"), 1.0, copies=3, owner=OwnerKind.JOB, seconds=10.0, together=True
    )
    result = _run(_workload(first, gang))
    # 14 CPUs: one of the gang beside the first pod, the others 50 s later.
    assert result.ran == 4
    assert result.ended_at == pytest.approx(60.5, abs=0.5)
    alone = _come(pod("gang", cpu="4"), 1.0, copies=3, owner=OwnerKind.JOB, seconds=10.0)
    assert _run(_workload(alone)).ended_at == pytest.approx(11.3, abs=0.5)


def test_a_pod_of_higher_priority_evicts_one_that_is_then_replaced() -> None:
    """A pod of higher priority evicts another, whose owner makes a new one that waits."""
    low = _come(pod("low", cpu="8"))
    high = _come(pod("high", cpu="8", priority=10), 5.0, seconds=30.0)
    result = _run(_workload(low, high))
    assert (result.evictions, result.rejections) == (1, {})
    assert result.ran == 2
    assert result.moments[-1].running == 1
    assert result.bound == 3


def test_what_runs_at_the_beginning_holds_its_place() -> None:
    """Pods that run at the beginning stay where they are, and leave the room that they leave."""
    there = tuple(RunningPod(pod=running(pod(n, cpu="5"), "node-0"), node="node-0") for n in "ab")
    result = _run(_workload(_come(pod("c", cpu="4"))), cluster=_cluster(2, present=there))
    assert (result.pods, result.ran) == (1, 1)
    assert result.pods_by_node == (2, 1)


def test_a_stricter_policy_rejects_what_runs_and_its_owner_replaces_it() -> None:
    """Under another policy a kubelet rejects a running pod, which then has to go elsewhere."""
    wide = pod("wide", cpu="10")
    owner = OwnerReference(
        api_version="apps/v1", kind="ReplicaSet", name="wide", uid="rs", controller=True
    )
    owned = msgspec.structs.replace(
        wide, metadata=msgspec.structs.replace(wide.metadata, owner_references=(owner,))
    )
    there = (RunningPod(pod=running(owned, "node-0"), node="node-0"),)
    cluster = _cluster(words="policy=best-effort", present=there)
    assert _run(_workload(), cluster=cluster).pods_by_node == (1,)
    strict = scheduler_arm("numakube")
    arm = Arm(
        name="strict",
        scheduler=strict.scheduler,
        reports=strict.reports,
        kubelet={"policy": "single-numa-node"},
    )
    result = _run(_workload(), arm, cluster=cluster)
    assert result.rejections == {"TopologyAffinityError": 1}
    assert (result.pods, result.never_placed, result.pods_by_node) == (1, 1, (0,))


def test_the_latest_moment_ends_a_run() -> None:
    """Nothing happens after the latest moment."""
    result = _run(
        _workload(_come(pod("a")), _come(pod("b"), 50.0)), options=SimulatorOptions(until=10.0)
    )
    assert (result.pods, result.ran) == (1, 1)
