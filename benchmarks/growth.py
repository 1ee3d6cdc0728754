"""What becomes more expensive as a cluster grows: from 1,000 to 30,000 nodes.

Nodes have 8 zones and ten pods of two containers each, replicas of a hundred workloads, all decoded
one by one as a watch delivers them.
Of each size there is a cluster of a dozen kinds of nodes, as real ones are, and of 5,000 nodes also
one in which no two are alike. Each is measured in a process of its own: memory as the growth of
what is resident, times as CPU time, so that a busy machine does not spoil them. Decisions are those
of the whole default profile. What a watch brings for each pod does not depend on the size; it is
counted on a small lab whose nodes have exporters.
"""

from __future__ import annotations

import asyncio
import gc
import json
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from benchmarks.numa_filter import GPU, belief_of, make_node
from numakube.api.codec import decode
from numakube.api.interning import shared_nrt, shared_pod
from numakube.api.meta import ObjectMeta
from numakube.api.nrt import NodeResourceTopology
from numakube.api.pod import Container, Pod, PodSpec, ResourceRequirements
from numakube.apps.host.process_life import keep_freed_memory
from numakube.insight.scheduler_engine import BindsNothing
from numakube.kube.catalog import NODE_RESOURCE_TOPOLOGIES, NODES, PODS
from numakube.kube.connection.transport import Request
from numakube.scheduling.assembly import all_plugins, assemble, default_configuration
from numakube.scheduling.cycle import Chosen, Cycle
from numakube.scheduling.snapshot.pod_equivalence import PodInfos
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing import pod_document
from numakube_lab.testing import lab_cluster

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.kube.client import Client
    from numakube.kube.resource_types import Resource
    from numakube.scheduling.assembly import Engine

SIZES: Final = (1000, 5000, 30_000)
KINDS: Final = 12
PODS_PER_NODE: Final = 10
WORKLOADS: Final = 100
DECISIONS: Final = 40
WATCHED_PODS: Final = 60
WANTED_GROWTH: Final = 2.0
"""What a first decision at the largest size may take, in those at the size before."""


def run() -> Iterator[dict[str, object]]:
    """Yield figures by size, the growth of a decision, and the traffic of a watch."""
    yield from _apart(5000, 0)
    first: dict[int, float] = {}
    for nodes in SIZES:
        for row in _apart(nodes, KINDS):
            yield row
            if "unlike" in str(row["metric"]):
                first[nodes] = float(str(row["value"]))
    *_, before, largest = SIZES
    yield {
        "metric": f"decision about a pod unlike those before, {largest} nodes against {before}",
        "value": round(first[largest] / first[before], 2),
        "unit": "times",
        "budget": WANTED_GROWTH,
    }
    yield from asyncio.run(traffic())


def _apart(nodes: int, kinds: int) -> Iterator[dict[str, object]]:
    command = [sys.executable, "-m", "benchmarks.growth", str(nodes), str(kinds)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
    for line in done.stdout.splitlines():
        yield json.loads(line)


def measure(nodes: int, kinds: int) -> Iterator[dict[str, object]]:
    """Fill a cluster and decide; nodes are of so many *kinds*, or all different for none."""
    keep_freed_memory()  # as the scheduler does
    of = f"{nodes} nodes x 8 zones" + (f" of {kinds} kinds" if kinds else "")
    engine = assemble(default_configuration(), all_plugins(BindsNothing.make))
    before, start = resident_mb(), time.process_time()
    spent = take_in_nodes(engine, nodes, kinds)
    yield {"metric": of, "value": round(resident_mb() - before, 1), "unit": "MB"}
    spent += take_in_pods(engine, nodes)
    grown = {"metric": f"{of} and {nodes * PODS_PER_NODE} pods", "unit": "MB"}
    yield {**grown, "value": round(resident_mb() - before, 1), **({} if kinds else {"budget": 140})}
    first, again = decisions(engine)
    started = time.process_time() - start - spent - sum((*first[1:], *again))
    yield {
        "metric": f"start-up until the first decision, {of}",
        "value": round(started, 2),
        "unit": "s",
    }
    for words, times in (("unlike those", first[1:]), ("like one", again)):
        yield {
            "metric": f"decision about a pod {words} before, {of}, median",
            "value": round(1e3 * statistics.median(times), 3),
            "unit": "ms",
        }


def take_in_nodes(engine: Engine, nodes: int, kinds: int) -> float:
    """Read nodes and reports; return the seconds that it took to make them up."""
    spent, r = 0.0, random.Random(1)
    for row in range(nodes):
        start = time.process_time()
        name = f"node-{row}"
        node = make_node(name)
        # Made as text first, since a watch delivers text.
        text = msgspec.json.encode(belief_of(name, random.Random(row % kinds) if kinds else r).nrt)
        spent += time.process_time() - start
        engine.cluster.set_node(node)
        report = shared_nrt(decode(NodeResourceTopology, text))
        engine.cluster.take(engine.cache.set_report(report), engine.cache)
    return spent


def take_in_pods(engine: Engine, nodes: int) -> float:
    """Read pods; return the seconds that it took to make them up."""
    spent, r = 0.0, random.Random(2)
    tree = json.loads(msgspec.json.encode(a_pod("", 2, {"cpu": "500m", "memory": "1Gi"})))
    infos = PodInfos()
    for index in range(nodes * PODS_PER_NODE):
        start = time.process_time()
        tree["metadata"].update(name=f"pod-{index}", uid=f"{r.getrandbits(128):032x}")
        tree["metadata"]["labels"] = {"app": f"web-{index % WORKLOADS}"}
        tree["spec"]["nodeName"] = f"node-{index % nodes}"
        text = json.dumps(tree).encode()
        spent += time.process_time() - start
        info = infos.of(shared_pod(decode(Pod, text)))
        engine.cluster.place(info, info.node_name)
    return spent


def decisions(engine: Engine) -> tuple[list[float], list[float]]:
    """Return what decisions take about pods of new kinds, and about pods of one kind."""
    (runtime,) = engine.runtimes.values()
    cycle = Cycle(engine.cluster, engine.nominations, np.random.default_rng(1))
    new: list[float] = []
    alike: list[float] = []
    for number in range(2 * DECISIONS):
        memory = f"{1024 + min(number, DECISIONS)}Mi"
        info = PodInfo(a_pod(f"new-{number}", 1, {"cpu": "2", "memory": memory, GPU: "1"}))
        start = time.process_time()
        decision = cycle.decide(info, runtime)
        (new if number < DECISIONS else alike).append(time.process_time() - start)
        assert isinstance(decision, Chosen), decision
        engine.cluster.take(engine.cache.reserve(info, decision.node), engine.cache)
        engine.cluster.place(info, decision.node)
    return new, alike


def a_pod(name: str, containers: int, amounts: dict[str, str]) -> Pod:
    """Return a Guaranteed pod."""
    resources = ResourceRequirements(requests=amounts, limits=amounts)
    names = (f"c{number}" for number in range(containers))
    return Pod(
        metadata=ObjectMeta(name=name, namespace="default", uid=name),
        spec=PodSpec(
            containers=tuple(Container(name=other, resources=resources) for other in names)
        ),
    )


async def traffic() -> list[dict[str, object]]:
    """Count what watches bring while pods are created, bound, started and reported."""
    async with lab_cluster(6, exporters=True) as world:
        await world.start()
        kinds: tuple[Resource[object], ...] = (PODS, NODES, NODE_RESOURCE_TOPOLOGIES)  # type: ignore[assignment]
        counts = dict.fromkeys((kind.plural for kind in kinds), 0)
        tasks = [asyncio.create_task(_count(world.client, kind, counts)) for kind in kinds]
        await world.create(*(pod_document(f"p{n}", "1") for n in range(WATCHED_PODS)))
        await world.until(lambda: len(world.by_phase("Running")) == WATCHED_PODS)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return [
        {"metric": f"watch of {kind}, for each pod", "value": size // WATCHED_PODS, "unit": "bytes"}
        for kind, size in counts.items()
    ]


async def _count(client: Client, kind: Resource[object], counts: dict[str, int]) -> None:
    """Count the bytes of a watch, without what is there at the start."""
    latest = await client.latest_version(kind)
    query = (("watch", "true"), ("resourceVersion", latest))
    request = Request(
        method="GET", path=kind.collection_path(), query=query, compress=False, timeout=None
    )
    async with client.stream(request) as stream:
        async for chunk in stream.chunks():
            counts[kind.plural] += len(chunk)


def resident_mb() -> float:
    """Return the resident memory of this process."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * 4096 / 1e6


if __name__ == "__main__":
    for result in measure(*map(int, sys.argv[1:])):
        print(json.dumps(result), flush=True)
