"""The vectorised forms give the answers of the reference, whatever the reports and the pods."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from numakube.api.codec import convert
from numakube.api.nodes import Node
from numakube.api.nrt import convert_nrt
from numakube.api.pod import Pod
from numakube.scheduling.framework.cycle_state import CycleState
from numakube.scheduling.framework.status import SUCCESS
from numakube.scheduling.numa.upstream.upstream_engine import UpstreamEngine
from numakube.scheduling.snapshot.cluster import Cluster
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing.reported_nodes import STRATEGIES, reported

GPU, NIC = "vendor.example/gpu", "vendor.example/nic"
RESOURCES = ("cpu", "memory", "hugepages-2Mi", "ephemeral-storage", GPU, NIC)

small = st.sampled_from(["0", "1", "2", "3", "4", "500m", "1500m", "8", "100"])
odd = st.sampled_from(["-1", "0.5", "1n", "1Gi", "9223372036854775807", "2E", "0m"])
amounts = st.one_of(small, small, small, odd)
names = st.one_of(
    st.integers(0, 3).map("node-{}".format),
    st.integers(0, 3).map("node-{}".format),
    st.sampled_from(["node-7", "node-63", "node-64", "numa-0", "node-01", "0"]),
)
requests = st.dictionaries(st.sampled_from(RESOURCES), small, max_size=4)


@st.composite
def zones(draw: st.DrawFn, *, plain: bool) -> list[dict[str, Any]]:
    """Zones of one node: 0 to n as most producers write them, or anything."""
    count = draw(st.integers(0 if not plain else 1, 4))
    made = []
    for index in range(count):
        available = draw(
            st.dictionaries(st.sampled_from(RESOURCES), small if plain else amounts, max_size=6)
        )
        targets = [f"node-{to}" for to in range(count)]
        costs = draw(st.dictionaries(st.sampled_from(targets), st.integers(9, 13)))
        made.append(
            {
                "name": f"node-{index}" if plain else draw(names),
                "type": "Node" if plain else draw(st.sampled_from(["Node", "Node", "Socket"])),
                "resources": [
                    {"name": name, "capacity": "1000", "allocatable": "1000", "available": text}
                    for name, text in available.items()
                ],
                "costs": [{"name": name, "value": value} for name, value in costs.items()],
            }
        )
    return made


@st.composite
def nrts(draw: st.DrawFn, name: str) -> dict[str, Any]:
    """Any report."""
    policy = draw(st.sampled_from(["single-numa-node", "single-numa-node", "restricted", "odd"]))
    attributes = {
        "topologyManagerPolicy": policy,
        "topologyManagerScope": draw(st.sampled_from(["pod", "container"])),
        "topologyManagerMaxNUMANodes": draw(st.sampled_from(["8", "3", "200", "x"])),
    }
    legacy = draw(st.sampled_from([[], ["SingleNUMANodePodLevel"], ["Restricted"]]))
    return {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": name},
        "attributes": [{"name": key, "value": value} for key, value in attributes.items()],
        "topologyPolicies": legacy,
        "zones": draw(st.one_of(zones(plain=True), zones(plain=True), zones(plain=False))),
    }


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    """Nodes with and without reports, some in doubt, some removed."""
    cluster = Cluster()
    for index in range(draw(st.integers(1, 6))):
        name = f"n{index}"
        offered = {"cpu": "100", **draw(st.dictionaries(st.sampled_from([GPU, NIC]), small))}
        cluster.set_node(
            convert(Node, {"metadata": {"name": name}, "status": {"allocatable": offered}})
        )
        if draw(st.integers(0, 9)):
            cluster.suppose(name, reported(convert_nrt(draw(nrts(name)))))
    if len(cluster.row_of) > 1 and draw(st.booleans()):
        cluster.remove_node("n0")
    return cluster


@st.composite
def pods(draw: st.DrawFn) -> PodInfo:
    """Any pod."""
    sizes = draw(st.lists(requests, min_size=1, max_size=3))
    inits = draw(st.lists(st.tuples(requests, st.booleans()), max_size=2))
    qos = draw(st.sampled_from(["Guaranteed", "Guaranteed", "Burstable", "BestEffort"]))
    tree = {
        "metadata": {"name": "p", "namespace": "default", "uid": "p"},
        "spec": {
            "containers": [
                {"name": f"c{index}", "resources": {"requests": wanted}}
                for index, wanted in enumerate(sizes)
            ],
            "initContainers": [
                {
                    "name": f"i{index}",
                    "resources": {"requests": wanted},
                    **({"restartPolicy": "Always"} if sidecar else {}),
                }
                for index, (wanted, sidecar) in enumerate(inits)
            ],
            "overhead": draw(st.sampled_from([{}, {"cpu": "1"}])),
        },
        "status": {"qosClass": qos},
    }
    return PodInfo(convert(Pod, tree))


@settings(max_examples=75)
@given(clusters(), st.lists(pods(), min_size=1, max_size=2))
def test_all_nodes_at_once_get_the_answers_of_each_node(
    cluster: Cluster, waiting: list[PodInfo]
) -> None:
    """Status, reasons and every score are equal."""
    snapshot, state = cluster.snapshot(), CycleState()
    weights = {"cpu": 3, GPU: 0, "memory": -1}
    for strategy in STRATEGIES:
        engine = UpstreamEngine(strategy, weights)
        for pod in waiting:
            verdicts = engine.filter_all(state, pod, snapshot, snapshot.rows)
            scores = engine.score_all(state, pod, snapshot, snapshot.rows)
            for position, row in enumerate(snapshot.rows):
                node = snapshot.at(int(row))
                together = verdicts.status(position) if verdicts else SUCCESS
                assert together == engine.filter(state, pod, node)
                assert scores[position] == engine.score(state, pod, node)
                assert 0 <= scores[position] <= 100


@settings(max_examples=50)
@given(clusters(), pods(), st.data())
def test_some_nodes_in_any_order_get_the_same_answers(
    cluster: Cluster, pod: PodInfo, data: st.DataObject
) -> None:
    """Rows may be asked about in any order."""
    snapshot, state = cluster.snapshot(), CycleState()
    rows = data.draw(st.permutations(list(snapshot.rows)))
    chosen = snapshot.rows[[list(snapshot.rows).index(row) for row in rows[:3]]]
    engine = UpstreamEngine("LeastNUMANodes")
    verdicts = engine.filter_all(state, pod, snapshot, chosen)
    scores = engine.score_all(state, pod, snapshot, chosen)
    for position, row in enumerate(chosen):
        node = snapshot.at(int(row))
        together = verdicts.status(position) if verdicts else SUCCESS
        assert together == engine.filter(state, pod, node)
        assert scores[position] == engine.score(state, pod, node)
