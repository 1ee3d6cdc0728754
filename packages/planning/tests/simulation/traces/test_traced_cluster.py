"""Machines and pods that are made from a trace."""

from dataclasses import replace

import pytest

from numakube_planning.simulation.compared_schedulers import scheduler_arm
from numakube_planning.simulation.simulator import simulate
from numakube_planning.simulation.trace_rows import TraceNode, TracePod
from numakube_planning.simulation.traced_cluster import (
    GPU,
    MODEL,
    RDMA,
    CpuRounding,
    Guaranteed,
    Order,
    Promotion,
    SharedGpus,
    TraceNodes,
    trace_cluster,
    trace_workload,
)
from numakube_planning.simulation.workload import typical_pods

GIB = 1 << 30
BIG = TraceNode(name="big", cpu_milli=96000, memory_bytes=384 * GIB, gpus=8, gpu_model="G2")
ODD = TraceNode(name="odd", cpu_milli=82000, memory_bytes=64 * GIB, gpus=1, gpu_model="A10")
SMALL = TraceNode(name="small", cpu_milli=32000, memory_bytes=128 * GIB)
NODES = (BIG, ODD, SMALL)


def a_pod(name: str = "p", **fields: object) -> TracePod:
    """Return a pod with 11.9 CPUs and a GPU."""
    made = TracePod(name=name, cpu_milli=11908, memory_bytes=24 * GIB, gpus=1, gpu_milli=1000)
    return replace(made, **fields)  # type: ignore[arg-type]


def test_large_nodes_have_two_zones_with_half_of_everything() -> None:
    """Large nodes have two zones with half of everything, an odd GPU in the first."""
    big, odd = (node.machine for node in trace_cluster(NODES).nodes)
    assert [(len(zone.cores), zone.memory_bytes) for zone in big.nodes] == [(24, 192 * GIB)] * 2
    assert (big.cpu_count, odd.cpu_count) == (96, 82)
    assert [device.numa_nodes for device in big.devices[GPU]] == [(0,)] * 4 + [(1,)] * 4
    assert [device.numa_nodes for device in odd.devices[GPU]] == [(0,)]


def test_nodes_can_be_all_or_some_and_know_their_model() -> None:
    """Nodes without GPUs can take part, and a part of the nodes can stand for all."""
    every = trace_cluster(NODES, Promotion(nodes=TraceNodes.ALL, two_zones_from=33))
    assert [len(node.machine.nodes) for node in every.nodes] == [2, 2, 1]
    assert every.nodes[0].labels == {MODEL: "G2"}
    assert [node.name for node in trace_cluster(NODES, Promotion(every=2)).nodes] == ["big"]


def spec_of(pod: TracePod, rules: Promotion) -> list[tuple[dict[str, object], dict[str, object]]]:
    """Return requests and limits of the containers of *pod*."""
    cluster = trace_cluster([BIG])
    (arrival, *_) = trace_workload([pod], cluster, replace(rules, order=Order.TRACE)).arrivals
    asked = [container.resources for container in arrival.pod.spec.containers]
    return [(dict(one.requests), dict(one.limits)) for one in asked if one is not None]


def test_pods_are_guaranteed_with_whole_cpus_by_default() -> None:
    """Pods are Guaranteed and have whole CPUs if nothing else is chosen."""
    wanted = {"cpu": "12000m", "memory": str(24 * GIB), GPU: "1"}
    assert spec_of(a_pod(), Promotion()) == [(wanted, wanted)]


def test_cpus_can_stay_as_they_are() -> None:
    """CPUs can be rounded to the nearest, or stay as they are."""
    pod = a_pod(cpu_milli=11400)
    cpus = {rule: spec_of(pod, Promotion(cpu_rounding=rule))[0][0]["cpu"] for rule in CpuRounding}
    assert cpus == {"up": "12000m", "nearest": "11000m", "none": "11400m"}


@pytest.mark.parametrize(
    ("rule", "qos", "has_limits"),
    [
        (Guaranteed.ALL, "BE", True),
        (Guaranteed.LATENCY_SENSITIVE, "LS", True),
        (Guaranteed.LATENCY_SENSITIVE, "BE", False),
        (Guaranteed.NONE, "LS", False),
    ],
)
def test_which_pods_are_guaranteed_can_be_chosen(
    rule: Guaranteed, qos: str, has_limits: bool
) -> None:
    """Which pods are Guaranteed can be chosen by their class in the trace."""
    ((_, limits),) = spec_of(a_pod(qos=qos), Promotion(guaranteed=rule))
    assert ("cpu" in limits) is has_limits
    assert limits[GPU] == "1"


def test_a_part_of_a_gpu_is_a_whole_one_or_none() -> None:
    """A part of a GPU is a whole one, none, or the pod does not come."""
    pod = a_pod(gpu_milli=460)
    assert spec_of(pod, Promotion())[0][0][GPU] == "1"
    assert GPU not in spec_of(pod, Promotion(shared_gpus=SharedGpus.NONE))[0][0]
    left_out = Promotion(shared_gpus=SharedGpus.LEFT_OUT, order=Order.TRACE)
    assert trace_workload([pod], trace_cluster(NODES), left_out).arrivals == ()


def test_a_helper_takes_cpus_and_memory_of_its_pod() -> None:
    """A helper takes its CPUs and memory from its pod, which asks for no more than before."""
    (main, _), (helper, limits) = spec_of(a_pod(), Promotion(helper_cpus=1))
    assert (main["cpu"], helper["cpu"], main[GPU]) == ("11000m", "1000m", "1")
    assert int(str(main["memory"])) + int(str(helper["memory"])) == 24 * GIB
    assert helper == limits
    assert len(spec_of(a_pod(cpu_milli=700), Promotion(helper_cpus=1))) == 1


def test_bandwidth_of_network_cards_is_given_out_in_parts() -> None:
    """Bandwidth of network cards is given out in parts, rounded up."""
    ((requests, limits),) = spec_of(a_pod(rdma_percent=30), Promotion(rdma_parts=4))
    assert requests[RDMA] == limits[RDMA] == "2"


def test_pods_go_to_the_models_that_they_accept() -> None:
    """Pods run on the models that they accept."""
    nodes = [replace(BIG, name=model, gpu_model=model) for model in ("G2", "T4", "P100")]
    cluster = trace_cluster(nodes)
    pods = [a_pod(f"p{number}", gpu_models=("T4",)) for number in range(3)]
    workload = trace_workload(pods, cluster, Promotion(order=Order.TRACE))
    result = simulate(cluster, workload, scheduler_arm("numakube"))
    assert (result.ran, result.pods_by_node) == (3, (0, 3, 0))


def test_pods_come_until_enough_is_asked_for_and_none_ends() -> None:
    """Pods come at a steady pace until enough GPUs are asked for, and none ends."""
    cluster = trace_cluster(NODES)
    rules = Promotion(pods_per_second=2.0)
    coming = trace_workload([a_pod(), a_pod("q")], cluster, rules, seed=3)
    assert len(coming.arrivals) == 12
    assert [arrival.at for arrival in coming.arrivals[:3]] == [0.0, 0.5, 1.0]
    assert {arrival.seconds for arrival in coming.arrivals} == {None}
    assert len({arrival.pod.metadata.name for arrival in coming.arrivals}) == 12
    assert coming == trace_workload([a_pod(), a_pod("q")], cluster, rules, seed=3)


def test_pods_can_come_and_go_as_in_the_trace() -> None:
    """Pods can come and go as in the trace, with long pauses cut."""
    pods = [
        a_pod("late", created=10_000.0, deleted=10_500.0),
        a_pod("soon", created=20.0, deleted=25.0),
        a_pod("kept", created=10_010.0),
    ]
    coming = trace_workload(pods, trace_cluster(NODES), Promotion(order=Order.TRACE)).arrivals
    assert [(arrival.at, arrival.seconds) for arrival in coming] == [
        (20.0, 5.0),
        (80.0, 500.0),
        (90.0, None),
    ]


def test_the_commonest_pods_can_be_those_to_keep_room_for() -> None:
    """The strategy LeastFragmentation keeps room for the commonest pods of a workload."""
    pods = [a_pod("a"), a_pod("b", gpu_milli=300), a_pod("c", gpus=0, gpu_milli=0)]
    cluster = trace_cluster([BIG])
    workload = trace_workload(pods, cluster, Promotion(order=Order.TRACE))
    typical = typical_pods(workload)
    assert typical == (
        {"requests": {"cpu": "12", GPU: "1"}, "weight": 2},
        {"requests": {"cpu": "12"}, "weight": 1},
    )
    arm = scheduler_arm("numakube:LeastFragmentation", typical=lambda: typical)
    assert simulate(cluster, workload, arm).rejections == {}


def test_rules_are_named_with_the_workload() -> None:
    """The rules go with the workload; those that mean nothing are left out."""
    cluster = trace_cluster(NODES)
    notes = trace_workload([a_pod()], cluster, Promotion(helper_cpus=1)).notes
    assert {"two-zones-from: 48", "cpu-rounding: up", "helper-cpus: 1", "demand: 1.3"} <= {*notes}
    assert not any(note.startswith("longest-gap") for note in notes)
