"""The cost of one decision in native mode: filter and score of 5,000 nodes."""

from __future__ import annotations

import random
import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.kubelet_model import large_machine
from numakube.api.meta import ObjectMeta
from numakube.api.nodes import Node
from numakube.api.nrt import NodeResourceTopology
from numakube.api.pod import Container, Pod, PodSpec, ResourceRequirements
from numakube.apps.host.process_life import keep_freed_memory
from numakube.kubelet.kubelet_model import KubeletNode
from numakube.kubelet.manager_settings import KubeletSettings
from numakube.scheduling.framework.cycle_state import CycleState
from numakube.scheduling.numa.native.native_engine import NativeEngine
from numakube.scheduling.snapshot.cluster import Cluster
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.topology.model_report import report_of, zones_of
from numakube.topology.topology_view import NodeTopology, ZoneView
from numakube.values.cpuset import CpuSet
from numakube.values.topology_policy import TopologyPolicy

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numakube.values.resources import Amounts

GPU, NIC = "vendor.example/gpu", "vendor.example/nic"
GIB = 1 << 30
ZONES = 8
NODES = 5_000
FULL: Amounts = {"cpu": 32_000, "memory": 128 * GIB, "hugepages-1Gi": 16 * GIB, GPU: 2, NIC: 4}
ROUNDS = 60


@dataclass(frozen=True, slots=True)
class Belief:
    """A report taken at its word."""

    topology: NodeTopology
    available: tuple[Amounts, ...]
    blocked: str = ""
    kubelet: KubeletNode | None = None

    @property
    def nrt(self) -> NodeResourceTopology:
        """Not looked at in native mode."""
        return NodeResourceTopology()

    def model(self) -> KubeletNode | None:
        """Return the model of nodes with exact data."""
        return self.kubelet

    def without(self, uids: Iterable[str]) -> Belief:
        """Not asked for here."""
        del uids
        return self


def run() -> Iterator[dict[str, object]]:
    """Yield the cost of decisions by policy and pod."""
    keep_freed_memory()  # as the scheduler does
    for policy in ("single-numa-node", "restricted", "best-effort"):
        cluster = make_cluster(NODES, policy)
        for containers in (1, 2):
            name = f"filter+score of {NODES} nodes x {ZONES} zones, {policy}, {containers} cont."
            first = decisions(cluster, containers, alike=False)
            yield _ms(f"{name}, pod unlike those before, median", first, budget=1)
            again = decisions(cluster, containers, alike=True)
            yield _ms(f"{name}, pod like one before, median", again, budget=0.2)
    for containers in (1, 2):
        times = exact_decisions(containers)
        name = f"the same and the model's check of the winner, {containers} cont., median"
        yield _ms(name, times, budget=2)
    few, many = (
        statistics.median(decisions(make_cluster(nodes, "single-numa-node"), 2, alike=False))
        for nodes in (NODES // 10, NODES)
    )
    yield {
        "metric": f"time for {NODES} nodes as a multiple of {NODES // 10}",
        "value": round(many / few, 2),
        "unit": "x",
        "budget": 10,
    }


def _ms(metric: str, times: list[float], *, budget: float) -> dict[str, object]:
    """Return the median, and the best, which is what it takes when nobody disturbs the machine."""
    return {
        "metric": metric,
        "value": round(statistics.median(times) * 1e3, 3),
        "best": round(min(times) * 1e3, 3),
        "unit": "ms",
        "budget": budget,
    }


def decisions(cluster: Cluster, containers: int, *, alike: bool) -> list[float]:
    """Return the times of decisions; one node changes before each, as after a reservation."""
    engine = NativeEngine()
    dice = random.Random(2)
    times = []
    for index in range(ROUNDS + 1):
        touch(cluster, dice)
        pod = PodInfo(make_pod(0 if alike else index, containers))
        snapshot = cluster.snapshot()
        start = time.process_time()
        state = CycleState()
        verdicts = engine.filter_all(state, pod, snapshot, snapshot.rows)
        rows = snapshot.rows if verdicts is None else snapshot.rows[verdicts.ok]
        engine.score_all(state, pod, snapshot, rows)
        times.append(time.process_time() - start)
    return times[1:]


def exact_decisions(containers: int) -> list[float]:
    """Return the times of decisions whose winner is confirmed by the kubelet model."""
    cluster = make_exact_cluster(NODES)
    engine = NativeEngine()
    times = []
    for index in range(ROUNDS // 2):
        pod = PodInfo(make_pod(index, containers))
        snapshot = cluster.snapshot()
        start = time.process_time()
        state = CycleState()
        verdicts = engine.filter_all(state, pod, snapshot, snapshot.rows)
        rows = snapshot.rows if verdicts is None else snapshot.rows[verdicts.ok]
        best = int(rows[engine.score_all(state, pod, snapshot, rows).argmax()])
        status = engine.confirm(state, pod, snapshot.at(best))
        times.append(time.process_time() - start)
        assert status.ok, status
    return times[1:]


def make_exact_cluster(nodes: int) -> Cluster:
    """Return a cluster of large machines in a few states, each with its kubelet model."""
    cluster = Cluster()
    beliefs = [exact_belief("any", model) for model in make_models()]
    for index in range(nodes):
        name = f"node-{index}"
        belief = beliefs[index % len(beliefs)]
        cluster.set_node(Node(metadata=ObjectMeta(name=name)))
        cluster.suppose(name, belief)
    return cluster


def exact_belief(name: str, model: KubeletNode) -> Belief:
    """Return what is believed of a node with exact data."""
    zones = tuple(
        ZoneView(
            id=zone.id,
            name=f"node-{zone.id}",
            capacity=zone.capacity,
            allocatable=zone.allocatable,
            available=zone.available,
        )
        for zone in zones_of(model)
    )
    topology = NodeTopology(
        node=name,
        zones=zones,
        policy=TopologyPolicy(model.settings.topology_policy),
        cpu_manager_policy="static",
        memory_manager_policy="Static",
        report=report_of(model),
    )
    return Belief(topology, tuple(zone.available for zone in zones), kubelet=model)


def make_models() -> Iterator[KubeletNode]:
    """Yield large nodes on which more and more pods run."""
    for running in range(8):
        model = KubeletNode(
            large_machine(),
            KubeletSettings(
                topology_policy="single-numa-node",
                cpu_policy="static",
                reserved_cpus=CpuSet.parse("0,128"),
                memory_policy="Static",
                reserved_memory={0: {"memory": GIB}},
            ),
        )
        for index in range(4 * running):
            model.admit(make_pod(index, 1))
        yield model


def make_cluster(nodes: int, policy: str) -> Cluster:
    """Return a cluster whose zones are used at random, a third of them fully."""
    cluster = Cluster()
    dice = random.Random(1)
    zones = tuple(
        ZoneView(
            id=one,
            name=f"node-{one}",
            capacity=FULL,
            allocatable=FULL,
            available=FULL,
            costs={to: 10 if to == one else 12 if to // 4 == one // 4 else 32 for to in range(8)},
        )
        for one in range(ZONES)
    )
    for index in range(nodes):
        name = f"node-{index}"
        topology = NodeTopology(
            node=name,
            zones=zones,
            policy=TopologyPolicy(policy),
            cpu_manager_policy="static",
            memory_manager_policy="Static",
        )
        cluster.set_node(Node(metadata=ObjectMeta(name=name)))
        cluster.suppose(name, Belief(topology, used(dice)))
    return cluster


def used(dice: random.Random) -> tuple[Amounts, ...]:
    """Return what is free in each zone of a node in use."""
    return tuple(
        {name: amount if share >= 1 else int(amount * share) for name, amount in FULL.items()}
        for share in (dice.choice((0, dice.random(), 1)) for _ in range(ZONES))
    )


def touch(cluster: Cluster, dice: random.Random) -> None:
    """Change one node, as the reservation of the pod before does."""
    name = f"node-{dice.randrange(len(cluster.by_row))}"
    node = cluster.node(name)
    if node is not None and node.numa is not None and node.numa.topology is not None:
        cluster.suppose(name, Belief(node.numa.topology, used(dice)))


def make_pod(index: int, containers: int) -> Pod:
    """Return a guaranteed pod with a GPU and NICs; each *index* has a shape of its own."""
    wanted = [
        {"cpu": "8", "memory": f"{(16 << 10) + index}Mi", GPU: "1", NIC: "1"},
        {"cpu": "4", "memory": "8Gi", NIC: "1"},
    ]
    return Pod(
        metadata=ObjectMeta(name=f"pod-{index}", namespace="default", uid=f"uid-{index}"),
        spec=PodSpec(
            containers=tuple(
                Container(
                    name=f"c{number}", resources=ResourceRequirements(requests=one, limits=one)
                )
                for number, one in enumerate(wanted[:containers])
            )
        ),
    )
