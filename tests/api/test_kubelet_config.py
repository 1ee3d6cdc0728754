"""A kubelet's configuration: fields, defaults, command line, and every file that it is kept in."""

from __future__ import annotations

from typing import Any

import pytest

from numakube.api.codec import convert
from numakube.api.kubelet_config import (
    DEFAULT_EVICTION_HARD,
    KubeletConfiguration,
    MemoryReservation,
    config_problems,
    configuration,
    decode_configz,
    flags_in,
    merged,
    read_flags,
    read_kubelet_config,
    read_source,
    with_defaults,
    write_flags,
)
from numakube.errors import InvalidValue, MalformedObject

FILE = """
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
cpuManagerPolicyOptions: {full-pcpus-only: "true"}
cpuManagerReconcilePeriod: 5s
memoryManagerPolicy: Static
topologyManagerPolicy: single-numa-node
topologyManagerScope: pod
reservedSystemCPUs: 0-1
reservedMemory:
- numaNode: 0
  limits: {memory: 1Gi}
systemReserved: {cpu: 1, memory: 512Mi}
evictionHard: {memory.available: 100Mi}
featureGates: {CPUManagerPolicyAlphaOptions: true}
authentication: {anonymous: {enabled: false}}
"""


def problems(**fields: Any) -> list[str]:
    """Return the problems of a configuration with these fields."""
    return config_problems(convert(KubeletConfiguration, fields))


def test_a_file_is_read() -> None:
    """Fields that do not concern resources are ignored."""
    config = read_kubelet_config(FILE)

    assert config.topology_manager_policy == "single-numa-node"
    assert config.cpu_manager_policy_options == {"full-pcpus-only": "true"}
    assert config.reserved_system_cpus == "0-1"
    assert config.reserved_memory == (MemoryReservation(numa_node=0, limits={"memory": "1Gi"}),)
    assert config.system_reserved == {"cpu": 1, "memory": "512Mi"}
    assert config_problems(config) == []


def test_an_answer_of_configz_is_read() -> None:
    """Through either function."""
    body = b'{"kubeletconfig": {"topologyManagerPolicy": "restricted", "evictionHard": null}}'

    assert decode_configz(body) == read_kubelet_config(body)
    assert decode_configz(body).topology_manager_policy == "restricted"


def test_an_empty_file_is_the_default_configuration() -> None:
    """The kubelet's own defaults."""
    config = with_defaults(read_kubelet_config(""))

    assert (config.cpu_manager_policy, config.memory_manager_policy) == ("none", "None")
    assert (config.topology_manager_policy, config.topology_manager_scope) == ("none", "container")
    assert config.cpu_manager_reconcile_period == "10s"
    assert config.eviction_hard == DEFAULT_EVICTION_HARD
    assert config.max_pods == 110
    assert with_defaults(config) == config


def test_eviction_thresholds_replace_or_extend_the_defaults() -> None:
    """Extend only if asked to."""
    own = {"memory.available": "5%"}

    assert with_defaults(KubeletConfiguration(eviction_hard=own)).eviction_hard == own
    merged = KubeletConfiguration(eviction_hard=own, merge_default_eviction_settings=True)
    assert with_defaults(merged).eviction_hard == DEFAULT_EVICTION_HARD | own
    assert with_defaults(KubeletConfiguration(eviction_hard={})).eviction_hard == {}


def test_a_zero_period_is_the_default() -> None:
    """A malformed one is left for the reader to refuse."""
    periods = {"0s": "10s", "1s": "1s", "soon": "soon"}

    for given, expected in periods.items():
        config = with_defaults(KubeletConfiguration(cpu_manager_reconcile_period=given))
        assert config.cpu_manager_reconcile_period == expected


def test_wrong_types_are_reported_with_the_field() -> None:
    """And the file's name."""
    with pytest.raises(
        MalformedObject, match=r"kubelet\.yaml: topologyManagerScope: expected a st"
    ):
        read_kubelet_config("topologyManagerScope: [pod]", "kubelet.yaml")


def test_unknown_topology_settings_are_refused() -> None:
    """In the kubelet's words."""
    assert problems(topologyManagerPolicy="numa", topologyManagerScope="node") == [
        'invalid configuration: topologyManagerPolicy (--topology-manager-policy) "numa" must be '
        'one of: ["none" "best-effort" "restricted" "single-numa-node"]',
        'invalid configuration: topologyManagerScope (--topology-manager-scope) "node" must be one '
        'of: "container", or "pod"',
    ]


def test_reserved_cpus_exclude_reserved_cgroups_and_must_parse() -> None:
    """In the kubelet's words."""
    assert problems(reservedSystemCPUs="0-x", systemReservedCgroup="/system") == [
        "invalid configuration: can't use reservedSystemCPUs (--reserved-cpus) with "
        "systemReservedCgroup (--system-reserved-cgroup) or kubeReservedCgroup "
        "(--kube-reserved-cgroup)",
        "invalid configuration: unable to parse reservedSystemCPUs (--reserved-cpus) 0-x, error: "
        'strconv.Atoi: parsing "x": invalid syntax',
    ]
    assert problems(reservedSystemCPUs="3-1") == [
        "invalid configuration: unable to parse reservedSystemCPUs (--reserved-cpus) 3-1, error: "
        'invalid range "3-1" (3 > 1)'
    ]


def test_reserved_memory_is_checked() -> None:
    """Type, zero and duplicates."""
    reserved = [
        {"numaNode": 0, "limits": {"memory": "1Gi", "cpu": "1"}},
        {"numaNode": 0, "limits": {"memory": "0", "hugepages-1Gi": "1Gi"}},
    ]

    assert problems(reservedMemory=reserved) == [
        'invalid configuration: the limit type "cpu" for NUMA node 0 is not supported, only '
        "[memory hugepages-<HugePageSize>] is accepted",
        "invalid configuration: reserved memory may not be zero for NUMA node 0 and resource "
        '"memory"',
        "invalid configuration: the reserved memory has a duplicate value for NUMA node 0 and "
        'resource "memory"',
    ]


def test_negative_limits_are_refused() -> None:
    """Of pods."""
    assert problems(maxPods=-1, podsPerCore=-2) == [
        "invalid configuration: maxPods (--max-pods) -1 must not be a negative number",
        "invalid configuration: podsPerCore (--pods-per-core) -2 must not be a negative number",
    ]


# What a kubelet's command line says, and what it wins over.


def test_files_and_folders_are_named() -> None:
    """With and without an equals sign; flags about other things may have values of any kind."""
    line = [
        "--v=2",
        "--config",
        "/etc/kubelet.yaml",
        "--config-dir=/etc/kubelet.d",
        "--fail-swap-on",
    ]
    flags = read_flags(line)

    assert (flags.config, flags.config_dir, flags.root_dir) == (
        "/etc/kubelet.yaml",
        "/etc/kubelet.d",
        "/var/lib/kubelet",
    )
    assert read_flags(["--root-dir=/data/kubelet"]).root_dir == "/data/kubelet"
    assert read_flags([]).fields == {}


def test_flags_win_over_files_and_later_files_over_earlier_ones() -> None:
    """Feature gates add up; other maps of a flag replace those of files."""
    files: list[dict[str, Any]] = [
        {
            "topologyManagerPolicy": "none",
            "cpuManagerPolicy": "static",
            "featureGates": {"A": True, "B": True},
            "systemReserved": {"cpu": "1", "memory": "1Gi"},
            "reservedMemory": [{"numaNode": 0, "limits": {"memory": "1Gi"}}],
        },
        {"topologyManagerScope": "pod", "systemReserved": {"cpu": "2"}},
    ]
    flags = read_flags(
        [
            "--topology-manager-policy=restricted",
            "--feature-gates=B=false",
            "--kube-reserved=cpu=500m,memory=200Mi",
            "--cpu_manager_policy_options=full-pcpus-only=true",
            "--eviction-hard=memory.available<200Mi",
        ]
    )

    found = configuration(files, flags)

    assert (found.topology_manager_policy, found.topology_manager_scope) == ("restricted", "pod")
    assert found.feature_gates == {"A": True, "B": False}
    assert found.system_reserved == {"cpu": "2", "memory": "1Gi"}
    assert found.kube_reserved == {"cpu": "500m", "memory": "200Mi"}
    assert found.cpu_manager_policy_options == {"full-pcpus-only": "true"}
    assert found.eviction_hard == {"memory.available": "200Mi"}
    assert found.reserved_memory == (MemoryReservation(numa_node=0, limits={"memory": "1Gi"}),)


def test_reserved_memory_of_several_numa_nodes_adds_up() -> None:
    """In one flag or in several."""
    flags = read_flags(
        [
            "--reserved-memory=0:memory=1Gi,hugepages-1Gi=2Gi;1:memory=2Gi",
            "--reserved-memory",
            "2:memory=1Gi",
        ]
    )

    assert [
        (reservation.numa_node, reservation.limits)
        for reservation in configuration([], flags).reserved_memory
    ] == [
        (0, {"memory": "1Gi", "hugepages-1Gi": "2Gi"}),
        (1, {"memory": "2Gi"}),
        (2, {"memory": "1Gi"}),
    ]


@pytest.mark.parametrize("flag", ["--reserved-memory=memory=1Gi", "--kube-reserved=cpu"])
def test_a_flag_that_makes_no_sense_is_told(flag: str) -> None:
    """Such a kubelet would not have started."""
    with pytest.raises(InvalidValue, match="kubelet flag"):
        read_flags([flag])


# A kubelet's configuration from every kind of file that administrators keep it in.


KEPT_FILE = (
    "kind: KubeletConfiguration\ncpuManagerPolicy: none\nevictionHard: {memory.available: 5%}\n"
)
DROP_IN = "kind: KubeletConfiguration\ntopologyManagerPolicy: restricted\n"
OPENSHIFT = """
apiVersion: machineconfiguration.openshift.io/v1
kind: KubeletConfig
metadata: {name: numa}
spec:
  machineConfigPoolSelector: {matchLabels: {custom-kubelet: numa}}
  kubeletConfig: {topologyManagerPolicy: single-numa-node, cpuManagerPolicy: static}
"""
UNIT = """
[Service]
Environment="KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml"
Environment=KUBELET_KUBECONFIG_ARGS=--kubeconfig=/etc/kubernetes/kubelet.conf
EnvironmentFile=-/etc/default/kubelet
ExecStart=
ExecStart=/usr/bin/kubelet --cpu-manager-policy=none $KUBELET_CONFIG_ARGS $KUBELET_EXTRA_ARGS
"""


@pytest.mark.parametrize(
    "text",
    [
        'KUBELET_EXTRA_ARGS="--cpu-manager-policy=static --reserved-cpus=0 --v=2"\n',
        "KUBELET_EXTRA_ARGS=--cpu-manager-policy=static --reserved-cpus 0\n",
        "# a\nexport KUBELET_EXTRA_ARGS='--cpu-manager-policy=static \\\n --reserved-cpus=0'\n",
        'KUBELET_EXTRA_ARGS=--v=4\nKUBELET_EXTRA_ARGS="--cpu-manager-policy=static"'
        "\nKUBELET_KUBEADM_ARGS=--reserved-cpus=0\n",
        "[Service]\nExecStart=/usr/bin/kubelet --cpu-manager-policy=static --reserved-cpus=0\n",
    ],
)
def test_flags_are_read_from_files_of_systemd(text: str) -> None:
    """As systemd reads them: quotes, continued lines, and the last of a name."""
    found = merged([read_source(text, "/etc/default/kubelet")])

    assert (found.cpu_manager_policy, found.reserved_system_cpus) == ("static", "0")


def test_an_empty_variable_says_nothing() -> None:
    """Packages install such a file."""
    assert read_source("KUBELET_EXTRA_ARGS=\n", "f").arguments == ()
    assert read_source("KUBELET_EXTRA_ARGS=\n", "f").tree == {}


def test_a_unit_names_the_configuration_file() -> None:
    """Flags of the command itself and of variables."""
    source = read_source(UNIT, "kubelet.service")

    assert flags_in([source]).config == "/var/lib/kubelet/config.yaml"
    assert merged([source]).cpu_manager_policy == "none"


def test_flags_win_over_drop_ins_and_these_over_the_file() -> None:
    """In whichever order they are given."""
    flags = read_source("KUBELET_EXTRA_ARGS=--cpu-manager-policy=static", "f")
    found = merged([flags, read_source(KEPT_FILE, "f"), read_source(DROP_IN, "d")])

    assert found.cpu_manager_policy == "static"
    assert found.topology_manager_policy == "restricted"
    assert found.eviction_hard == {"memory.available": "5%"}


def test_an_object_of_openshift_has_a_configuration_inside() -> None:
    """Its other fields say which machines it is for."""
    found = merged([read_source(OPENSHIFT, "numa.yaml")])

    assert (found.topology_manager_policy, found.cpu_manager_policy) == (
        "single-numa-node",
        "static",
    )


def test_the_answer_of_a_kubelet_is_read_as_well() -> None:
    """What /configz says."""
    text = '{"kubeletconfig": {"cpuManagerPolicy": "static", "fieldOfLater": 1}}'
    source = read_source(text, "configz")

    assert merged([source]).cpu_manager_policy == "static"
    assert source.unknown == ("fieldOfLater",)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("kind: Pod\n", "a Pod, not a KubeletConfiguration"),
        ("cpuManagerPolicies: static\n", "did you mean cpuManagerPolicy"),
        ('KUBELET_EXTRA_ARGS="--v=2\n', "No closing quotation"),
        ("- op: replace\n", "not a KubeletConfiguration"),
    ],
)
def test_other_files_are_refused_by_name(text: str, why: str) -> None:
    """With what is wrong."""
    with pytest.raises(MalformedObject, match=why) as caught:
        read_source(text, "some.yaml")
    assert "some.yaml" in str(caught.value)


def test_written_flags_say_what_the_configuration_says() -> None:
    """Every kind of field: texts, maps, thresholds, reserved memory, gates."""
    tree = {
        "topologyManagerPolicy": "single-numa-node",
        "cpuManagerPolicy": "static",
        "cpuManagerReconcilePeriod": "5s",
        "cpuManagerPolicyOptions": {"full-pcpus-only": "true"},
        "reservedSystemCPUs": "0-1,8",
        "kubeReserved": {"cpu": "500m", "memory": "500Mi"},
        "evictionHard": {"memory.available": "100Mi"},
        "reservedMemory": [
            {"numaNode": 0, "limits": {"memory": "600Mi"}},
            {"numaNode": 1, "limits": {"memory": "1Gi", "hugepages-1Gi": "2Gi"}},
        ],
        "featureGates": {"A": True, "B": False},
    }
    text = f'KUBELET_EXTRA_ARGS="{" ".join(write_flags(tree))}"'

    assert merged([read_source(text, "f")]) == configuration([tree], read_flags([]))
