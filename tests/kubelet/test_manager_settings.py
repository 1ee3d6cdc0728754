"""What a configuration means to managers and node, and with which no kubelet starts."""

from __future__ import annotations

from typing import Any

import pytest
from tests.kubelet.build import container, guaranteed, pod, start, static_settings
from tests.kubelet.conftest import GIB, build_machine, dual_socket_ht

from numakube.api.kubelet_config import read_kubelet_config
from numakube.errors import ConfigError, KubeletStartError
from numakube.kubelet.kubelet_model import KubeletNode
from numakube.kubelet.kubelet_versions import Maturity, behaviour_of
from numakube.kubelet.machine import Device, HugePages, Machine
from numakube.kubelet.manager_settings import (
    KubeletSettings,
    allocatable_of,
    capacity_of,
    settings_of,
    unmodelled_option,
)
from numakube.kubelet.predicates import check_fit
from numakube.values.cpuset import CpuSet

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


# Configurations with which a kubelet does not start, in its own words.


def many_nodes(count: int) -> Machine:
    """A machine of *count* NUMA nodes of one CPU."""
    return build_machine([(0, node, (node,)) for node in range(count)])


def refusal(settings: KubeletSettings, machine: Machine | None = None) -> str:
    """Return the text with which the kubelet refuses to start."""
    with pytest.raises(KubeletStartError) as caught:
        start(machine or dual_socket_ht(), settings)
    return str(caught.value)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        (KubeletSettings(topology_policy="strict"), 'unknown policy: "strict"'),
        (
            KubeletSettings(topology_policy="restricted", topology_scope="zone"),
            'unknown scope: "zone"',
        ),
        (
            KubeletSettings(topology_policy="restricted", topology_options={"x": "1"}),
            'unknown Topology Manager Policy option: "x"',
        ),
        (
            KubeletSettings(
                topology_policy="restricted", topology_options={"max-allowable-numa-nodes": "4"}
            ),
            'the minimum value of "max-allowable-numa-nodes" should not be less than 8',
        ),
        (
            KubeletSettings(
                topology_policy="restricted", topology_options={"max-allowable-numa-nodes": "many"}
            ),
            'unable to convert policy option to integer "max-allowable-numa-nodes": '
            'strconv.Atoi: parsing "many": invalid syntax',
        ),
        (
            KubeletSettings(
                topology_policy="restricted", topology_options={"prefer-closest-numa-nodes": "yes"}
            ),
            'bad value for option "prefer-closest-numa-nodes": strconv.ParseBool: parsing "yes": '
            "invalid syntax",
        ),
        (KubeletSettings(cpu_policy="dynamic"), 'unknown policy: "dynamic"'),
        (
            KubeletSettings(cpu_options={"full-pcpus-only": "true"}),
            "new none policy error: None policy: received unsupported "
            "options=map[full-pcpus-only:true]",
        ),
        (
            KubeletSettings(cpu_policy="static"),
            "[cpumanager] unable to determine reserved CPU resources for static policy",
        ),
        (
            KubeletSettings(cpu_policy="static", reserved_cpu_milli=0),
            "[cpumanager] the static policy requires systemreserved.cpu + kubereserved.cpu to be "
            "greater than zero",
        ),
        (
            KubeletSettings(cpu_policy="static", reserved_cpu_milli=99_000),
            "new static policy error: [cpumanager] unable to reserve the required amount of CPUs "
            "(size of  did not equal 99)",
        ),
        (
            static_settings(reserved_cpus=CpuSet.of([99])),
            "new static policy error: [cpumanager] unable to build the reserved physical CPUs "
            "from the reserved set: unknown CPU ID: 99",
        ),
        (
            static_settings(cpu_options={"align-by-socket": "true"}, feature_gates={}),
            "new static policy error: CPU Manager Policy Alpha-level Options not enabled, but "
            'option "align-by-socket" provided',
        ),
        (
            static_settings(
                cpu_options={"distribute-cpus-across-numa": "true"},
                feature_gates={"CPUManagerPolicyBetaOptions": False},
            ),
            "new static policy error: CPU Manager Policy Beta-level Options not enabled, but "
            'option "distribute-cpus-across-numa" provided',
        ),
        (
            static_settings(cpu_options={"pin": "true"}),
            'new static policy error: unknown CPU Manager Policy option: "pin"',
        ),
        (KubeletSettings(memory_policy="static"), 'unknown policy: "static"'),
        (
            KubeletSettings(memory_policy="BestEffort"),
            'policy "BestEffort" is not available for platform "linux"',
        ),
        (
            KubeletSettings(memory_policy="Static"),
            "[memorymanager] you should specify the system reserved memory",
        ),
        (
            KubeletSettings(memory_policy="Static", reserved_memory={7: {"memory": GIB}}),
            "the reserved memory configuration references a NUMA node 7 that does not exist on "
            "this machine",
        ),
        (
            KubeletSettings(
                memory_policy="Static",
                reserved_memory={0: {"memory": GIB}},
                memory_reservation={"memory": 2 * GIB},
            ),
            'the total amount "1073741824" of type "memory" is not equal to the value '
            '"2147483648" determined by Node Allocatable feature',
        ),
    ],
)
def test_a_bad_configuration_is_refused_in_the_kubelets_words(
    settings: KubeletSettings, text: str
) -> None:
    """What the operator sees here is what the kubelet's log would say."""
    assert refusal(settings) == text


def test_more_numa_nodes_than_allowed_are_refused_unless_nothing_is_aligned() -> None:
    """Eight is the default limit; an option raises it; policy none has none."""
    limited = KubeletSettings(topology_policy="restricted")
    text = refusal(limited, many_nodes(9))
    assert text == "unsupported on machines with more than 8 NUMA Nodes"
    raised = KubeletSettings(
        topology_policy="restricted", topology_options={"max-allowable-numa-nodes": "9"}
    )
    start(many_nodes(9), raised)
    start(many_nodes(9), KubeletSettings())


def test_align_by_socket_needs_at_least_as_many_numa_nodes_as_sockets() -> None:
    """Two sockets in one NUMA node cannot be told apart by hints."""
    machine = build_machine([(0, 0, (0,)), (1, 0, (1,))])
    settings = static_settings(cpu_options={"align-by-socket": "true"})
    assert "number of sockets are more than number of NUMA" in refusal(settings, machine)


def test_closest_numa_nodes_need_distances() -> None:
    """A machine that tells none cannot honour the option."""
    settings = KubeletSettings(
        topology_policy="restricted", topology_options={"prefer-closest-numa-nodes": "true"}
    )
    machine = dual_socket_ht()
    bare = Machine(
        nodes=tuple(type(node)(node.id, node.memory_bytes, node.cores) for node in machine.nodes),
        cpu_count=machine.cpu_count,
        socket_count=machine.socket_count,
    )
    assert refusal(settings, bare) == (
        "cannot discover NUMA topology: error getting NUMA distances from cadvisor"
    )


@pytest.mark.parametrize(
    ("option", "version", "maturity"),
    [
        ("distribute-cpus-across-cores", "1.30", None),
        ("full-pcpus-only", "1.28", Maturity.BETA),
        ("full-pcpus-only", "1.31", Maturity.BETA),
        ("full-pcpus-only", "1.33", Maturity.STABLE),
        ("strict-cpu-reservation", "1.31", None),
        ("strict-cpu-reservation", "1.32", Maturity.ALPHA),
        ("strict-cpu-reservation", "1.35", Maturity.STABLE),
        ("prefer-align-cpus-by-uncorecache", "1.34", Maturity.BETA),
        ("prefer-align-cpus-by-uncorecache", "1.36", Maturity.STABLE),
        ("distribute-cpus-across-numa", "1.37", Maturity.BETA),
        ("align-by-socket", "1.40", Maturity.ALPHA),
    ],
)
def test_options_mature_with_the_version(
    option: str, version: str, maturity: Maturity | None
) -> None:
    """An unknown newer version has the options of the newest known one."""
    assert behaviour_of(version).cpu_options.get(option) is maturity


@pytest.mark.parametrize("version", ["1.27", "", "latest", "1"])
def test_versions_that_are_not_modelled_are_refused(version: str) -> None:
    """The message names the version and what is possible."""
    with pytest.raises(ConfigError, match=r"kubernetes version"):
        behaviour_of(version)


def test_a_patch_release_is_its_minor_version() -> None:
    """Git suffixes of vendors are ignored."""
    assert behaviour_of("v1.36.4-eks-3af4770") == behaviour_of("1.36")


@pytest.mark.parametrize("text", ["1_6", " 16", "16 ", "\uff11\uff16", "0x10", ""])
def test_numbers_are_written_as_go_reads_them(text: str) -> None:
    """Python would take most of these for sixteen."""
    wide = KubeletSettings(
        topology_policy="restricted", topology_options={"max-allowable-numa-nodes": text}
    )
    with pytest.raises(KubeletStartError, match="invalid syntax"):
        start(dual_socket_ht(), wide)


@pytest.mark.parametrize(
    ("threads", "text"), [((), "no cpus provided"), ((1, 1), "cpus provided are not unique")]
)
def test_cores_need_cpus_that_are_told_apart(threads: tuple[int, ...], text: str) -> None:
    """A kubelet does not start on anything else."""
    machine = build_machine([(0, 0, (0,)), (0, 0, threads)])
    with pytest.raises(KubeletStartError, match=text):
        start(machine)
