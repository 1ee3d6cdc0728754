"""Honest documents, and ways to spoil them: what somebody may write who means no good.

Everything follows from a `random.Random`, so that a seed is enough to see a failure again.
"""

from __future__ import annotations

import base64
import copy
import json
import os
import zlib
from typing import TYPE_CHECKING, Any

from numakube.api.codec import convert
from numakube.api.pod import Pod
from numakube.kubelet.kubelet_model import KubeletNode
from numakube.kubelet.machine import Device
from numakube.kubelet.machines.shape_text import from_shape
from numakube.kubelet.manager_settings import KubeletSettings
from numakube.topology.model_report import nrt_of
from numakube.values.cpuset import CpuSet

if TYPE_CHECKING:
    from random import Random

    from numakube.api.nrt import NodeResourceTopology

EXAMPLES = int(os.environ.get("HOSTILE_EXAMPLES", "25"))
"""How many seeds a test tries."""

QUANTITIES = (
    "0", "-1", "1e3", "9223372036854775807", "9223372036854775808", "1e18", "1e19", "1e308", "1n",
    "0.0001m", "8Ei", "9999999999Ei", "1e-100", "1" + "0" * 200, "9" * 400, "0." + "0" * 300 + "1",
    "1e2147483647", "1e-2147483648", "1Zi", " 1", "NaN", "-inf", "", "١٢", "0x10", "1_000",
)  # fmt: skip
TEXTS = (
    "", "x", "null", "{", "[]", "{}", "NaN", "\x00", "\x1b]0;t\x07\n\u202e", "💥" * 50, "a" * 5000,
    "[" * 5000, '{"a":' * 5000, "9" * 5000, "node-0", "node-63", "node-64", "node--1", "node-²",
    "0-3", "0-99999999", "7-3", "5-", "-1", "1.30", "v99999999999999999999.1", "restricted",
    "single-numa-node", "none", "pfp0v001fe53c4dbd2c5f4a0", "npv0v001::ve=leb89::cc=9::nn=2::bn=99",
    "c0-7 m@0=9Pi d0=0", "0+1 x9 m=4Gi", "16384@0 1@63 !0-5", "2 sockets, 1000000 cores, 0B",
    "64 sockets, 1 cores, 0B", "../../etc", "2026-99-99T99:99:99Z",
)  # fmt: skip
NUMBERS = (0, -1, 1, 63, 64, 65536, 2**31, 2**63 - 1, 2**63, 2**64, -(2**63), 1.5, 1e308, -0.0)
KEYS = (
    "cpuset", "numaNodeResources", "node", "resources", "gpu", "detail", "id", "core", "socket",
    "policy", "reservedCPUs", "minor", "zone", "amount", "name", "value", "", "💥", "cpu", "memory",
)  # fmt: skip
ANNOTATIONS = (
    "topology.numakube.dev/exact", "topology.node.k8s.io/fingerprint",
    "node.koordinator.sh/cpu-topology", "kubelet.koordinator.sh/cpu-manager-policy",
    "node.koordinator.sh/pod-cpu-allocs", "node.koordinator.sh/cpu-shared-pools",
    "node.koordinator.sh/reservation", "node.koordinator.sh/resource-amplification-ratio",
    "scheduling.koordinator.sh/resource-spec", "scheduling.koordinator.sh/resource-status",
    "scheduling.koordinator.sh/numa-topology-spec", "scheduling.koordinator.sh/device-allocated",
    "scheduling.koordinator.sh/device-allocate-hint", "volcano.sh/numa-topology-policy",
    "scheduling.koordinator.sh/device-joint-allocate", "kai.scheduler/numa-placement-observed",
    "scheduling.koordinator.sh/gpu-partition-spec", "kai.scheduler/numa-placement-predicted",
    "numa-topology-spec.scheduling.koordinator.sh/container.main", "numakube.dev/woken",
    "resource-spec.scheduling.koordinator.sh/container.main",
)  # fmt: skip
LABELS = (
    "node.koordinator.sh/numa-topology-policy", "node.koordinator.sh/cpu-bind-policy",
    "koordinator.sh/qosClass", "topology.kubernetes.io/zone", "kubernetes.io/hostname",
    "app.kubernetes.io/managed-by", "volcano.sh/numa-topology-policy",
)  # fmt: skip


def anything(rng: Random, depth: int = 3) -> Any:
    """Return any JSON."""
    kind = rng.random()
    if depth == 0 or kind < 0.5:
        return rng.choice((None, True, False, *NUMBERS, *QUANTITIES, *TEXTS))
    if kind < 0.8:
        return {rng.choice(KEYS): anything(rng, depth - 1) for _ in range(rng.randrange(5))}
    return [anything(rng, depth - 1) for _ in range(rng.randrange(5))]


def text(rng: Random) -> str:
    """Return any text, often JSON."""
    return rng.choice(TEXTS) if rng.random() < 0.4 else json.dumps(anything(rng))


def damaged(rng: Random, document: Any) -> Any:
    """Return *document* with a few parts replaced, added or taken away."""
    tree = copy.deepcopy(document)
    for _ in range(rng.randrange(1, 5)):
        _damage(rng, tree)
    return tree


def _damage(rng: Random, tree: Any) -> None:
    while isinstance(tree, dict | list) and tree:
        key = rng.choice(list(tree)) if isinstance(tree, dict) else rng.randrange(len(tree))
        part = tree[key]
        if isinstance(part, dict | list) and part and rng.random() < 0.8:
            tree = part
            continue
        if rng.random() < 0.1:
            del tree[key]
        elif isinstance(part, str) and rng.random() < 0.7:
            tree[key] = rng.choice((*QUANTITIES, *TEXTS))
        elif isinstance(part, int) and rng.random() < 0.7:
            tree[key] = rng.choice(NUMBERS)
        else:
            tree[key] = anything(rng)
        return


def spoiled_bytes(rng: Random, document: Any) -> bytes:
    """Return *document* in JSON, damaged as a tree, as bytes, or both."""
    data = bytearray(json.dumps(damaged(rng, document)).encode())
    for _ in range(rng.choice((0, 0, 1, 5))):
        place = rng.randrange(len(data) + 1)
        data[place : place + rng.randrange(3)] = rng.choice(
            (b"{", b"[", b"\xff", b'"', b"null", b"\x00", b"\xed\xa0\x80", b"1e999", b"-", b"")
        )
    return bytes(data)


def marked(rng: Random, document: Any) -> Any:
    """Return *document* with annotations and labels that we read, and that make no sense."""
    tree = copy.deepcopy(document)
    meta = tree["metadata"]
    for _ in range(rng.randrange(4)):
        meta.setdefault("annotations", {})[rng.choice(ANNOTATIONS)] = text(rng)
    if rng.random() < 0.3:
        meta.setdefault("labels", {})[rng.choice(LABELS)] = rng.choice(TEXTS)
    return tree


def exact(rng: Random, honest: str) -> str:
    """Return exact data that is damaged, compressed, or both."""
    tree = json.dumps(damaged(rng, json.loads(honest)))
    if rng.random() < 0.3:
        tree = "z:" + base64.b64encode(zlib.compress(tree.encode())).decode()
        return tree[: len(tree) // 2] if rng.random() < 0.2 else tree
    if rng.random() < 0.05:
        bomb = b'{"v":1,' + b" " * (16 << 20)
        return "z:" + base64.b64encode(zlib.compress(bomb)).decode()
    return tree


def honest_report(name: str) -> NodeResourceTopology:
    """Return what an exporter says of a node on which a pod runs."""
    kubelet = KubeletNode(
        from_shape("2 sockets, 4 cores, smt 2, 16Gi, hugepages-1Gi 2"),
        KubeletSettings(
            topology_policy="restricted",
            cpu_policy="static",
            reserved_cpus=CpuSet.parse("0"),
            memory_policy="Static",
            reserved_memory={0: {"memory": 2**30}},
        ),
        devices={"vendor.example/nic": (Device("eth0", (0,)), Device("eth1", (1,)))},
    )
    kubelet.admit(convert(Pod, pod_tree("running", "2")))
    return nrt_of(name, kubelet)


def pod_tree(name: str, cpu: str, **spec: Any) -> dict[str, Any]:
    """Return a guaranteed pod for our scheduler."""
    amounts = {"cpu": cpu, "memory": "1Gi"}
    container = {"name": "main", "resources": {"requests": amounts, "limits": dict(amounts)}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"schedulerName": "numakube-scheduler", "containers": [container], **spec},
    }


def node_tree(name: str) -> dict[str, Any]:
    """Return a node that is ready."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": {"taints": [{"key": "a", "effect": "PreferNoSchedule", "value": ""}]},
        "status": {
            "allocatable": {
                "cpu": "15",
                "memory": "31Gi",
                "pods": "110",
                "vendor.example/nic": "2",
            },
            "capacity": {"cpu": "16", "memory": "32Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
            "nodeInfo": {"kubeletVersion": "v1.35.0"},
            "images": [{"names": ["a/b:c"], "sizeBytes": 5}],
        },
    }


def device_tree(name: str) -> dict[str, Any]:
    """Return Koordinator's list of a node's devices."""
    one = {
        "type": "gpu",
        "id": "a",
        "minor": 0,
        "health": True,
        "resources": {"koordinator.sh/gpu-core": "100", "nvidia.com/gpu": "1"},
        "topology": {"nodeID": 0, "socketID": 0, "pcieID": "1", "busID": "0000:01:00.0"},
        "vfGroups": [{"vfs": [{"minor": 0, "busID": "0000:01:00.1"}]}],
    }
    return {"metadata": {"name": name, "uid": name}, "spec": {"devices": [one]}}
