"""From a KubeletConfiguration to settings and to what the node offers."""

from __future__ import annotations

from typing import Any

import pytest
from tests.kubelet.build import container, guaranteed, pod
from tests.kubelet.conftest import GIB, build_machine, dual_socket_ht

from numakube.api.kubelet_config import read_kubelet_config
from numakube.errors import KubeletStartError
from numakube.kubelet.kubelet_model import KubeletNode
from numakube.kubelet.kubelet_versions import behaviour_of
from numakube.kubelet.machine import Device, HugePages, Machine
from numakube.kubelet.manager_settings import KubeletSettings, unmodelled_option
from numakube.kubelet.resource_fit import check_fit
from numakube.kubelet.settings_from_config import allocatable_of, capacity_of, settings_of

MIB = 1 << 20


def machine() -> Machine:
    """Two NUMA nodes of 64 GiB, a GPU and 1 GiB in hugepages on each."""
    bare = build_machine([(0, 0, (0, 1)), (1, 1, (2, 3))], hugepages=(HugePages(2 * MIB, 512),))
    return Machine(
        nodes=bare.nodes,
        cpu_count=bare.cpu_count,
        socket_count=bare.socket_count,
        devices={"vendor.example/gpu": (Device("g0", (0,)), Device("g1", (1,), healthy=False))},
    )


def test_everything_the_managers_read_is_taken_over() -> None:
    """Reservations that add up let the kubelet start."""
    config = read_kubelet_config(
        """
        topologyManagerPolicy: restricted
        topologyManagerScope: pod
        topologyManagerPolicyOptions: {prefer-closest-numa-nodes: "true"}
        cpuManagerPolicy: static
        cpuManagerPolicyOptions: {full-pcpus-only: "true"}
        memoryManagerPolicy: Static
        reservedSystemCPUs: "0,1"
        kubeReserved: {memory: 400Mi}
        evictionHard: {memory.available: 100Mi}
        reservedMemory:
        - {numaNode: 0, limits: {memory: 300Mi}}
        - {numaNode: 1, limits: {memory: 200Mi}}
        """
    )
    node = KubeletNode(machine(), settings_of(config, machine()))
    assert (node.topology.policy, node.topology.scope) == ("restricted", "pod")
    assert node.topology.numa.closest
    assert node.cpus is not None
    assert node.cpus.reserved == 0b11
    assert node.cpus.options.full_cores_only
    assert node.memory is not None
    assert node.memory.books[1].tables["memory"].system_reserved == 200 * MIB


def test_an_empty_file_is_the_kubelets_defaults() -> None:
    """No alignment, no pinning."""
    settings = settings_of(read_kubelet_config(""), machine())
    assert (settings.topology_policy, settings.cpu_policy) == ("none", "none")
    assert settings.memory_policy == "None"
    assert settings.reserved_cpu_milli is None


def test_cpu_quantities_add_up_unless_a_list_is_given() -> None:
    """A fraction is kept; the static policy rounds it up."""
    config = read_kubelet_config("{systemReserved: {cpu: 500m}, kubeReserved: {cpu: 1}}")
    assert settings_of(config, machine()).reserved_cpu_milli == 1500


def test_reservations_of_nothing_are_none() -> None:
    """The static policy then says that it cannot determine them; 0% switches eviction off."""
    config = read_kubelet_config('{kubeReserved: {cpu: 0}, evictionHard: {memory.available: "0%"}}')
    settings = settings_of(config, machine())
    assert settings.reserved_cpu_milli is None
    assert not settings.memory_reservation


def test_an_eviction_percentage_is_of_the_capacity() -> None:
    """It counts into what reserved memory must add up to."""
    config = read_kubelet_config('{evictionHard: {memory.available: "5%"}}')
    reservation = settings_of(config, machine()).memory_reservation
    assert reservation is not None
    assert abs(reservation["memory"] - 128 * GIB * 0.05) < 1000


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{topologyManagerPolicy: strict}", "topologyManagerPolicy"),
        ('{reservedSystemCPUs: "0,9"}', "reserved-cpus: 0,9 is not a subset of online-cpus: 0-3"),
        ("{memoryManagerPolicy: Static, reservedMemory: [{numaNode: 0, limits: {cpu: 1}}]}", "cpu"),
        ("{systemReserved: {hugepages-2Mi: 2Mi}}", 'cannot reserve "hugepages-2Mi" resource'),
        ("{kubeReserved: {cpu: -1}}", 'resource quantity for "cpu" cannot be negative: -1'),
        ("{kubeReserved: {cpu: two}}", 'failed to parse quantity "two" for "cpu" resource'),
        ("{evictionHard: {memory.available: much}}", "evictionHard: memory.available"),
    ],
)
def test_what_the_kubelet_refuses_is_refused(text: str, problem: str) -> None:
    """In its words."""
    with pytest.raises(KubeletStartError, match=problem):
        settings_of(read_kubelet_config(text), machine())


def test_allocatable_is_capacity_less_reservations_and_hugepages() -> None:
    """As the node's status shows it."""
    config = read_kubelet_config(
        """
        systemReserved: {cpu: 1, memory: 1Gi}
        evictionHard: {memory.available: 512Mi}
        maxPods: 30
        """
    )
    assert capacity_of(machine())["memory"] == 128 * GIB
    assert allocatable_of(config, machine()) == {
        "cpu": 3000,
        "memory": 128 * GIB - GIB - 512 * MIB - 2 * GIB,
        "pods": 30,
        "hugepages-2Mi": 2 * GIB,
        "vendor.example/gpu": 1,
    }


def test_a_pod_that_does_not_fit_is_out_of_the_first_resource_that_is_short() -> None:
    """Pods are counted first, then CPU, then memory; the numbers are in base units."""
    allocatable = {"cpu": 4000, "memory": 4 * GIB, "pods": 2, "vendor.example/gpu": 1}
    running = pod(guaranteed("c", "3", "1Gi", gpu="1"), uid="running")
    big = check_fit(pod(guaranteed("c", "2", "8Gi")), [running], allocatable)
    assert big is not None
    assert (big.reason, big.message) == (
        "OutOfcpu",
        "Node didn't have enough resource: cpu, requested: 2000, used: 3000, capacity: 4000",
    )
    wide = check_fit(pod(guaranteed("c", "1", "8Gi")), [running], allocatable)
    assert wide is not None
    assert wide.reason == "OutOfmemory"
    second = check_fit(pod(container("c", gpu="1")), [running], allocatable)
    assert second is not None
    assert second.reason == "OutOfvendor.example/gpu"
    full = check_fit(pod(container("c")), [running, running], allocatable)
    assert full is not None
    assert full.message == (
        "Node didn't have enough resource: pods, requested: 1, used: 2, capacity: 2"
    )
    assert check_fit(pod(guaranteed("c", "1", "1Gi")), [running], allocatable) is None


def test_resources_that_no_plugin_knows_are_let_pass() -> None:
    """The kubelet removes them before it checks; a plugin may come later."""
    unknown = pod(container("c", **{"vendor.example/fpga": "1"}))
    assert check_fit(unknown, [], {"cpu": 1000, "memory": GIB, "pods": 1}) is None


def test_a_machine_without_devices_or_hugepages_offers_neither() -> None:
    """Only what is there is listed."""
    assert set(capacity_of(dual_socket_ht())) == {"cpu", "memory", "pods"}


@pytest.mark.parametrize(
    ("settings", "option"),
    [
        ({"topology_policy": "restricted", "topology_options": {"zigzag": "1"}}, "zigzag=1"),
        ({"topology_policy": "none", "topology_options": {"zigzag": "1"}}, ""),
        ({"cpu_policy": "static", "cpu_options": {"quiet": "yes", "zigzag": "1"}}, "quiet=yes"),
        ({"cpu_policy": "none", "cpu_options": {"quiet": "yes"}}, ""),
        ({"cpu_policy": "static", "cpu_options": {"full-pcpus-only": "true"}}, ""),
    ],
)
def test_options_that_the_model_does_not_know_are_told_where_they_are_in_force(
    settings: dict[str, Any], option: str
) -> None:
    """The first of them by name."""
    assert unmodelled_option(KubeletSettings(**settings), behaviour_of("1.37")) == option
