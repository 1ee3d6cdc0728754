"""Configurations with which a kubelet does not start, in its own words."""

from __future__ import annotations

import pytest
from tests.kubelet.build import start, static_settings
from tests.kubelet.conftest import GIB, build_machine, dual_socket_ht

from numakube.errors import ConfigError, KubeletStartError
from numakube.kubelet.kubelet_versions import Maturity, behaviour_of
from numakube.kubelet.machine import Machine
from numakube.kubelet.manager_settings import KubeletSettings
from numakube.values.cpuset import CpuSet


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
