"""Refusals and allocation on the openb trace, by scheduler, Topology Manager policy and scope.

    python -m benchmarks.openb_table DIRECTORY RESULTS.jsonl [--seeds 10] [--demand 1.3]
    python -m benchmarks.openb_table RESULTS.jsonl                       # prints the tables

The directory has the two files of the trace (see `benchmarks.fgd`). Each finished run is a line of
the results, and a run that is there already is not made again: an interrupted command goes on.
"""

from __future__ import annotations

import argparse
import json
import os
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from benchmarks._openb_markdown import tables
from benchmarks.fgd import read
from numakube.simulation.arms import ours, scheduler_arm
from numakube.simulation.simulator import simulate
from numakube.simulation.traces.promotion import Promotion
from numakube.simulation.traces.traced_cluster import (
    GPU,
    trace_cluster,
    trace_workload,
    typical_pods,
)
from numakube.values.resources import CPU, MEMORY

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numakube.simulation.arms import Arm
    from numakube.simulation.cluster_model import SimulatedCluster
    from numakube.simulation.traces.trace_rows import TracePod

FGD: Final = "numakube-fgd"
SCHEDULERS: Final = (
    "least-allocated", "most-allocated", "upstream-10s", "upstream-60s", "numakube", FGD,
)  # fmt: skip
"""The last is ours with the strategy LeastFragmentation."""
SETTINGS: Final = (
    ("single-numa-node", "container"),
    ("single-numa-node", "pod"),
    ("restricted", "container"),
    ("restricted", "pod"),
    ("best-effort", "container"),
    ("best-effort", "pod"),
    ("none", "container"),
)
"""Policies and scopes; a scope means nothing to the policy ``none``."""
LENIENT: Final = ("best-effort", "none")
"""Policies that refuse nothing: so many seeds are enough."""
ENOUGH: Final = 3


class Run(NamedTuple):
    """One line of the results."""

    scheduler: str
    policy: str
    scope: str
    seed: int
    every: int
    demand: float


@cache
def _world(directory: str, rules: Promotion) -> tuple[SimulatedCluster, tuple[TracePod, ...]]:
    nodes, pods = read(Path(directory))
    return trace_cluster(nodes, rules), pods


def arm_of(run: Run, typical: Sequence[Mapping[str, object]]) -> Arm:
    """Return the arm; NUMA-blind schedulers count CPUs, memory and GPUs alike."""
    if run.scheduler == FGD:
        strategy = {"type": "LeastFragmentation", "typicalPods": typical}
        native = {"alignmentWeight": 40, "packingWeight": 50, "balanceWeight": 10}
        arm = ours(FGD, {"scoringStrategy": strategy, "native": native})
    else:
        arm = scheduler_arm(run.scheduler, (CPU, MEMORY, GPU))
    return replace(arm, kubelet={"policy": run.policy, "scope": run.scope})


def one(run: Run, directory: str) -> dict[str, object]:
    """Simulate; return the run with its result."""
    rules = Promotion(helper_cpus=1, every=run.every, demand=run.demand)
    cluster, pods = _world(directory, rules)
    workload = trace_workload(pods, cluster, rules, seed=run.seed)
    result = simulate(cluster, workload, arm_of(run, typical_pods(pods, rules)), seed=run.seed)
    return {
        **run._asdict(),
        "nodes": len(cluster.nodes),
        "rules": list(workload.notes),
        "pods": result.pods,
        "ran": result.ran,
        "bound": result.bound,
        "rejections": result.rejections,
        "first_refused": result.first_refused,
        "given_up": result.given_up,
        "aligned": result.aligned,
        "alignable": result.alignable,
        "allocated": {name: round(share, 5) for name, share in result.allocated.items()},
        "seconds_to_run": result.seconds_to_run,
    }


def missing(done: set[Run], *, seeds: int, every: int, demand: float) -> Iterator[Run]:
    """Yield the runs that are not done, seed by seed."""
    for seed in range(1, seeds + 1):
        for policy, scope in SETTINGS:
            if policy in LENIENT and seed > ENOUGH:
                continue
            for scheduler in SCHEDULERS:
                run = Run(scheduler, policy, scope, seed, every, demand)
                if run not in done:
                    yield run


def known(results: Path) -> list[dict[str, Any]]:
    """Return the finished runs."""
    lines = results.read_text().splitlines() if results.exists() else []
    return [json.loads(line) for line in lines]


def measure(
    directory: str, results: Path, *, seeds: int, every: int, demand: float, cores: int
) -> None:
    """Make the runs that are missing, and note each when it is finished."""
    done = {Run(*(line[field] for field in Run._fields)) for line in known(results)}
    with ProcessPoolExecutor(cores) as pool, results.open("a") as file:
        waiting = [
            pool.submit(one, run, directory)
            for run in missing(done, seeds=seeds, every=every, demand=demand)
        ]
        for finished in as_completed(waiting):
            print(json.dumps(finished.result()), file=file, flush=True)


def main() -> None:
    """Measure if a directory is given; print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("files", nargs="+", metavar="[DIRECTORY] RESULTS")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--every", type=int, default=16)
    parser.add_argument("--demand", type=float, default=1.3)
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    *directory, results = given.files
    if directory:
        measure(
            directory[0],
            Path(results),
            seeds=given.seeds,
            every=given.every,
            demand=given.demand,
            cores=given.cores,
        )
    print(tables(known(Path(results))))


def run() -> Iterator[dict[str, object]]:
    """Measure nothing: the tables take an hour, and are in docs/results."""
    yield {"metric": "not measured", "value": None, "unit": "see docs/results/openb.md"}


if __name__ == "__main__":
    main()
