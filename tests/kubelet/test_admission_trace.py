"""What a trace tells about a decision."""

from __future__ import annotations

import pytest
from tests.kubelet.build import admit, container, guaranteed, pod, reject, start, static_settings
from tests.kubelet.conftest import GIB, dual_socket_ht

from numakube.kubelet.admission_trace import AdmissionTrace, Shortfall
from numakube.kubelet.machine import Device

GPU = "vendor.example/gpu"


def test_a_good_placement_says_what_fits_where() -> None:
    """One step a container, with each resource's demand and what was free."""
    node = start(
        dual_socket_ht(),
        static_settings("restricted"),
        devices={GPU: (Device("g0", (0,)), Device("g1", (1,)))},
    )
    trace = AdmissionTrace()
    admit(node, pod(guaranteed("c", "2", gpu="1")), trace)
    (step,) = trace.alignments
    assert step.container == "c"
    assert step.why == "vendor.example/gpu, cpu fit together on NUMA node 0"
    assert [
        (resource.resource, resource.wanted, dict(resource.free_by_node))
        for resource in step.resources
    ] == [
        (GPU, 1, {0: 1, 1: 1}),
        ("cpu", 2, {0: 5, 1: 6}),
    ]
    assert not step.shortfalls


def test_a_crowded_machine_names_the_best_node_and_what_it_lacks() -> None:
    """The number an operator needs: how much more would have been enough."""
    node = start(dual_socket_ht(), static_settings("single-numa-node"))
    admit(node, pod(guaranteed("c", "2"), uid="other"))
    trace = AdmissionTrace()
    reject(node, pod(guaranteed("c", "7")), trace)
    (step,) = trace.alignments
    assert step.shortfalls == (Shortfall("cpu", 1, wanted=7, free=6),)
    assert step.shortfalls[0].missing == 1
    assert step.why == "cpu: 7 wanted, the best NUMA node (1) has 6 free"


def test_a_machine_without_room_says_so() -> None:
    """Nothing to do with alignment: there are not enough CPUs at all."""
    node = start(dual_socket_ht(), static_settings("restricted"))
    trace = AdmissionTrace()
    reject(node, pod(guaranteed("c", "12")), trace)
    assert trace.alignments[-1].why == "cpu: 12 wanted, 11 free on the whole machine"


def test_resources_that_want_different_nodes_are_listed_with_their_wishes() -> None:
    """Each fits by itself, but not together."""
    node = start(
        dual_socket_ht(),
        static_settings("restricted"),
        devices={GPU: (Device("g0", (0,)),)},
        kubernetes="1.36",
    )
    trace = AdmissionTrace()
    reject(node, pod(guaranteed("c", "6", gpu="1")), trace)
    assert trace.alignments[-1].why == (
        "no NUMA nodes suit all resources: vendor.example/gpu wants NUMA node 0; "
        "cpu wants NUMA node 1"
    )


def test_a_failed_allocation_keeps_what_was_asked_and_what_was_free() -> None:
    """Memory speaks up only when it has to allocate."""
    settings = static_settings(
        "best-effort", memory_policy="Static", reserved_memory={0: {"memory": GIB}}
    )
    node = start(dual_socket_ht(), settings)
    trace = AdmissionTrace()
    reject(node, pod(guaranteed("c", "1", memory="200Gi")), trace)
    (failed,) = trace.failed
    assert (failed.provider, failed.resource, failed.wanted) == ("memory", "memory", 200 * GIB)
    assert failed.free == 127 * GIB
    memory = trace.alignments[-1].resources[-1]
    assert memory.fits_nowhere
    assert memory.hints is None


def test_pods_that_ask_for_nothing_special_are_content_anywhere() -> None:
    """No provider has an opinion."""
    node = start(dual_socket_ht(), static_settings("single-numa-node"))
    trace = AdmissionTrace()
    admit(node, pod(container("c")), trace)
    assert trace.alignments[-1].why == "no resource asks for particular NUMA nodes"


def test_pod_scope_has_one_step_for_the_whole_pod() -> None:
    """The sum of all containers is aligned at once."""
    node = start(dual_socket_ht(), static_settings("restricted", topology_scope="pod"))
    trace = AdmissionTrace()
    admit(node, pod(guaranteed("a", "2"), guaranteed("b", "2")), trace)
    (step,) = trace.alignments
    assert step.container is None
    assert step.resources[0].wanted == 4


def test_a_resource_without_any_preferred_place_is_crowded() -> None:
    """Four CPUs would fit a NUMA node, if other pods had left more than three free."""
    node = start(dual_socket_ht(), static_settings("single-numa-node"))
    admit(node, pod(guaranteed("c", "2"), uid="one"))
    admit(node, pod(guaranteed("c", "4"), uid="other"))
    trace = AdmissionTrace()
    reject(node, pod(guaranteed("c", "4")), trace)
    step = trace.alignments[-1]
    assert step.resources[0].preferred_masks == ()
    assert step.why == "cpu: 4 wanted, the best NUMA node (0) has 3 free"


@pytest.mark.parametrize(("scope", "wanted"), [("container", [1, 2]), ("pod", [3])])
def test_memory_is_asked_for_by_container_or_by_pod(scope: str, wanted: list[int]) -> None:
    """As the scope says."""
    settings = static_settings(
        "restricted",
        topology_scope=scope,
        memory_policy="Static",
        reserved_memory={0: {"memory": GIB}},
    )
    trace = AdmissionTrace()
    whole = pod(guaranteed("a", "1", "1Gi"), guaranteed("b", "1", "2Gi"))
    admit(start(dual_socket_ht(), settings), whole, trace)
    asked = [
        resource.wanted // GIB
        for step in trace.alignments
        for resource in step.resources
        if resource.resource == "memory"
    ]
    assert asked == wanted


def test_a_pod_asks_for_the_devices_of_the_containers_that_have_some() -> None:
    """The others add nothing."""
    node = start(
        dual_socket_ht(),
        static_settings("restricted", topology_scope="pod"),
        devices={GPU: (Device("g0", (0,)), Device("g1", (0,)), Device("g2", (0,)))},
    )
    trace = AdmissionTrace()
    admit(node, pod(guaranteed("a", gpu="2"), guaranteed("b"), guaranteed("c")), trace)
    wanted = {resource.resource: resource.wanted for resource in trace.alignments[0].resources}
    assert wanted == {GPU: 2, "cpu": 3}
