"""How long simulations take: as many nodes and pods as the public trace openb has, and more.

A run of 8,152 pods on 1,523 nodes is to take at most 30 s of one core, and one of 100,000 pods on
5,000 nodes at most ten minutes; the larger one is only run by ``python -m benchmarks.simulation``.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Final

import numpy as np

from numakube.insight.node_setup import nodes_of_kinds
from numakube.testing import pod
from numakube_planning.simulation.compared_schedulers import scheduler_arm
from numakube_planning.simulation.simulated_cluster import SimulatedCluster
from numakube_planning.simulation.simulator import simulate
from numakube_planning.simulation.workload import Arrival, ArrivingWork

if TYPE_CHECKING:
    from collections.abc import Iterator

_MACHINE: Final = "2 sockets, 24 cores, smt 2, 192Gi, gpu 4"
_ARMS: Final = ("least-allocated", "upstream-10s", "numakube")
_OPENB: Final = (1523, 8152)
_LARGE: Final = (5000, 100_000)
_SECONDS: Final = 30


def run() -> Iterator[dict[str, object]]:
    """Yield how long each arm takes on as much as openb has."""
    for arm in _ARMS:
        yield {**measure(arm, *_OPENB), "budget": _SECONDS}


def measure(arm: str, nodes: int, pods: int) -> dict[str, object]:
    """Return how long one run takes."""
    cluster = SimulatedCluster(nodes=nodes_of_kinds([f"{nodes}x {_MACHINE}"]))
    resources = ("cpu", "memory", *cluster.nodes[0].machine.devices)
    workload = _workload(pods, nodes)
    began = time.process_time()
    result = simulate(cluster, workload, scheduler_arm(arm, resources), seed=1)
    seconds = time.process_time() - began
    return {
        "metric": f"simulation of {pods} pods on {nodes} nodes, {arm}: CPU time",
        "value": round(seconds, 1),
        "unit": "s",
        "bound": result.bound,
        "never placed": result.never_placed,
    }


def _workload(pods: int, nodes: int) -> ArrivingWork:
    """Return pods that fill most of so many nodes, one in five of which ends."""
    rng = np.random.default_rng(1)
    scale = min(1.0, 5.5 * nodes / pods)
    sizes = [max(1, round(cpus * scale)) for cpus in (2, 4, 8, 12, 16, 24, 30)]
    kinds = [
        pod(
            f"p{cpus}-{gpus}",
            cpu=str(cpus),
            memory=f"{3 * cpus}Gi",
            **({"gpu": gpus} if gpus else {}),
        )
        for cpus in sizes
        for gpus in (0, 0, 1)
    ]
    times = np.cumsum(rng.exponential(0.05, pods))
    return ArrivingWork(
        arrivals=tuple(
            Arrival(
                at=float(at),
                pod=kinds[int(rng.integers(len(kinds)))],
                seconds=float(rng.exponential(400)) if rng.random() < 0.2 else None,
            )
            for at in times
        )
    )


if __name__ == "__main__":
    for name in sys.argv[1:] or _ARMS:
        print(measure(name, *_LARGE), flush=True)
