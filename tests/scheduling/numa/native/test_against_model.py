"""What counts say, held against the kubelet model: a refusal is a proof, and few are missed."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from tests.kubelet.build import guaranteed, pod, start, static_settings
from tests.kubelet.scenarios import GPU, nodes, pods, workloads
from tests.scheduling.numa.native.build import counts_of_model

from numakube.api.pod import Pod, ResourceRequirements
from numakube.kubelet.admission_outcome import Admitted
from numakube.kubelet.kubelet_model import KubeletNode
from numakube.kubelet.machine import Device
from numakube.kubelet.machines.shape_text import from_shape
from numakube.scheduling.numa.alignment_refusal import AlignmentRefusal
from numakube.scheduling.numa.native.pod_wants import wants_of
from numakube.scheduling.numa.native.reference_alignment import AlignmentFit, judge


def run(node: KubeletNode, steps: list[Pod | str]) -> None:
    """Perform the steps of a workload."""
    for step in steps:
        if isinstance(step, str):
            node.remove(step)
        else:
            node.admit(step)
    node.collect_garbage()


@settings(max_examples=100)
@given(workloads(), pods("new"))
def test_what_counts_refuse_the_kubelet_refuses(
    case: tuple[KubeletNode, list[Pod | str]], pod: Pod
) -> None:
    """A refusal from counts holds whatever the exact state is."""
    node, steps = case
    run(node, steps)
    verdict = judge(wants_of(pod), counts_of_model(node))
    if isinstance(verdict, AlignmentRefusal):
        assert verdict.message
        assert not isinstance(node.clone().admit(pod), Admitted), verdict
        if verdict.hopeless:
            assert not isinstance(emptied(node).admit(pod), Admitted), verdict


def emptied(node: KubeletNode) -> KubeletNode:
    """Return *node* as if nothing ran on it."""
    empty = node.clone()
    for uid in list(empty.pods):
        empty.remove(uid)
    empty.collect_garbage()
    return empty


@st.composite
def koordinator_cases(draw: st.DrawFn) -> tuple[KubeletNode, list[Pod | str], Pod]:
    """A node that may manage pod-level resources, what runs on it, and a pod that has some."""
    node = draw(nodes())
    gates = {**node.settings.feature_gates, "PodLevelResourceManagers": draw(st.booleans())}
    node = KubeletNode(
        node.machine,
        replace(node.settings, feature_gates=gates, cpu_options={}),
        devices={name: node.devices.devices_of(name) for name in node.devices.resources()},
        kubernetes=draw(st.sampled_from(("1.33", "1.35", "1.36", "1.37"))),
    )
    before: list[Pod | str] = [draw(pods(f"uid-{index}")) for index in range(3)]
    new = draw(pods("new"))
    amount = draw(st.sampled_from(("4", "8", "12")))
    level = ResourceRequirements(
        requests={"cpu": amount, "memory": "12Gi"}, limits={"cpu": amount, "memory": "12Gi"}
    )
    return node, before, structs.replace(new, spec=structs.replace(new.spec, resources=level))


@settings(max_examples=100)
@given(koordinator_cases())
def test_koordinator_resources_are_read_as_the_kubelet_reads_them(
    case: tuple[KubeletNode, list[Pod | str], Pod],
) -> None:
    """Whether a kubelet manages, ignores or does not know them, a refusal is a proof."""
    node, steps, pod = case
    run(node, steps)
    counts = counts_of_model(node)
    verdict = judge(wants_of(pod, counts.rules.demand), counts)
    if isinstance(verdict, AlignmentRefusal):
        assert not isinstance(node.clone().admit(pod), Admitted), verdict


def test_devices_near_no_zone_may_be_taken_where_all_zones_do() -> None:
    """The first container gets the card that is near no NUMA node, the second the other one."""
    node = start(
        from_shape("1 socket, 4 cores, 16Gi"),
        static_settings("single-numa-node"),
        devices={GPU: (Device("gpu-0"), Device("gpu-1", (0,)))},
    )
    both = pod(guaranteed("a", gpu="1"), guaranteed("b", gpu="1"))
    counts = counts_of_model(node)
    assert [zone[GPU] for zone in counts.free] == [1]
    assert isinstance(judge(wants_of(both), counts), AlignmentFit)
    assert isinstance(node.admit(both), Admitted)
    assert isinstance(judge(wants_of(both), counts_of_model(node)), AlignmentRefusal)
