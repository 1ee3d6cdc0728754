"""In-place resize of pods that hold CPUs and memory of static managers."""

from __future__ import annotations

import pytest
from tests.kubelet.build import admit, container, guaranteed, pod, start, static_settings
from tests.kubelet.conftest import GIB, dual_socket_ht

from numakube.kubelet.admission_outcome import Rejected
from numakube.kubelet.pod_resize import (
    DEFERRED,
    INFEASIBLE,
    is_resized,
    resize_refusal,
    room_refusal,
)

CPU_TEXT = 'Resize is infeasible for Guaranteed Pods alongside CPU Manager policy "static"'
MEMORY_TEXT = 'Resize is infeasible for Guaranteed Pods alongside Memory Manager policy "Static"'
OLD_TEXT = "Resize is infeasible for Guaranteed Pods alongside CPU Manager static policy"
CPUS = "InPlacePodVerticalScalingExclusiveCPUs"
MEMORY = "InPlacePodVerticalScalingExclusiveMemory"


@pytest.mark.parametrize(
    ("cpu", "memory", "kubernetes", "gates", "text"),
    [
        ("4", "1Gi", "1.37", {}, CPU_TEXT),
        ("1500m", "1Gi", "1.37", {}, CPU_TEXT),
        ("2", "2Gi", "1.37", {}, MEMORY_TEXT),
        ("2", "2Gi", "1.37", {CPUS: True}, MEMORY_TEXT),
        ("4", "1Gi", "1.37", {CPUS: True}, None),
        ("4", "2Gi", "1.37", {CPUS: True, MEMORY: True}, None),
        ("4", "2Gi", "1.37", {"AllAlpha": True}, None),
        ("2", "2Gi", "1.33", {}, OLD_TEXT),
        ("4", "1Gi", "1.32", {}, "InPlacePodVerticalScaling is disabled"),
    ],
)
def test_static_managers_make_a_resize_of_guaranteed_pods_infeasible(
    cpu: str, memory: str, kubernetes: str, gates: dict[str, bool], text: str | None
) -> None:
    """Of what they manage; the alpha gates lift that."""
    settings = static_settings(
        memory_policy="Static", reserved_memory={0: {"memory": GIB}}, feature_gates=gates
    )
    node = start(dual_socket_ht(), settings, kubernetes=kubernetes)
    before, after = pod(guaranteed("app", "2", "1Gi")), pod(guaranteed("app", cpu, memory))
    held = admit(node, before).containers["app"].cpus
    refused = resize_refusal(node, before, after)
    assert (refused and (refused.reason, refused.message)) == (text and (INFEASIBLE, text))
    assert node.placement("uid", "app").cpus == held


def test_other_pods_may_be_resized() -> None:
    """Burstable ones, and guaranteed ones where no manager is static."""
    static = start(dual_socket_ht(), static_settings(), kubernetes="1.37")
    burstable = pod(container("app"), guaranteed("other", "1"))
    assert resize_refusal(static, burstable, pod(container("app"), guaranteed("other"))) is None
    plain = start(dual_socket_ht(), static_settings(cpu_policy="none"), kubernetes="1.37")
    assert resize_refusal(plain, pod(guaranteed("app", "2")), pod(guaranteed("app", "3"))) is None


def test_only_resources_of_containers_make_a_resize() -> None:
    """Another generation of the same pod is none."""
    assert is_resized(pod(guaranteed("app", "2")), pod(guaranteed("app", "3")))
    assert not is_resized(pod(guaranteed("app", "2")), pod(guaranteed("app", "2"), uid="other"))


@pytest.mark.parametrize(
    ("cpu", "memory", "expected"),
    [
        ("2", "1Gi", None),
        ("4", "4Gi", None),
        ("4001m", "4Gi", (INFEASIBLE, "capacity: cpu, requested: 4001, capacity: 4000")),
        ("5", "5Gi", (INFEASIBLE, "capacity: memory, requested: 5368709120, capacity: 4294967296")),
    ],
)
def test_a_resize_to_more_than_the_whole_node_is_infeasible(
    cpu: str, memory: str, expected: tuple[str, str] | None
) -> None:
    """All of the node is not more than the node; memory is looked at first."""
    allocatable = {"cpu": 4000, "memory": 4 * GIB, "pods": 10}
    refused = room_refusal(pod(guaranteed("app", cpu, memory)), [], allocatable)
    assert _told(refused) == (expected and (expected[0], f"Node didn't have enough {expected[1]}"))


def test_a_resize_waits_for_the_room_that_other_pods_have() -> None:
    """It fits once they are gone, unless the node has none of the resource at all."""
    allocatable = {"cpu": 4000, "memory": 4 * GIB, "pods": 10}
    wanted, other = pod(guaranteed("app", "3")), pod(guaranteed("app", "2"), uid="other")
    assert _told(room_refusal(wanted, [other], allocatable)) == (
        DEFERRED,
        "Node didn't have enough resource: cpu, requested: 3000, used: 2000, capacity: 4000",
    )
    assert room_refusal(wanted, [], allocatable) is None
    one_milli = pod(guaranteed("app", "1m"))
    assert _told(room_refusal(one_milli, [], {"memory": 4 * GIB, "pods": 10})) == (
        INFEASIBLE,
        "Node didn't have enough capacity: cpu, requested: 1, capacity: 0",
    )
    nothing = pod(container("app"))
    assert room_refusal(nothing, [], {"pods": 10}) is None


def _told(refused: Rejected | None) -> tuple[str, str] | None:
    return None if refused is None else (refused.reason, refused.message)
