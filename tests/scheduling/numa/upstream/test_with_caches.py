"""Both forms of upstream mode agree on what every cache believes, bookings included."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from numakube.api.codec import convert
from numakube.api.nodes import Node
from numakube.api.nrt import convert_nrt
from numakube.api.pod import Pod
from numakube.scheduling.framework.cycle_state import CycleState
from numakube.scheduling.framework.status import SUCCESS
from numakube.scheduling.numa.caches.overreserve import OverReserve
from numakube.scheduling.numa.caches.passthrough import DiscardReserved, Passthrough
from numakube.scheduling.numa.caches.predict import Predict
from numakube.scheduling.numa.upstream.upstream_engine import UpstreamEngine
from numakube.scheduling.snapshot.cluster import Cluster
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing.reported_nodes import STRATEGIES

if TYPE_CHECKING:
    from collections.abc import Callable

    from numakube.scheduling.numa.caches.cache_contract import NumaCache
    from numakube.scheduling.snapshot.zone_belief import BeliefChanges

GPU = "vendor.example/gpu"


def report(name: str, *, version: int, free: list[tuple[int, int, int]], scope: str) -> object:
    """A report of zones with free CPUs, GiB and GPUs."""
    zones = [
        {
            "name": f"node-{index}",
            "type": "Node",
            "resources": [
                {"name": "cpu", "capacity": "16", "allocatable": "16", "available": str(cpus)},
                {
                    "name": "memory",
                    "capacity": "64Gi",
                    "allocatable": "64Gi",
                    "available": f"{gib}Gi",
                },
                {"name": GPU, "capacity": "4", "allocatable": "4", "available": str(gpus)},
            ],
        }
        for index, (cpus, gib, gpus) in enumerate(free)
    ]
    attributes = {"topologyManagerPolicy": "single-numa-node", "topologyManagerScope": scope}
    return {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": name, "resourceVersion": str(version)},
        "attributes": [{"name": key, "value": value} for key, value in attributes.items()],
        "zones": zones,
    }


def pod(uid: str, cpus: str, gib: int, gpus: int, containers: int) -> PodInfo:
    """A Guaranteed pod."""
    amounts = {"cpu": cpus, "memory": f"{gib}Gi", GPU: str(gpus)}
    each = [
        {"name": f"c{index}", "resources": {"requests": amounts, "limits": amounts}}
        for index in range(containers)
    ]
    tree = {
        "metadata": {"name": uid, "namespace": "default", "uid": uid},
        "spec": {"containers": each},
    }
    return PodInfo(convert(Pod, tree))


zones = st.lists(
    st.tuples(st.integers(0, 16), st.integers(0, 64), st.integers(0, 4)), min_size=1, max_size=4
)
wishes = st.tuples(
    st.sampled_from(["1", "4", "500m", "9"]),
    st.sampled_from([1, 8, 40]),
    st.integers(0, 2),
    st.integers(1, 2),
)


@pytest.mark.parametrize("make", [Passthrough, DiscardReserved, OverReserve, Predict])
@settings(max_examples=25)
@given(data=st.data())
def test_bookings_mean_the_same_to_both_forms(
    make: Callable[[], NumaCache], data: st.DataObject
) -> None:
    """Whatever was reported, booked and given back."""
    cache, cluster = make(), Cluster()
    engines = [UpstreamEngine(strategy) for strategy in STRATEGIES]

    def apply(changes: BeliefChanges) -> None:
        cluster.take(changes, cache)

    for index in range(3):
        tree = {
            "metadata": {"name": f"n{index}"},
            "status": {"allocatable": {"cpu": "64", "memory": "256Gi", GPU: "16"}},
        }
        cluster.set_node(convert(Node, tree))
    for step in range(data.draw(st.integers(1, 8))):
        name = f"n{data.draw(st.integers(0, 2))}"
        if data.draw(st.integers(0, 2)) == 0:
            scope = data.draw(st.sampled_from(["pod", "container"]))
            made = report(name, version=step + 1, free=data.draw(zones), scope=scope)
            apply(cache.set_report(convert_nrt(made)))
        else:
            booked = pod(f"booked-{step}", *data.draw(wishes))
            apply(cache.reserve(booked, name))
            if data.draw(st.booleans()):
                apply(cache.unreserve(booked.uid, name))
        engine = data.draw(st.sampled_from(engines))
        check(engine, pod("p", *data.draw(wishes)), cluster)


def check(engine: UpstreamEngine, waiting: PodInfo, cluster: Cluster) -> None:
    """Compare the two forms."""
    state, snapshot = CycleState(), cluster.snapshot()
    verdicts = engine.filter_all(state, waiting, snapshot, snapshot.rows)
    scores = engine.score_all(state, waiting, snapshot, snapshot.rows)
    for position, node in enumerate(snapshot.nodes()):
        together = verdicts.status(position) if verdicts else SUCCESS
        assert together == engine.filter(state, waiting, node)
        assert scores[position] == engine.score(state, waiting, node)
