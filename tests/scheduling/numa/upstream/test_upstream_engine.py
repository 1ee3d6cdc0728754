"""Limits, oddities and panics of the Go plugin, one by one: what upstream mode does about each.

Where the Go plugin answers, we answer the same, also where native mode knows better. Where it
panics or leaves the range of scores, we give the answer that was meant.
"""

from __future__ import annotations

import time
from typing import Any

import pytest

from numakube.api.codec import convert
from numakube.api.nodes import Node
from numakube.api.nrt import convert_nrt
from numakube.api.pod import Pod
from numakube.scheduling.framework.cycle_state import CycleState
from numakube.scheduling.framework.status import SUCCESS, Code, Status
from numakube.scheduling.numa.upstream.upstream_engine import UpstreamEngine
from numakube.scheduling.snapshot.cluster import Cluster
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing.reported_nodes import STRATEGIES, reported

GPU = "vendor.example/gpu"
NAMES = {"gpu": GPU, "scratch": "ephemeral-storage"}
SINGLE = {"topologyManagerPolicy": "single-numa-node"}
POD_SCOPE = {**SINGLE, "topologyManagerScope": "pod"}
ONE_NUMA_STRATEGIES = [name for name in STRATEGIES if name != "LeastNUMANodes"]


def zone(name: str, costs: dict[str, int] | None = None, **available: str) -> dict[str, Any]:
    """A zone with that much available; see `NAMES`."""
    amounts = {NAMES.get(key, key): value for key, value in available.items()}
    return {
        "name": name,
        "type": "Node",
        "costs": [{"name": to, "value": value} for to, value in (costs or {}).items()],
        "resources": [
            {"name": key, "capacity": "1Ti", "allocatable": "1Ti", "available": value}
            for key, value in amounts.items()
        ],
    }


def container(name: str = "c", *, always: bool = False, **requests: str) -> dict[str, Any]:
    """A container that asks for that; see `NAMES`."""
    amounts = {NAMES.get(key, key): value for key, value in requests.items()}
    restart = {"restartPolicy": "Always"} if always else {}
    return {"name": name, "resources": {"requests": amounts, "limits": amounts}, **restart}


def pod(*containers: dict[str, Any], qos: str = "Guaranteed", **spec: Any) -> PodInfo:
    """A pod."""
    tree = {
        "metadata": {"name": "p", "namespace": "default", "uid": "p"},
        "spec": {"containers": list(containers), **spec},
        "status": {"qosClass": qos},
    }
    return PodInfo(convert(Pod, tree))


def cluster(
    *zones: dict[str, Any], attributes: dict[str, str] = SINGLE, allocatable: str = GPU, **more: Any
) -> Cluster:
    """One node with a report."""
    made = Cluster()
    status = {"allocatable": {"cpu": "64", "memory": "1Ti", allocatable: "8"}}
    made.set_node(convert(Node, {"metadata": {"name": "n"}, "status": status}))
    tree = {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": "n"},
        "attributes": [{"name": name, "value": value} for name, value in attributes.items()],
        "zones": list(zones),
        **more,
    }
    made.suppose("n", reported(convert_nrt(tree)))
    return made


def judged(waiting: PodInfo, known: Cluster) -> Status:
    """The verdict, on which both forms of the filter agree."""
    engine, snapshot = UpstreamEngine(), known.snapshot()
    status = engine.filter(CycleState(), waiting, snapshot.at(0))
    verdicts = engine.filter_all(CycleState(), waiting, snapshot, snapshot.rows)
    assert (verdicts.status(0) if verdicts else SUCCESS) == status
    return status


def rated(strategy: str, waiting: PodInfo, known: Cluster) -> int:
    """The score, on which both forms agree."""
    engine, snapshot = UpstreamEngine(strategy), known.snapshot()
    score = engine.score(CycleState(), waiting, snapshot.at(0))
    assert engine.score_all(CycleState(), waiting, snapshot, snapshot.rows).tolist() == [score]
    return score


@pytest.mark.parametrize("policy", ["none", "best-effort", "restricted"])
def test_other_policies_pass_unchecked_and_score_nothing(policy: str) -> None:
    """Native mode predicts them."""
    known = cluster(zone("node-0", cpu="1"), attributes={"topologyManagerPolicy": policy})
    waiting = pod(container(cpu="8", memory="1Gi"))
    assert judged(waiting, known).ok
    assert rated("LeastAllocated", waiting, known) == 0


def test_legacy_policies_count_only_with_a_scope() -> None:
    """``Restricted``, ``BestEffort`` and what is unknown say nothing."""
    waiting = pod(container(cpu="8", memory="1Gi"))
    small = zone("node-0", cpu="1", memory="4Gi")
    for legacy, reasons in (
        ("SingleNUMANodePodLevel", ("cannot align pod",)),
        ("SingleNUMANodeContainerLevel", ("cannot align container",)),
        ("SingleNUMANode", ()),
        ("Restricted", ()),
    ):
        known = cluster(small, attributes={}, topologyPolicies=[legacy])
        assert judged(waiting, known).reasons == reasons


def test_a_node_without_a_report_is_accepted_and_scores_nothing() -> None:
    """Nodes with data come first; a broken quantity is no data either."""
    waiting = pod(container(cpu="8", memory="1Gi"))
    bare = cluster(zone("node-0"))
    bare.suppose("n", None)
    broken = cluster(zone("node-0", cpu="many", memory="4Gi"))
    for known in (bare, broken):
        assert judged(waiting, known).ok
        assert all(rated(strategy, waiting, known) == 0 for strategy in STRATEGIES)


def test_zones_of_the_readme_demo_do_not_count_and_everything_is_refused() -> None:
    """They are called ``numa-node-0``; native mode reads them."""
    known = cluster(zone("numa-node-0", cpu="32", memory="64Gi"))
    waiting = pod(container(cpu="1", memory="1Gi"))
    assert judged(waiting, known).reasons == ("cannot align container",)


def test_memory_that_no_zone_reports_cannot_be_aligned() -> None:
    """As in the demo manifests; CPU, memory and hugepages must be reported, whatever the class."""
    known = cluster(zone("node-0", cpu="32"))
    for qos in ("Guaranteed", "Burstable"):
        waiting = pod(container(cpu="1", memory="1Gi"), qos=qos)
        assert judged(waiting, known).reasons == ("cannot align container",)


def test_devices_and_storage_that_no_zone_reports_belong_to_the_node() -> None:
    """But the node must offer them."""
    free = zone("node-0", cpu="32", memory="64Gi")
    wanted = container(cpu="1", memory="1Gi", gpu="4", scratch="1Gi")
    assert judged(pod(wanted), cluster(free)).ok
    elsewhere = cluster(free, allocatable="vendor.example/other")
    assert judged(pod(wanted), elsewhere).reasons == ("cannot align container",)


def test_burstable_pods_need_zones_for_devices_only() -> None:
    """Amounts of CPU and memory do not matter to them, as long as zones report them."""
    known = cluster(
        zone("node-0", cpu="1", memory="1Gi", gpu="0"), zone("node-1", cpu="0", memory="0", gpu="2")
    )
    assert judged(pod(container(cpu="8", memory="9Gi", gpu="2"), qos="Burstable"), known).ok
    assert not judged(pod(container(cpu="8", memory="9Gi", gpu="3"), qos="Burstable"), known).ok


def test_sidecars_are_checked_but_not_accounted_for() -> None:
    """The kubelet keeps what they take; native mode knows."""
    known = cluster(zone("node-0", cpu="8", memory="64Gi"))
    big, small = (
        container(cpu="6", memory="1Gi"),
        container("s", always=True, cpu="4", memory="1Gi"),
    )
    assert judged(pod(big, initContainers=[small]), known).ok
    small["resources"]["requests"]["cpu"] = "9"
    refused = judged(pod(big, initContainers=[small]), known)
    assert refused.reasons == ("cannot align sidecar container",)


def test_overhead_counts_in_pod_scope_only_and_pod_level_resources_never() -> None:
    """Native mode counts both."""
    waiting = pod(container(cpu="7", memory="1Gi"), overhead={"cpu": "2"})
    free = zone("node-0", cpu="8", memory="64Gi")
    assert judged(waiting, cluster(free)).ok
    assert judged(waiting, cluster(free, attributes=POD_SCOPE)).reasons == ("cannot align pod",)
    level = {"requests": {"cpu": "32", "memory": "1Gi"}, "limits": {"cpu": "32", "memory": "1Gi"}}
    assert judged(pod(container(cpu="1", memory="1Gi"), resources=level), cluster(free)).ok


def test_containers_take_the_lowest_zone_without_looking_ahead() -> None:
    """As the kubelet: the first container blocks the only zone that suits the second."""
    known = cluster(zone("node-0", cpu="8", memory="64Gi"), zone("node-1", cpu="4", memory="64Gi"))
    small, big = container(cpu="4", memory="1Gi"), container("d", cpu="8", memory="1Gi")
    assert judged(pod(big, small), known).ok
    assert judged(pod(small, big), known).reasons == ("cannot align container",)


def test_two_zones_with_one_id_are_an_accounting_error() -> None:
    """Both are charged, and one does not have it."""
    known = cluster(zone("node-0", cpu="8", memory="64Gi"), zone("node-00", cpu="1", memory="64Gi"))
    status = judged(pod(container(cpu="4", memory="1Gi")), known)
    assert status.code is Code.ERROR
    assert status.reasons == (
        "inconsistent resource accounting",
        'resource "cpu" request 4 exceeds NUMA 0 availability 1',
    )


def test_numa_id_64_is_left_out_instead_of_a_panic() -> None:
    """Ids are 0 to 63."""
    waiting = pod(container(cpu="4", memory="1Gi"))
    assert not judged(waiting, cluster(zone("node-64", cpu="8", memory="64Gi"))).ok
    last = cluster(zone("node-0", cpu="1", memory="1Gi"), zone("node-63", cpu="8", memory="64Gi"))
    assert judged(waiting, last).ok


@pytest.mark.parametrize("strategy", ONE_NUMA_STRATEGIES)
def test_ids_with_holes_are_scored_instead_of_a_panic(strategy: str) -> None:
    """Only zones 0 and 2: the same as 0 and 1."""
    waiting = pod(container(cpu="2", memory="20Mi"))
    first, second, third = (zone(f"node-{at}", cpu="4", memory="500Mi") for at in range(3))
    holes, whole = cluster(first, third), cluster(first, second)
    assert rated(strategy, waiting, holes) == rated(strategy, waiting, whole) > 0


@pytest.mark.parametrize("strategy", ONE_NUMA_STRATEGIES)
def test_a_container_that_asks_for_nothing_suits_every_zone_instead_of_a_panic(
    strategy: str,
) -> None:
    """It does not count in the mean."""
    known = cluster(zone("node-0", cpu="4", memory="500Mi"))
    wanted = container(cpu="2", memory="20Mi")
    assert rated(strategy, pod(wanted, container("idle")), known) == rated(
        strategy, pod(wanted), known
    )
    assert rated(strategy, pod(container("idle")), known) == 100


def test_a_single_resource_is_balanced_instead_of_no_number() -> None:
    """One share does not vary; if it does not fit it is still worth nothing."""
    known = cluster(zone("node-0", cpu="4"))
    assert rated("BalancedAllocation", pod(container(cpu="2")), known) == 100
    assert rated("BalancedAllocation", pod(container(cpu="5")), known) == 0


def test_scores_round_half_a_cpu_up_to_one() -> None:
    """500m of one CPU leave nothing free."""
    known = cluster(zone("node-0", cpu="1", memory="4Gi"))
    half = pod(container(cpu="500m", memory="1Gi"))
    assert rated("LeastAllocated", half, known) == (0 + 75) // 2
    assert rated("MostAllocated", half, known) == (100 + 25) // 2


def test_absurd_weights_cannot_overflow() -> None:
    """Only their proportion matters."""
    known = cluster(zone("node-0", cpu="4", memory="8Gi"))
    waiting, snapshot = pod(container(cpu="2", memory="2Gi")), known.snapshot()
    engine = UpstreamEngine("LeastAllocated", {"cpu": 2**63 - 1, "memory": 2**70})
    assert engine.score(CycleState(), waiting, snapshot.at(0)) == (50 + 75) // 2
    assert engine.score_all(CycleState(), waiting, snapshot, snapshot.rows).tolist() == [62]


def test_negative_availability_cannot_leave_the_range_of_scores() -> None:
    """Shares become negative, and so would the score."""
    known = cluster(zone("node-0", cpu="-1", memory="1Gi"))
    waiting = pod(container(cpu="8", memory="1Gi"))
    assert not judged(waiting, known).ok
    assert rated("BalancedAllocation", waiting, known) == 0


def test_pods_that_ask_for_something_no_zone_reports_score_nothing_under_least_numa_nodes() -> None:
    """Every zone of a combination must name every resource, also one of which none is wanted."""
    known = cluster(zone("node-0", cpu="8", memory="64Gi"))
    assert rated("LeastNUMANodes", pod(container(cpu="1", memory="1Gi")), known) == 94
    for wanted in (
        container(cpu="1", memory="1Gi", gpu="0"),
        container(cpu="1", memory="1Gi", scratch="1Gi"),
    ):
        assert rated("LeastNUMANodes", pod(wanted), known) == 0


def test_a_pod_that_asks_for_nothing_of_any_zone_is_perfect_under_least_numa_nodes() -> None:
    """Wherever it goes it needs no zone."""
    known = cluster(zone("node-0", cpu="8", memory="64Gi"))
    assert rated("LeastNUMANodes", pod(container(gpu="1")), known) == 100


def test_close_zones_are_preferred_but_equal_ones_are_tried_by_position() -> None:
    """The kubelet would try {1, 2} before {0, 3}; only the bonus for closeness differs."""
    near = {"node-0": 10, "node-1": 12, "node-2": 20, "node-3": 20}
    zones = [
        zone(
            f"node-{index}",
            {f"node-{to}": near[f"node-{to ^ index}"] for to in range(4)},
            cpu=cpus,
            memory="64Gi",
        )
        for index, cpus in enumerate(("4", "4", "4", "4"))
    ]
    assert rated("LeastNUMANodes", pod(container(cpu="8", memory="1Gi")), cluster(*zones)) == 82
    zones[1]["resources"][0]["available"] = zones[3]["resources"][0]["available"] = "0"
    assert rated("LeastNUMANodes", pod(container(cpu="8", memory="1Gi")), cluster(*zones)) == 76


def test_more_zones_than_the_kubelet_accepts_score_nothing_instead_of_less() -> None:
    """Three zones of at most two: the framework would refuse a negative score."""
    zones = [zone(f"node-{index}", cpu="4", memory="64Gi") for index in range(3)]
    known = cluster(*zones, attributes={**SINGLE, "topologyManagerMaxNUMANodes": "2"})
    assert rated("LeastNUMANodes", pod(container(cpu="12", memory="1Gi")), known) == 0


def test_a_very_large_limit_of_zones_makes_all_nodes_equal() -> None:
    """A zone is then worth less than one point."""
    zones = [zone(f"node-{index}", cpu="4", memory="64Gi") for index in range(3)]
    known = cluster(*zones, attributes={**SINGLE, "topologyManagerMaxNUMANodes": "200"})
    assert rated("LeastNUMANodes", pod(container(cpu="12", memory="1Gi")), known) == 100


def test_zones_in_another_order_are_charged_as_the_go_plugin_does() -> None:
    """It takes ids for positions: the first container is charged to the zone it did not use."""
    first, second = container(cpu="8", memory="1Gi"), container("d", cpu="8", memory="1Gi")
    zones = [zone("node-1", cpu="8", memory="64Gi"), zone("node-0", cpu="9", memory="64Gi")]
    assert rated("LeastNUMANodes", pod(first, second), cluster(*zones)) == 94
    swapped = [zone("node-1", cpu="8", memory="64Gi"), zone("node-0", cpu="1", memory="64Gi")]
    assert rated("LeastNUMANodes", pod(first, second), cluster(*swapped)) == 94
    assert rated("LeastNUMANodes", pod(first, second), cluster(*reversed(swapped))) == 0


def test_ids_that_are_no_positions_are_charged_right_instead_of_a_panic() -> None:
    """Only zones 0 and 5."""
    both = [zone("node-0", cpu="2", memory="64Gi"), zone("node-5", cpu="8", memory="64Gi")]
    wanted = [container(f"c{index}", cpu="4", memory="1Gi") for index in range(3)]
    assert rated("LeastNUMANodes", pod(*wanted[:2]), cluster(*both)) == 94
    assert rated("LeastNUMANodes", pod(*wanted), cluster(*both)) == 0


def test_amounts_that_are_no_whole_bytes_do_not_grow_while_combinations_are_tried() -> None:
    """The Go plugin writes sums back into such a zone, and finds two zones enough for 20 GiB."""
    memory = ("1.1Gi", "5Gi", "5Gi", "8Gi", "5Gi", "6Gi")
    known = cluster(*(zone(f"node-{at}", cpu="4", memory=gib) for at, gib in enumerate(memory)))
    # 8 + 6 + 5 is too little: it takes four zones.
    assert rated("LeastNUMANodes", pod(container(cpu="1", memory="20Gi")), known) == 100 - 48 + 6


def test_dozens_of_zones_do_not_stop_the_scheduler() -> None:
    """The Go plugin would try 2 to the power of 40 combinations; we give up at 4,096 of a size."""
    known = cluster(*(zone(f"node-{index}", cpu="1", memory="1Gi") for index in range(40)))
    start = time.process_time()
    assert rated("LeastNUMANodes", pod(container(cpu="2", memory="1Gi")), known) == 82
    assert rated("LeastNUMANodes", pod(container(cpu="20", memory="1Gi")), known) == 0
    assert time.process_time() - start < 5
