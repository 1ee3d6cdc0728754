"""Many runs, wherever they are executed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from numakube.testing import World, pod
from numakube_planning.simulation.compared_schedulers import scheduler_arm
from numakube_planning.simulation.simulated_cluster import cluster_of, waiting_in
from numakube_planning.simulation.simulator import PlannedRun, digest, sweep


def _runs() -> list[PlannedRun]:
    world = World()
    world.add_node("node-a")
    world.run(pod("runs", cpu="4"), "node-a")
    world.pods.append(pod("waits", cpu="5"))
    facts = world.facts()
    first = PlannedRun(
        cluster=cluster_of(facts, "x"),
        workload=waiting_in(facts),
        arm=scheduler_arm("numakube"),
        seed=1,
    )
    return [first, replace(first, seed=2)]


def test_runs_that_travel_come_to_the_same_result() -> None:
    """Runs are packed and sent to whatever executes them; nothing is lost on the way."""
    runs = _runs()
    here = {run.seed: result for run, result in sweep(runs)}
    with ThreadPoolExecutor(1) as executor:
        there = {run.seed: result for run, result in sweep(runs, executor)}
    assert here == there
    assert [here[seed].ran for seed in (1, 2)] == [1, 1]


def test_a_run_is_known_by_everything_that_matters_to_it() -> None:
    """Equal runs have equal digests; another seed, arm or pod makes another one."""
    first, second = _runs()
    again, _ = _runs()
    other = replace(first, arm=scheduler_arm("least-allocated"))
    without = replace(first, cluster=replace(first.cluster, running=()))
    assert digest(first) == digest(again)
    assert len({digest(one) for one in (first, second, other, without)}) == 4
