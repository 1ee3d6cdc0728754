"""Small runs come out as they always did; ``UPDATE_GOLDEN=1`` writes what comes out now.

A change of the scheduler or of the kubelet model may change them for good reasons: look at the
difference before it is written down.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from numakube.insight.node_setup import nodes_of_kinds
from numakube_planning.simulation.compared_schedulers import SCHEDULERS, scheduler_arm
from numakube_planning.simulation.simulated_cluster import SimulatedCluster
from numakube_planning.simulation.simulator import simulate
from numakube_planning.simulation.workload import workload_of_mix

GOLDEN = Path(__file__).with_name("golden_runs.json")
KINDS = (
    "2x 2 sockets, 8 cores, smt 2, 64Gi, gpu 2",
    "1x 1 socket, 4 numa each, 4 cores, smt 2, 16Gi, gpu 1; policy=restricted,scope=pod",
)
MIX: dict[str, Any] = {
    "workloads": [
        {
            "name": "train",
            "kind": "Job",
            "count": 8,
            "arrivals": {"poisson": 720},
            "pods": 2,
            "together": True,
            "lifetime": {"exponential": "2m"},
            "requests": {"cpu": {6: 1, 10: 1}, "memory": "8Gi", "vendor.example/gpu": 1},
        },
        {
            "name": "web",
            "count": 5,
            "arrivals": {"every": "7s"},
            "pods": 2,
            "requests": {"cpu": {1: 1, 3: 1}, "memory": "2Gi"},
            "priority": 1,
        },
    ]
}


def _run(arm: str) -> dict[str, Any]:
    cluster = SimulatedCluster(nodes=nodes_of_kinds(KINDS))
    result = simulate(cluster, workload_of_mix(MIX, "mix", 1), scheduler_arm(arm), seed=1)
    tree: dict[str, Any] = msgspec.to_builtins(result)
    # The course of a run is for plots; its end says enough.
    return {**tree, "moments": len(tree["moments"])}


@pytest.mark.parametrize("arm", SCHEDULERS)
def test_a_small_run_comes_out_as_before(arm: str) -> None:
    """Every answer of every arm is the same."""
    known = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {}
    found = json.loads(json.dumps(_run(arm)))
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text(json.dumps({**known, arm: found}, indent=1, sort_keys=True) + "\n")
    else:
        assert found == known[arm]
