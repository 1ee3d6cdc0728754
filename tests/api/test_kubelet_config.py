"""KubeletConfiguration: reading, defaults, and the kubelet's refusals."""

from typing import Any

import pytest

from numakube.api.codec import convert
from numakube.api.kubelet_config import (
    DEFAULT_EVICTION_HARD,
    KubeletConfiguration,
    MemoryReservation,
    config_problems,
    decode_configz,
    read_kubelet_config,
    with_defaults,
)
from numakube.errors import MalformedObject

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
