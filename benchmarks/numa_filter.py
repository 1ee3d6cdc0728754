"""Judging and rating every node of a large cluster by its NUMA zones, and keeping it up to date.

5,000 nodes of 8 zones and 5 resources; pods of one and two containers with a GPU and a NIC. Times
are CPU time of one thread, so that a busy machine does not spoil them.
"""

from __future__ import annotations

import random
import statistics
import time
from typing import TYPE_CHECKING, Final

from numakube.api.meta import ObjectMeta
from numakube.api.nodes import Node, NodeStatus
from numakube.api.nrt import Attribute, Cost, NodeResourceTopology, Zone, ZoneResource, zone_name
from numakube.api.pod import Container, Pod, PodSpec, ResourceRequirements
from numakube.apps.host.process_life import keep_freed_memory
from numakube.scheduling.framework.cycle_state import CycleState
from numakube.scheduling.numa.upstream.upstream_engine import UpstreamEngine
from numakube.scheduling.snapshot.cluster import Cluster
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing.reported_nodes import STRATEGIES, Reported, reported

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numakube.scheduling.numa.topology_match import NumaEngine

GPU, NIC, HUGEPAGES = "vendor.example/gpu", "vendor.example/nic", "hugepages-1Gi"
NODES, ZONES = 5000, 8
GIB: Final = 1 << 30
ROUNDS: Final = 30
BATCH: Final = 10
_ZONE: Final = {"cpu": 16, "memory": 64 * GIB, HUGEPAGES: 16 * GIB, GPU: 2, NIC: 4}
"""What a zone has: whole CPUs, bytes, devices."""


def run() -> Iterator[dict[str, object]]:
    """Yield latencies of decisions and updates."""
    keep_freed_memory()  # as the scheduler does
    cluster = make_cluster(NODES)
    for strategy in STRATEGIES:
        yield from engine_results(f"upstream {strategy}", UpstreamEngine(strategy), cluster)
    yield from wide_results(cluster)
    yield from update_results(cluster)
    yield growth(UpstreamEngine("LeastAllocated"))


def engine_results(
    name: str, engine: NumaEngine, cluster: Cluster, *, budget_ms: float = 10
) -> Iterator[dict[str, object]]:
    """Yield how long *engine* takes for all nodes of *cluster*."""
    for containers in (1, 2):
        times = decisions(engine, cluster, pod(containers))
        metric = f"{name}: filter + score, {NODES} nodes x {ZONES} zones, {containers} containers"
        yield _ms(metric, statistics.median(times), budget=budget_ms)


def wide_results(cluster: Cluster) -> Iterator[dict[str, object]]:
    """Yield the worst for LeastNUMANodes: a request that needs four or five of eight zones."""
    times = decisions(UpstreamEngine("LeastNUMANodes"), cluster, pod(1, cpu=60))
    yield _ms(
        "upstream LeastNUMANodes: filter + score, requests wider than any zone",
        statistics.median(times),
    )


def decisions(engine: NumaEngine, cluster: Cluster, info: PodInfo) -> list[float]:
    """Return the seconds that each of several decisions took."""
    times = []
    for _ in range(ROUNDS):
        snapshot, state = cluster.snapshot(), CycleState()
        start = time.thread_time()
        engine.filter_all(state, info, snapshot, snapshot.rows)
        engine.score_all(state, info, snapshot, snapshot.rows)
        times.append(time.thread_time() - start)
    return times


def update_results(cluster: Cluster) -> Iterator[dict[str, object]]:
    """Yield how long it takes to take over a new belief, and to free the one before."""
    r = random.Random(2)
    names = [f"node-{row}" for row in range(0, NODES, 5)]
    update, freeing = _seconds(cluster, names, lambda name: belief_of(name, r))
    yield _us("update of one node: report", update, budget=20)
    yield {"metric": "freeing the report before it", "value": _rounded(freeing), "unit": "us"}
    update, _ = _seconds(
        cluster, names, lambda name: _less(_known(cluster, name), r.randrange(ZONES))
    )
    yield _us("update of one node: reservation", update, budget=20)


def growth(engine: NumaEngine) -> dict[str, object]:
    """Return how much longer ten times as many nodes take; linear is 10."""
    info = pod(2)
    few, many = (
        statistics.median(decisions(engine, make_cluster(size), info)) for size in (500, 5000)
    )
    return {
        "metric": "upstream LeastAllocated: 5,000 nodes against 500",
        "value": round(many / few, 2),
        "unit": "times",
        "budget": 10,
    }


def make_cluster(nodes: int) -> Cluster:
    """Return nodes that are taken to different degrees."""
    r = random.Random(1)
    cluster = Cluster()
    for row in range(nodes):
        name = f"node-{row}"
        cluster.set_node(make_node(name))
        cluster.suppose(name, belief_of(name, r))
    return cluster


def make_node(name: str) -> Node:
    """Return a node with what its zones have together."""
    allocatable = {
        "cpu": str(_ZONE["cpu"] * ZONES), "memory": str(_ZONE["memory"] * ZONES), "pods": "250",
        HUGEPAGES: str(_ZONE[HUGEPAGES] * ZONES), GPU: str(_ZONE[GPU] * ZONES),
        NIC: str(_ZONE[NIC] * ZONES),
    }  # fmt: skip
    return Node(metadata=ObjectMeta(name=name), status=NodeStatus(allocatable=allocatable))


def belief_of(name: str, r: random.Random) -> Reported:
    """Return the belief in a new report."""
    zones = tuple(_zone(zone, r) for zone in range(ZONES))
    return reported(
        NodeResourceTopology(
            metadata=ObjectMeta(name=name),
            attributes=(
                Attribute("topologyManagerPolicy", "single-numa-node"),
                Attribute("topologyManagerScope", "container"),
            ),
            zones=zones,
        )
    )


def _zone(zone: int, r: random.Random) -> Zone:
    def resource(name: str, step: int) -> ZoneResource:
        total = _ZONE[name]
        return ZoneResource(name, str(total), str(total), str(r.randint(0, total // step) * step))

    return Zone(
        zone_name(zone),
        "Node",
        costs=tuple(Cost(zone_name(to), 10 if to == zone else 20) for to in range(ZONES)),
        resources=(
            resource("cpu", 1), resource("memory", GIB), resource(HUGEPAGES, GIB),
            resource(GPU, 1), resource(NIC, 1),
        ),
    )  # fmt: skip


def _less(belief: Reported, zone: int) -> Reported:
    available = list(belief.available)
    at = zone % len(available)
    available[at] = {name: amount // 2 for name, amount in available[at].items()}
    return Reported(belief.nrt, belief.topology, tuple(available))


def pod(containers: int, *, cpu: int = 4) -> PodInfo:
    """Return a Guaranteed pod whose containers have a GPU and a NIC each."""
    amounts = {"cpu": str(cpu), "memory": "8Gi", GPU: "1", NIC: "1"}
    resources = ResourceRequirements(requests=amounts, limits=amounts)
    return PodInfo(
        Pod(
            metadata=ObjectMeta(name="pod", namespace="default", uid="pod"),
            spec=PodSpec(
                containers=tuple(
                    Container(name=f"c{index}", resources=resources) for index in range(containers)
                )
            ),
        )
    )


def _known(cluster: Cluster, name: str) -> Reported:
    node = cluster.node(name)
    assert node is not None
    assert isinstance(node.numa, Reported)
    return node.numa


def _seconds(
    cluster: Cluster, names: list[str], make: Callable[[str], Reported]
) -> tuple[float, float]:
    """Return what one update takes, and freeing what it replaces: medians over batches.

    Beliefs are made right before they are taken over, as reports are read right before. A report
    is a tree of hundreds of objects; to free them takes longer than to write the arrays.
    """
    times, freeing = [], []
    for first in range(0, len(names), BATCH):
        batch = [(name, make(name)) for name in names[first : first + BATCH]]
        before = [_known(cluster, name) for name, _ in batch]
        start = time.thread_time()
        for name, belief in batch:
            cluster.suppose(name, belief)
        between = time.thread_time()
        before.clear()
        freeing.append((time.thread_time() - between) / len(batch))
        times.append((between - start) / len(batch))
    return statistics.median(times), statistics.median(freeing)


def _ms(metric: str, seconds: float, *, budget: float = 10) -> dict[str, object]:
    return {"metric": metric, "value": round(seconds * 1e3, 3), "unit": "ms", "budget": budget}


def _us(metric: str, seconds: float, *, budget: float) -> dict[str, object]:
    return {"metric": metric, "value": _rounded(seconds), "unit": "us", "budget": budget}


def _rounded(seconds: float) -> float:
    return round(seconds * 1e6, 1)
