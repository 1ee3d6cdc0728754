"""How many stranded GPUs of a full cluster become usable by moving a few pods.

A cluster is filled with pods of the public trace openb, by ours or by a scheduler that sees no NUMA
nodes, until pods that ask for 95 % of all GPUs have come. Then `reduce_stranded` may move 5 % of
them. Beside what is left then stands the least that any such moves could leave (``bound``).
`python -m benchmarks.defrag_openb DIRECTORY [EVERY [SCHEDULER...]]` takes every so many nodes
of the trace. Budget: half of the stranded GPUs are left.
"""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from benchmarks.defrag_quality import owned
from benchmarks.fgd import read
from numakube.insight.facts import ClusterFacts
from numakube.insight.scheduler_engine import engine_of
from numakube.insight.usage.stranded_amounts import stranded
from numakube.values.resources import CPU, MILLI_PER_CPU
from numakube_planning.defrag.plan_making import reduce_stranded, stranded_in
from numakube_planning.simulation.compared_schedulers import scheduler_arm
from numakube_planning.simulation.simulator import DEFAULTS, Run
from numakube_planning.simulation.traced_cluster import (
    GPU,
    Promotion,
    trace_cluster,
    trace_workload,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numakube.api.pod import Pod
    from numakube.scheduling.assembly import Engine
    from numakube.scheduling.snapshot.pods import PodInfo

FULL: Final = 0.95
MOVED: Final = 0.05
SCHEDULERS: Final = ("least-allocated", "most-allocated", "numakube")


def filled(directory: Path, every: int, scheduler: str, seed: int = 1) -> ClusterFacts:
    """Return the cluster after pods that ask for 95 % of its GPUs have come."""
    nodes, pods = read(directory)
    rules = Promotion(every=every, demand=FULL)
    cluster = trace_cluster(nodes, rules)
    workload = trace_workload(pods, cluster, rules, seed=seed)
    arm = replace(scheduler_arm(scheduler), kubelet={"policy": "single-numa-node"})
    run = Run(cluster, arm, seed, DEFAULTS)
    run.play(workload)
    virtual = run.nodes()
    return ClusterFacts(
        taken_at="2026-01-01T00:00:00Z",
        nodes={node.name: node.object for node in virtual},
        topologies={node.name: node.report(1, exact=True) for node in virtual},
        pods=tuple(_owned(pod) for node in virtual for pod in node.pods.values()),
    )


def _owned(pod: PodInfo) -> Pod:
    owners = owned("any").metadata.owner_references
    meta = msgspec.structs.replace(pod.pod.metadata, owner_references=owners)
    return msgspec.structs.replace(pod.pod, metadata=meta)


def measure(
    directory: Path, every: int, schedulers: Sequence[str] = SCHEDULERS
) -> Iterator[dict[str, object]]:
    """Yield how many stranded GPUs are left."""
    for scheduler in schedulers:
        facts = filled(directory, every, scheduler)
        engine, begun = engine_of(facts), time.process_time()
        before, free = stranded_in(engine).get(GPU, 0), _free(facts)
        most = int(MOVED * len(facts.pods))
        least = fewest_left(engine, most)
        plan = reduce_stranded(engine, most=most)
        after = stranded_in(engine).get(GPU, 0)
        yield {
            "metric": f"stranded GPUs, {len(facts.nodes)} nodes filled by {scheduler}",
            "value": after,
            "unit": "GPUs",
            "budget": before / 2,
            "before": before,
            "bound": least,
            "free": free,
            "pods": len(facts.pods),
            "moved": plan.moves,
            "seconds": round(time.process_time() - begun, 1),
        }


def fewest_left(engine: Engine, moves: int) -> int:
    """Return how many GPUs stay stranded at least, whichever pods move.

    GPUs that lack CPUs are stranded, whatever memory there is. Every pod is in one zone and has no
    more GPUs than CPUs, so its move wins at most what is stranded in the zone that it leaves: where
    it comes, it takes away a CPU for each GPU that it takes.
    """
    pods = [pod.requests for node in engine.cluster.nodes() for pod in node.pods.values()]
    if any(one.get(GPU, 0) > one.get(CPU, 0) // MILLI_PER_CPU for one in pods):
        return 0
    beliefs = [node.numa for node in engine.cluster.nodes()]
    counts = [
        stranded(zone.allocatable, free, free.get(CPU, 0) // MILLI_PER_CPU, 0).get(GPU, 0)
        for belief in beliefs
        if belief is not None and belief.topology is not None
        for zone, free in zip(belief.topology.zones, belief.available, strict=True)
    ]
    return sum(sorted(counts, reverse=True)[moves:])


def _free(facts: ClusterFacts) -> int:
    return sum(
        int(resource.available)
        for topology in facts.topologies.values()
        for zone in topology.zones
        for resource in zone.resources
        if resource.name == GPU
    )


def run() -> Iterator[dict[str, object]]:
    """Measure on a part of the trace, if ``OPENB`` names its directory."""
    directory = os.environ.get("OPENB")
    if directory is None:
        yield {"metric": "not measured", "value": None, "unit": "OPENB names no directory"}
    else:
        yield from measure(Path(directory), 16)


if __name__ == "__main__":
    for result in measure(
        Path(sys.argv[1]),
        int(sys.argv[2]) if len(sys.argv) > 2 else 16,
        tuple(sys.argv[3:]) or SCHEDULERS,
    ):
        print(json.dumps(result), flush=True)
