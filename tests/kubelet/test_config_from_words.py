"""Kubelet configurations for lab nodes."""

import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from tests.kubelet.scenarios import machines

from numakube.api.kubelet_config import KubeletConfiguration, MemoryReservation
from numakube.errors import ConfigError
from numakube.kubelet.config_from_words import (
    configuration_of,
    lab_configuration,
    overridden,
    parse_kubelet_options,
    with_memory_reserved,
)
from numakube.kubelet.kubelet_model import KubeletNode
from numakube.kubelet.machine import Machine
from numakube.kubelet.machines.shape_text import from_shape
from numakube.kubelet.manager_settings import KubeletSettings, settings_of


@given(machines())
def test_a_kubelet_starts_with_the_default_on_any_machine(machine: Machine) -> None:
    """Reservations are filled in so that they add up."""
    config = lab_configuration(machine, {})
    node = KubeletNode(machine, settings_of(config, machine))
    assert node.topology.policy == "single-numa-node"
    assert node.cpus is not None
    assert node.memory is not None


def test_words_change_the_default() -> None:
    """Policies, scope, options of both managers, reserved CPUs."""
    machine = from_shape("2 sockets, 4 cores, smt 2, 8Gi")
    words = parse_kubelet_options(
        "policy=restricted, scope=pod,full-pcpus-only=true,prefer-closest-numa-nodes=true,"
        "reserved-cpus=0+8,max-pods=20"
    )
    config = lab_configuration(machine, words)
    assert (config.topology_manager_policy, config.topology_manager_scope) == ("restricted", "pod")
    assert config.cpu_manager_policy_options == {"full-pcpus-only": "true"}
    assert config.topology_manager_policy_options == {"prefer-closest-numa-nodes": "true"}
    assert (config.reserved_system_cpus, config.max_pods) == ("0,8", 20)


def test_machines_of_many_numa_nodes_get_what_a_kubelet_needs_there() -> None:
    """The number of nodes, and no static memory, under which it would not answer."""
    machine = from_shape("gb200-nvl4")
    config = lab_configuration(machine, {})
    assert config.topology_manager_policy_options == {"max-allowable-numa-nodes": "34"}
    assert config.memory_manager_policy == "None"
    unaligned = lab_configuration(machine, parse_kubelet_options("policy=none"))
    assert unaligned.topology_manager_policy_options == {}
    asked = lab_configuration(machine, parse_kubelet_options("memory=Static"))
    assert asked.memory_manager_policy == "Static"
    assert KubeletNode(machine, settings_of(config, machine)).topology.numa.nodes


def test_a_word_sets_a_feature_gate() -> None:
    """Beside the gate without which half of the CPU Manager's options could not be tried."""
    words = parse_kubelet_options("PodLevelResourceManagers=true")
    config = lab_configuration(from_shape("4 cores, 8Gi"), words)
    assert config.feature_gates == {
        "CPUManagerPolicyAlphaOptions": True,
        "PodLevelResourceManagers": True,
    }


def test_without_memory_manager_nothing_is_reserved_on_nodes() -> None:
    """Reserved memory only makes sense with the static policy."""
    config = lab_configuration(from_shape("4 cores, 8Gi"), parse_kubelet_options("memory=None"))
    assert config.reserved_memory == ()


@pytest.mark.parametrize(
    "text", ["policy", "policy=", "colour=red", "max-pods=many", "AllAlpha=maybe"]
)
def test_words_that_mean_nothing_are_refused(text: str) -> None:
    """With the word and what would be possible."""
    with pytest.raises(ConfigError, match="--kubelet"):
        lab_configuration(from_shape("4 cores, 8Gi"), parse_kubelet_options(text))


@pytest.mark.parametrize(
    ("kept", "expected"), [(None, 3), ({}, 0), ({"cpu": 7}, 0), ({"memory": 5}, 5)]
)
def test_a_configuration_reserves_what_the_settings_keep(
    kept: dict[str, int] | None, expected: int
) -> None:
    """What is kept from pods is told; if it is not, it is what the Memory Manager wants."""
    settings = KubeletSettings(
        memory_policy="Static",
        reserved_memory={0: {"memory": 1, "hugepages-1Gi": 4}, 1: {"memory": 2}},
        memory_reservation=kept,
        reserved_cpu_milli=1500,
    )
    config = configuration_of(settings)
    again = settings_of(config, from_shape("2 sockets, 4 cores, 8Gi"))
    assert dict(again.memory_reservation or {}).get("memory", 0) == expected
    assert again.reserved_memory == settings.reserved_memory
    assert again.reserved_cpu_milli == 1500
    assert "cpu" not in configuration_of(KubeletSettings()).kube_reserved


TWO = from_shape("2 sockets, 4 cores, 8Gi/16Gi")
ALPHA = {"CPUManagerPolicyAlphaOptions": True}
OWN = KubeletConfiguration(
    topology_manager_policy="restricted",
    topology_manager_policy_options={"prefer-closest-numa-nodes": "true"},
    cpu_manager_policy="static",
    cpu_manager_policy_options={"full-pcpus-only": "true"},
    memory_manager_policy="Static",
    reserved_system_cpus="1",
    reserved_memory=(MemoryReservation(numa_node=0, limits={"memory": "1Gi"}),),
    kube_reserved={"memory": "1Gi"},
    max_pods=50,
)
LARGEST = MemoryReservation(numa_node=1, limits={"memory": str(512 << 20)})


@pytest.mark.parametrize(
    ("config", "words", "changes"),
    [
        (OWN, "", {}),
        (OWN, "policy=none", {"topology_manager_policy": "none", "feature_gates": ALPHA}),
        (OWN, "max-pods=7", {"max_pods": 7, "feature_gates": ALPHA}),
        (KubeletConfiguration(), "max-pods=7", {"max_pods": 7, "feature_gates": ALPHA}),
        (
            OWN,
            "cpu=none,AllAlpha=false",
            {
                "cpu_manager_policy": "none",
                "cpu_manager_policy_options": {},
                "feature_gates": {**ALPHA, "AllAlpha": False},
            },
        ),
        (
            OWN,
            "align-by-socket=true,max-allowable-numa-nodes=9",
            {
                "cpu_manager_policy_options": {
                    "full-pcpus-only": "true",
                    "align-by-socket": "true",
                },
                "topology_manager_policy_options": {
                    "prefer-closest-numa-nodes": "true",
                    "max-allowable-numa-nodes": "9",
                },
                "feature_gates": ALPHA,
            },
        ),
        (
            OWN,
            "memory=None",
            {"memory_manager_policy": "None", "reserved_memory": (), "feature_gates": ALPHA},
        ),
        (
            KubeletConfiguration(kube_reserved={"cpu": "1", "memory": "1Gi"}),
            "cpu=static,memory=Static",
            {
                "cpu_manager_policy": "static",
                "memory_manager_policy": "Static",
                "reserved_memory": (
                    MemoryReservation(numa_node=1, limits={"memory": str((1 << 30) + (100 << 20))}),
                ),
                "feature_gates": ALPHA,
            },
        ),
        (
            KubeletConfiguration(),
            "cpu=static",
            {
                "cpu_manager_policy": "static",
                "reserved_system_cpus": "0",
                "feature_gates": ALPHA,
            },
        ),
    ],
)
def test_words_override_a_configuration_and_leave_the_rest(
    config: KubeletConfiguration, words: str, changes: dict[str, Any]
) -> None:
    """What the managers need to have reserved is added where nothing is."""
    changed = overridden(config, TWO, parse_kubelet_options(words))
    assert changed == msgspec.structs.replace(config, **changes)


@pytest.mark.parametrize(("policy", "kept"), [("Static", (LARGEST,)), ("None", ())])
def test_memory_is_kept_from_pods_on_the_largest_node(
    policy: str, kept: tuple[MemoryReservation, ...]
) -> None:
    """On a NUMA node under the static policy only; a part of it is the eviction threshold."""
    config = KubeletConfiguration(memory_manager_policy=policy)
    changed = with_memory_reserved(config, TWO, 512 << 20)
    assert changed.reserved_memory == kept
    assert changed.kube_reserved == {"memory": str(412 << 20)}
    small = with_memory_reserved(config, TWO, 60 << 20)
    assert small.kube_reserved == {"memory": "0"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("polcy=none", "'polcy' is unknown; did you mean policy? There are "),
        ("zzz=1", "'zzz' is unknown; use "),
    ],
)
def test_a_word_that_is_nearly_right_is_told_the_right_one(text: str, says: str) -> None:
    """Others are told all that there are."""
    with pytest.raises(ConfigError, match=re.escape(says)):
        parse_kubelet_options(text)


@pytest.mark.parametrize(("count", "options"), [(8, {}), (9, {"max-allowable-numa-nodes": "9"})])
def test_only_more_than_eight_numa_nodes_need_an_option(
    count: int, options: dict[str, str]
) -> None:
    """Eight is what a kubelet allows by default."""
    config = lab_configuration(from_shape(f"{count} sockets, 1 cores, 1Gi"), {})
    assert config.topology_manager_policy_options == options
