"""Whatever is read, it is taken or refused in a sentence that names it: nothing else is raised."""

from __future__ import annotations

import contextlib
import json
import random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.hostile.pieces import (
    EXAMPLES,
    device_tree,
    honest_report,
    marked,
    node_tree,
    pod_tree,
    spoiled_bytes,
)

from numakube.api.checkpoints.cpu_manager_state import (
    CpuManagerState,
    peek_cpu_manager_state,
    read_cpu_manager_state,
    write_cpu_manager_state,
)
from numakube.api.checkpoints.device_checkpoint import (
    DeviceManagerState,
    peek_device_manager_state,
    read_device_manager_state,
    write_device_manager_state,
)
from numakube.api.checkpoints.memory_manager_state import (
    MemoryManagerState,
    peek_memory_manager_state,
    read_memory_manager_state,
    write_memory_manager_state,
)
from numakube.api.codec import convert, decode, decode_tree, to_tree
from numakube.api.koordinator.devices import DeviceCr
from numakube.api.kubelet_config import KubeletConfiguration
from numakube.api.nodes import Node
from numakube.api.nrt import convert_nrt
from numakube.api.numaresources import NUMAResourcesOperator, NUMAResourcesScheduler
from numakube.api.pod import Pod
from numakube.api.scheduler_config import KubeSchedulerConfiguration
from numakube.api.yaml_text import load_yaml
from numakube.apps.extender.extender_messages import BindingArgs, PreemptionArgs, Requests, read
from numakube.errors import NumakubeError
from numakube.node.podresources_client import allocatable_from_json, pods_from_json
from numakube.topology.topology_view import view_of
from numakube.values.cpuset import CpuSet
from numakube_placement.koordinator.allotments import allotment_of
from numakube_placement.koordinator.read_node import facts_of
from numakube_placement.koordinator.read_pod import wish_of
from numakube_placement.webhook.admission_review import judge, read_review, write_review

if TYPE_CHECKING:
    from collections.abc import Callable

REPORT = to_tree(honest_report("n"))
CPU = json.loads(
    write_cpu_manager_state(
        CpuManagerState(
            policy="static", default_cpus=CpuSet.parse("0-3"), entries={"uid": {"main": CpuSet(2)}}
        )
    )
)
MEMORY = json.loads(write_memory_manager_state(MemoryManagerState(policy_name="Static")))
DEVICES = json.loads(write_device_manager_state(DeviceManagerState()))
DEVICE = {"resourceName": "a/b", "deviceIds": ["x"], "topology": {"nodes": [{"ID": "0"}]}}
PODS = {
    "podResources": [
        {
            "name": "web",
            "namespace": "default",
            "containers": [
                {
                    "name": "main",
                    "cpuIds": ["1", "2"],
                    "devices": [DEVICE],
                    "memory": [{"memoryType": "memory", "size": "1024"}],
                }
            ],
        }
    ]
}
ALLOCATABLE = {"cpuIds": ["1", "2"], "devices": [DEVICE], "memory": [{"memoryType": "memory"}]}
FILTER = {"Pod": pod_tree("web", "2"), "NodeNames": ["n"], "Nodes": {"items": [node_tree("n")]}}
BINDING = {"PodName": "web", "PodNamespace": "default", "PodUID": "web", "Node": "n"}
VICTIMS = {"Pods": [{"UID": "x"}], "NumPDBViolations": 0}
PREEMPTION = {"Pod": pod_tree("web", "2"), "NodeNameToMetaVictims": {"n": VICTIMS}}
REVIEW = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "request": {
        "uid": "u",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "operation": "CREATE",
        "namespace": "default",
        "object": pod_tree("web", "2"),
        "oldObject": pod_tree("web", "1"),
    },
}
OPERATOR = {
    "metadata": {"name": "numa", "generation": 1},
    "spec": {
        "nodeGroups": [{"poolName": "workers", "config": {"infoRefreshMode": "Periodic"}}],
        "podExcludes": [{"namespace": "a", "name": "*"}],
        "logLevel": "Normal",
    },
    "status": {
        "conditions": [
            {
                "type": "Available",
                "status": "True",
                "reason": "Ready",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }
        ]
    },
}
SCHEDULER = {"metadata": {"name": "numa"}, "spec": {"imageSpec": "x", "cacheResyncPeriod": "5s"}}
KUBELET = {"kind": "KubeletConfiguration", "cpuManagerPolicy": "static", "reservedSystemCPUs": "0"}
CONFIG = {
    "profiles": [
        {
            "schedulerName": "a",
            "plugins": {"multiPoint": {"enabled": [{"name": "NodeResourceTopologyMatch"}]}},
            "pluginConfig": [{"name": "NodeResourceTopologyMatch", "args": {"mode": "native"}}],
        }
    ]
}


def read_pod(data: bytes) -> None:
    """Read all that a pod says."""
    pod = decode(Pod, data)
    problems: list[str] = []
    allotment_of(pod, problems)
    wish_of(pod)


def read_report(data: bytes) -> None:
    """Read all that a report says."""
    view_of(convert_nrt(decode_tree(data, "report")))


def read_node(data: bytes) -> None:
    """Read all that a node says."""
    facts_of(decode(Node, data), None, None, None)


def review(data: bytes) -> None:
    """Answer a review."""
    write_review(judge(read_review(data)))


READERS: list[tuple[Callable[[bytes], object], Any]] = [
    (read_pod, pod_tree("web", "2")),
    (read_report, REPORT),
    (read_node, node_tree("n")),
    (lambda data: decode(DeviceCr, data), device_tree("n")),
    (lambda data: decode(NUMAResourcesOperator, data), OPERATOR),
    (lambda data: decode(NUMAResourcesScheduler, data), SCHEDULER),
    (lambda data: convert(KubeletConfiguration, load_yaml(data, "f")), KUBELET),
    (lambda data: convert(KubeSchedulerConfiguration, load_yaml(data, "f")), CONFIG),
    (read_cpu_manager_state, CPU),
    (peek_cpu_manager_state, CPU),
    (read_memory_manager_state, MEMORY),
    (peek_memory_manager_state, MEMORY),
    (read_device_manager_state, DEVICES),
    (peek_device_manager_state, DEVICES),
    (lambda data: pods_from_json(data, "answer"), PODS),
    (lambda data: allocatable_from_json(data, "answer"), ALLOCATABLE),
    (lambda data: Requests().read(data), FILTER),
    (lambda data: read(BindingArgs, data), BINDING),
    (lambda data: read(PreemptionArgs, data), PREEMPTION),
    (review, REVIEW),
]


@pytest.mark.parametrize(("reader", "honest"), READERS)
def test_the_honest_one_is_taken(reader: Callable[[bytes], object], honest: object) -> None:
    """Or the others would prove nothing."""
    reader(json.dumps(honest).encode())


@pytest.mark.parametrize(("reader", "honest"), READERS)
@settings(max_examples=EXAMPLES)
@given(seed=st.integers(0, 2**32))
def test_a_hostile_one_is_taken_or_refused_with_words(
    reader: Callable[[bytes], object], honest: Any, seed: int
) -> None:
    """Five of each seed."""
    rng = random.Random(seed)
    for _ in range(5):
        tree = marked(rng, honest) if "metadata" in honest else honest
        data = spoiled_bytes(rng, tree)
        with contextlib.suppress(NumakubeError):
            reader(data)
