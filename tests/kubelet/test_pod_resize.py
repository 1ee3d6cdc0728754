"""In-place resize of pods that hold CPUs and memory of static managers."""

from __future__ import annotations

import pytest
from tests.kubelet.build import admit, container, guaranteed, pod, start, static_settings
from tests.kubelet.conftest import GIB, dual_socket_ht

from numakube.kubelet.pod_resize import INFEASIBLE, is_resized, resize_refusal

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
