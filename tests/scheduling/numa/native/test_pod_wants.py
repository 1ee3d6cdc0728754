"""What is checked of a pod on nodes with certain rules, and what is certain about it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.kubelet.build import guaranteed, pod

from numakube.scheduling.numa.native.node_counts import NodeRules
from numakube.scheduling.numa.native.pod_wants import PodChecks, PodWants, new_checks, wants_of
from numakube.values.topology_policy import TopologyPolicy, TopologyScope

GPU = "vendor.example/gpu"
PLAIN = NodeRules(
    zones=2,
    policy=TopologyPolicy.SINGLE_NUMA_NODE,
    reported=frozenset({"cpu", "memory", GPU}),
)
THREE = wants_of(pod(*(guaranteed(name, "2", "1Gi") for name in "abc")))


def checks(wants: PodWants = THREE, **rules: Any) -> PodChecks:
    """Return what is checked on nodes that differ from plain ones."""
    return new_checks(wants, replace(PLAIN, **rules))


def with_gpu() -> PodWants:
    """Return what two containers want that both have a GPU."""
    return wants_of(pod(*(guaranteed(name, "2", "1Gi", gpu="1") for name in "ab")))


@pytest.mark.parametrize(
    ("rules", "certain"),
    [
        ({}, 3),
        ({"policy": TopologyPolicy.RESTRICTED}, 2),
        ({"policy": TopologyPolicy.BEST_EFFORT}, 2),
        ({"policy": TopologyPolicy.RESTRICTED, "manages_memory": False}, 3),
        ({"by_socket": True}, 1),
        ({"shared_devices": frozenset({GPU})}, 3),
        ({"stray_devices": frozenset({GPU})}, 3),
    ],
)
def test_what_is_left_for_a_container_is_certain_up_to_a_point(
    rules: dict[str, Any], certain: int
) -> None:
    """Memory may tie zones up in groups, and CPUs of a socket come from any of its zones."""
    assert checks(**rules).certain == certain


@pytest.mark.parametrize(
    ("rules", "certain"),
    [
        ({}, 2),
        ({"shared_devices": frozenset({GPU})}, 1),
        ({"stray_devices": frozenset({GPU})}, 1),
        ({"shared_devices": frozenset({"vendor.example/nic"})}, 2),
    ],
)
def test_devices_near_several_zones_or_none_make_the_next_container_uncertain(
    rules: dict[str, Any], certain: int
) -> None:
    """If the pod wants such devices."""
    assert checks(with_gpu(), **rules).certain == certain


def test_init_containers_make_what_follows_uncertain_only_where_cpus_are_managed() -> None:
    """Which of their CPUs are used again depends on more than counts."""
    spec = pod(guaranteed("a", "1"), guaranteed("b", "1"), init=(guaranteed("first", "2"),))
    wants = wants_of(spec)
    assert (wants.certain_steps, len(wants.steps)) == (2, 3)
    assert checks(wants).certain == wants.certain_steps
    assert checks(wants, manages_cpu=False).certain == len(checks(wants, manages_cpu=False).stages)


def test_what_all_zones_together_must_have_follows_from_the_places_or_is_checked() -> None:
    """In pod scope from the one place, if that has as much; else if all places are certain."""
    assert checks().together == (("cpu", 6000), ("memory", 3 << 30))
    assert checks().unimplied == ()
    assert checks(by_socket=True).unimplied == checks().together
    whole = checks(scope=TopologyScope.POD)
    assert len(whole.stages) == 1
    assert whole.unimplied == ()
    less = replace(THREE, whole=replace(THREE.whole, cpu=(("cpu", 4000),)))
    assert checks(less, scope=TopologyScope.POD).unimplied == (("cpu", 6000),)


def test_devices_count_together_where_their_zones_matter() -> None:
    """Not those without a NUMA node, and not where nobody is refused for their place."""
    assert (GPU, 2) in checks(with_gpu()).together
    assert (GPU, 2) not in checks(with_gpu(), stray_devices=frozenset({GPU})).together
    assert (GPU, 2) not in checks(with_gpu(), policy=TopologyPolicy.BEST_EFFORT).together


@pytest.mark.parametrize(
    ("rules", "unreported"),
    [
        ({"reported": frozenset({"memory"})}, "cpu"),
        ({"reported": frozenset({"cpu"})}, "memory"),
        ({"reported": frozenset({"memory"}), "manages_cpu": False}, ""),
        ({"reported": frozenset({"memory"}), "exact": True}, ""),
        ({"reported": frozenset({"memory"}), "policy": TopologyPolicy.BEST_EFFORT}, ""),
    ],
)
def test_what_a_node_aligns_and_does_not_tell_of_is_named(
    rules: dict[str, Any], unreported: str
) -> None:
    """Unless the model can be asked, or nobody is refused."""
    assert checks(**rules).unreported == unreported


@pytest.mark.parametrize(
    ("cpus", "rules", "bubble", "uneven"),
    [
        ("3", {"cpus_per_core": 2}, False, True),
        ("4", {"cpus_per_core": 2}, False, False),
        ("3", {"cpus_per_core": 1}, False, False),
        ("3", {"cpus_per_core": 2, "manages_cpu": False}, False, False),
        ("3", {"cpus_per_core": 2}, True, True),
        ("3", {"cpus_per_core": 2, "scope": TopologyScope.POD}, True, False),
        ("3", {"cpus_per_core": 2, "scope": TopologyScope.POD}, False, True),
    ],
)
def test_containers_have_whole_cores_if_they_must(
    cpus: str, rules: dict[str, Any], bubble: bool, uneven: bool
) -> None:
    """Those of a pod that is managed as one share its cores."""
    wants = replace(wants_of(pod(guaranteed("a", cpus))), is_bubble=bubble)
    assert (checks(wants, **rules).uneven is not None) is uneven
