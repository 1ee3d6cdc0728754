"""Memory that a scheduler's knowledge of a large cluster takes.

5,000 nodes of 8 zones with their reports, and 50,000 pods of two containers, decoded one by one as
a watch delivers them. Measured in a process of its own, as the growth of its resident memory.
"""

from __future__ import annotations

import gc
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from benchmarks.numa_filter import NODES, belief_of, make_node, pod
from numakube.api.codec import decode
from numakube.api.nrt import NodeResourceTopology
from numakube.api.pod import Pod
from numakube.api.sharing import shared_nrt, shared_pod
from numakube.scheduling.numa.caches.predict import Predict
from numakube.scheduling.snapshot.cluster import Cluster
from numakube.scheduling.snapshot.pods import PodInfo

if TYPE_CHECKING:
    from collections.abc import Iterator

PODS = 50_000


def run() -> Iterator[dict[str, object]]:
    """Yield the memory of nodes, and of nodes and pods."""
    command = [sys.executable, "-m", "benchmarks.numa_memory"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
    for line in done.stdout.splitlines():
        yield json.loads(line)


def measure() -> Iterator[dict[str, object]]:
    """Fill a cluster, and tell by how much this process has grown."""
    r = random.Random(1)
    cluster, cache = Cluster(), Predict()
    before = resident_mb()
    for row in range(NODES):
        name = f"node-{row}"
        cluster.set_node(make_node(name))
        # Made as text first, since a watch delivers text.
        text = msgspec.json.encode(belief_of(name, r).nrt)
        report = shared_nrt(decode(NodeResourceTopology, text))
        cluster.take(cache.set_report(report), cache)
    yield _result(f"{NODES} nodes x 8 zones", resident_mb() - before)
    tree = json.loads(msgspec.json.encode(pod(2).pod))
    for index in range(PODS):
        tree["metadata"].update(name=f"pod-{index}", uid=f"{r.getrandbits(128):032x}")
        tree["spec"]["nodeName"] = f"node-{index % NODES}"
        info = PodInfo(shared_pod(decode(Pod, json.dumps(tree).encode())))
        cluster.place(info, info.node_name)
    grown = resident_mb() - before
    yield {**_result(f"{NODES} nodes x 8 zones and {PODS} pods", grown), "budget": 200}


def resident_mb() -> float:
    """Return the resident memory of this process."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * 4096 / 1e6


def _result(metric: str, value: float) -> dict[str, object]:
    return {"metric": metric, "value": round(value, 1), "unit": "MB"}


if __name__ == "__main__":
    for result in measure():
        print(json.dumps(result), flush=True)
