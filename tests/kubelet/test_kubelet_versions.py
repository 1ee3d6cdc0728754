"""What changed in the kubelet, by release, and its feature gates."""

from __future__ import annotations

from dataclasses import fields

import pytest
from tests.kubelet.build import container, guaranteed, pod

from numakube.api.kubelet_config import KubeletConfiguration
from numakube.errors import ConfigError
from numakube.kubelet.admission_outcome import Admitted
from numakube.kubelet.kubelet_model import KubeletNode
from numakube.kubelet.kubelet_versions import behaviour_of, gate_is_on
from numakube.kubelet.machines.shape_text import from_shape
from numakube.kubelet.manager_settings import settings_of

SINCE = {
    "cpu_shortage_names_amounts": 29,
    "smt_error_names_physical_cpus": 32,
    "memory_group_rule": 32,
    "odd_uncore_requests": 34,
    "ignores_pod_level_resources": 34,
    "device_hints_on_device_nodes_only": 36,
    "pod_level_managers": 36,
    "socket_aware_distribution": 37,
    "skips_empty_memory_requests": 37,
    "combination_aliasing": 0,
}
UNTIL = {"smt_check_before_existing": 37}


@pytest.mark.parametrize("minor", range(28, 38))
def test_each_change_comes_with_its_release(minor: int) -> None:
    """Neither a release earlier nor one later, whatever the patch."""
    behaviour = behaviour_of(f"v1.{minor}.3")
    told = {
        field.name: value
        for field in fields(behaviour)
        if isinstance(value := getattr(behaviour, field.name), bool)
    }
    expected = {name: minor >= since for name, since in SINCE.items()}
    assert told == expected | {name: minor < until for name, until in UNTIL.items()}
    assert behaviour.version == (1, minor)


def test_later_releases_behave_as_the_newest_that_is_known() -> None:
    """What is not known yet is no reason to fail; what is too old is."""
    assert behaviour_of("1.99") == behaviour_of("2.0") == behaviour_of("1.37")
    with pytest.raises(ConfigError, match="write it as"):
        behaviour_of("newest")
    with pytest.raises(ConfigError, match="oldest modelled version"):
        behaviour_of("1.27")


# Feature gates: explicit values, groups and defaults by release.


MANAGERS = "PodLevelResourceManagers"


@pytest.mark.parametrize(
    ("name", "gates", "minor", "on"),
    [
        (MANAGERS, {}, 37, False),
        (MANAGERS, {MANAGERS: True}, 36, True),
        (MANAGERS, {MANAGERS: True}, 35, False),
        (MANAGERS, {"AllAlpha": True}, 36, True),
        (MANAGERS, {"AllAlpha": True}, 37, False),
        (MANAGERS, {"AllBeta": True}, 37, True),
        (MANAGERS, {"AllBeta": True, MANAGERS: False}, 37, False),
        ("CPUManagerPolicyBetaOptions", {}, 31, True),
        ("CPUManagerPolicyBetaOptions", {"AllBeta": False}, 37, False),
        ("CPUManagerPolicyAlphaOptions", {"AllBeta": True}, 37, False),
        ("PodLevelResources", {}, 33, False),
        ("PodLevelResources", {}, 34, True),
        ("InPlacePodVerticalScaling", {"InPlacePodVerticalScaling": False}, 35, True),
    ],
)
def test_a_gate_has_its_own_value_or_that_of_its_stage_or_the_default(
    name: str, gates: dict[str, bool], minor: int, on: bool
) -> None:
    """In the stage that the release has it in; a stable gate cannot be switched off."""
    assert gate_is_on(name, gates, (1, minor)) is on


@pytest.mark.parametrize(("gate", "cpus"), [(True, 2), (False, 0)])
def test_a_kubelet_configuration_decides_whether_pod_level_resources_are_managed(
    gate: bool, cpus: int
) -> None:
    """The gate comes from the file, as for a real kubelet."""
    machine = from_shape("2 sockets, 4 cores, 8Gi")
    config = KubeletConfiguration(
        topology_manager_policy="restricted",
        topology_manager_scope="pod",
        cpu_manager_policy="static",
        reserved_system_cpus="0",
        feature_gates={MANAGERS: gate},
    )
    node = KubeletNode(machine, settings_of(config, machine), kubernetes="1.37")
    outcome = node.admit(pod(guaranteed("app", "2"), level={"cpu": "2", "memory": "1Gi"}))
    assert isinstance(outcome, Admitted)
    assert len(outcome.containers["app"].cpus) == cpus


@pytest.mark.parametrize(("kubernetes", "cpus"), [("1.36", 0), ("1.37", 2)])
def test_empty_pod_level_resources_leave_the_qos_class_to_the_containers_since_1_37(
    kubernetes: str, cpus: int
) -> None:
    """Before, they made a best-effort pod of a guaranteed one."""
    machine = from_shape("2 sockets, 4 cores, 8Gi")
    config = KubeletConfiguration(cpu_manager_policy="static", reserved_system_cpus="0")
    node = KubeletNode(machine, settings_of(config, machine), kubernetes=kubernetes)
    outcome = node.admit(pod(guaranteed("app", "2"), level={}))
    assert isinstance(outcome, Admitted)
    assert len(outcome.containers["app"].cpus) == cpus


def test_a_container_without_a_request_has_no_cpus_of_its_own_in_a_guaranteed_pod() -> None:
    """The pod as a whole is guaranteed; kubelets before 1.34 hand out what containers ask for."""
    machine = from_shape("2 sockets, 4 cores, 8Gi")
    config = KubeletConfiguration(
        cpu_manager_policy="static",
        reserved_system_cpus="0",
        feature_gates={"PodLevelResources": True},
    )
    node = KubeletNode(machine, settings_of(config, machine), kubernetes="1.33")
    one = pod(guaranteed("app", "2"), container("helper"), level={"cpu": "3", "memory": "1Gi"})
    outcome = node.admit(one)
    assert isinstance(outcome, Admitted)
    assert {name: len(held.cpus) for name, held in outcome.containers.items() if held.cpus} == {
        "app": 2
    }
