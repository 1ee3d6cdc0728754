"""What zones should say, by the model's own account."""

from __future__ import annotations

from hypothesis import given
from tests.kubelet.build import admit, container, guaranteed, pod, start, static_settings
from tests.kubelet.conftest import GIB, dual_socket_ht
from tests.kubelet.scenarios import workloads
from tests.topology.reports import run, through_text

from numakube.api.pod import Pod
from numakube.kubelet.kubelet_model import KubeletNode
from numakube.kubelet.machine import Device
from numakube.kubelet.manager_settings import KubeletSettings
from numakube.topology.zone_amounts import ZoneAmounts, zones_of

GPU = "vendor.example/gpu"


def test_zones_tell_what_is_there_what_may_be_used_and_what_is_left() -> None:
    """One reserved CPU, reserved memory, a broken device and one on two NUMA nodes."""
    settings = static_settings(
        "best-effort", memory_policy="Static", reserved_memory={0: {"memory": GIB}}
    )
    devices = {GPU: (Device("a", (0,)), Device("b", (0, 1)), Device("c", (1,), healthy=False))}
    node = start(dual_socket_ht(), settings, devices=devices)
    admit(node, pod(guaranteed("c", "2", "2Gi", gpu="1"), uid="one"))
    assert zones_of(node) == (
        ZoneAmounts(
            0,
            {"cpu": 6000, "memory": 64 * GIB, GPU: 2},
            {"cpu": 5000, "memory": 63 * GIB, GPU: 2},
            {"cpu": 3000, "memory": 61 * GIB, GPU: 1},
        ),
        ZoneAmounts(
            1,
            {"cpu": 6000, "memory": 64 * GIB, GPU: 1},
            {"cpu": 6000, "memory": 64 * GIB, GPU: 1},
            {"cpu": 6000, "memory": 64 * GIB, GPU: 1},
        ),
    )


def test_without_managers_a_zone_only_has_its_cpus_as_capacity() -> None:
    """Policy none has nothing to give out."""
    (first, _) = zones_of(start(dual_socket_ht(), KubeletSettings()))
    assert first == ZoneAmounts(0, {"cpu": 6000}, {"cpu": 0}, {"cpu": 0})


def test_cpus_of_a_finished_init_container_stay_with_the_pod() -> None:
    """PodResources do not list them, but nobody else can have them."""
    node = start(dual_socket_ht(), static_settings())
    big, small = guaranteed("i", "4"), guaranteed("c", "2")
    admit(node, pod(small, init=(big,), uid="one"))
    assert sum(zone.available["cpu"] for zone in zones_of(node)) == 7000


def test_what_a_removed_pod_held_is_available() -> None:
    """It is free for the next pod."""
    node = start(dual_socket_ht(), static_settings())
    before = zones_of(node)
    admit(node, pod(guaranteed("c", "4"), uid="one"))
    admit(node, pod(container("c"), uid="two"))
    assert zones_of(node) != before
    node.remove("one")
    assert zones_of(node) == before


@given(workloads())
def test_a_rebuilt_model_has_the_same_zones(case: tuple[KubeletNode, list[Pod | str]]) -> None:
    """And nothing is ever below zero or above what may be used."""
    node, steps = case
    run(node, steps)
    zones = zones_of(node)
    assert zones_of(through_text(node)) == zones
    for zone in zones:
        for name, amount in zone.available.items():
            assert 0 <= amount <= zone.allocatable[name] <= zone.capacity[name]
