"""The experiment of FGD (USENIX ATC 2023) on the openb trace: GPU allocation by policy.

    python -m benchmarks.fgd DIRECTORY [SEEDS]       # 10 seeds take some minutes on two cores

The directory has ``openb_node_list_all_node.csv`` and ``openb_pod_list_default.csv`` of the public
trace. Each policy has the mean of its seeds, beside what the authors' own simulator gave (the mean
of its ten seeds, from the results that they published with it).
"""

from __future__ import annotations

import json
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from statistics import mean, stdev
from typing import TYPE_CHECKING, Final

from benchmarks._gpu_packing import Packed, run_policy
from numakube_planning.simulation.trace_rows import read_nodes, read_pods

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube_planning.simulation.trace_rows import TraceNode, TracePod

PUBLISHED: Final = {
    "Random": 87.47,
    "DotProd": 90.85,
    "GpuClustering": 91.88,
    "GpuPacking": 92.00,
    "BestFit": 93.08,
    "FGD": 95.39,
}
FIRST_SEED: Final = 42


def read(directory: Path) -> tuple[tuple[TraceNode, ...], tuple[TracePod, ...]]:
    """Return the nodes and pods of the default trace."""
    nodes, pods = (
        directory / name for name in ("openb_node_list_all_node.csv", "openb_pod_list_default.csv")
    )
    with nodes.open() as node_file, pods.open() as pod_file:
        return read_nodes(node_file, file=str(nodes)), read_pods(pod_file, file=str(pods))


def _one(run: tuple[str, int], *, directory: Path) -> Packed:
    policy, seed = run
    return run_policy(*read(directory), policy, seed=seed)


def measure(directory: Path, seeds: int) -> Iterator[dict[str, object]]:
    """Yield a result for each policy."""
    runs = [(policy, FIRST_SEED + number) for policy in PUBLISHED for number in range(seeds)]
    with ProcessPoolExecutor() as pool:
        results = list(pool.map(partial(_one, directory=directory), runs))
    for position, (policy, published) in enumerate(PUBLISHED.items()):
        own = results[position * seeds : (position + 1) * seeds]
        allocated = [100 * packed.allocated for packed in own]
        yield {
            "metric": policy,
            "value": round(mean(allocated), 2),
            "unit": "% of GPUs allocated",
            "sd": round(stdev(allocated), 2) if seeds > 1 else None,
            "published": published,
            "difference": round(mean(allocated) - published, 2),
            "fragmented": round(100 * mean(packed.fragmented for packed in own), 1),
            "seeds": seeds,
        }


def run() -> Iterator[dict[str, object]]:
    """Measure with one seed, if ``OPENB`` names the directory of the trace."""
    directory = os.environ.get("OPENB")
    if directory is None:
        yield {"metric": "not measured", "value": None, "unit": "OPENB names no directory"}
    else:
        yield from measure(Path(directory), 1)


if __name__ == "__main__":
    for result in measure(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 10):
        print(json.dumps(result), flush=True)
