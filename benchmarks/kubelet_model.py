"""The cost of asking the kubelet model."""

from __future__ import annotations

import gzip
import json
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from numakube.api.meta import ObjectMeta
from numakube.api.pod import Container, Pod, PodSpec, ResourceRequirements
from numakube.kubelet.kubelet_model import KubeletNode
from numakube.kubelet.machine import Core, Device, HugePages, Machine, NumaNode
from numakube.kubelet.machines.cadvisor_machine import from_cadvisor, read_devices
from numakube.kubelet.manager_settings import KubeletSettings
from numakube.values.cpuset import CpuSet
from numakube_conformance.kubelet_replay import answer, read_settings

if TYPE_CHECKING:
    from collections.abc import Iterator

VECTORS = Path(__file__).parents[1] / "tests" / "vectors" / "kubelet.jsonl.gz"
GPU, NIC = "vendor.example/gpu", "vendor.example/nic"


def run() -> Iterator[dict[str, object]]:
    """Yield the model's latencies."""
    for policy in ("restricted", "best-effort", "single-numa-node"):
        times = admissions(policy)
        name = f"one admission, 8 NUMA nodes, 256 CPUs, CPU + memory + 2 devices, {policy}"
        yield _ms(f"{name}, median", statistics.median(times), budget=10)
        yield _ms(f"{name}, worst", max(times), budget=100)
    scenarios = recorded()
    start = time.process_time()
    for scenario in scenarios:
        answer(scenario)
    yield {
        "metric": f"replay of {len(scenarios)} recorded scenarios",
        "value": round(time.process_time() - start, 2),
        "unit": "s",
        "budget": 20,
    }
    yield _ms("slowest admission of any recorded scenario", slowest(scenarios), budget=100)


def _ms(metric: str, seconds: float, *, budget: float) -> dict[str, object]:
    return {"metric": metric, "value": round(seconds * 1e3, 3), "unit": "ms", "budget": budget}


def admissions(policy: str) -> list[float]:
    """Fill a large node with pods of many sizes and time each admission."""
    node = KubeletNode(
        large_machine(),
        KubeletSettings(
            topology_policy=policy,
            topology_scope="container",
            cpu_policy="static",
            reserved_cpus=CpuSet.parse("0,128"),
            memory_policy="Static",
            reserved_memory={0: {"memory": 1 << 30}},
        ),
    )
    times = []
    for index in range(60):
        pod = guaranteed_pod(f"uid-{index}", cpus=(2, 8, 24, 48)[index % 4], gib=(4, 90)[index % 2])
        start = time.process_time()
        node.admit(pod)
        times.append(time.process_time() - start)
        if index % 7 == 6:
            node.remove(f"uid-{index - 3}")
    return times


def large_machine() -> Machine:
    """Two sockets of four NUMA nodes, 256 CPUs, four GPUs and four NICs a node."""
    nodes = tuple(
        NumaNode(
            id=node,
            memory_bytes=64 << 30,
            cores=tuple(
                Core(core, (core, core + 128), socket=node // 4, uncore_cache=core // 8)
                for core in range(16 * node, 16 * node + 16)
            ),
            hugepages=(HugePages(2 << 20, 512),),
            distances=tuple(10 if other == node else 12 for other in range(8)),
        )
        for node in range(8)
    )
    devices = {
        name: tuple(Device(f"{name}-{index}", (index // 4,)) for index in range(32))
        for name in (GPU, NIC)
    }
    return Machine(nodes=nodes, cpu_count=256, socket_count=2, devices=devices)


def guaranteed_pod(uid: str, *, cpus: int, gib: int) -> Pod:
    """A pod of one container with CPUs, memory, a GPU and a NIC."""
    requests = {"cpu": str(cpus), "memory": f"{gib}Gi", GPU: "1", NIC: "1"}
    resources = ResourceRequirements(requests=dict(requests), limits=dict(requests))
    return Pod(
        metadata=ObjectMeta(name=uid, namespace="default", uid=uid),
        spec=PodSpec(containers=(Container(name="main", resources=resources),)),
    )


def recorded() -> list[dict[str, Any]]:
    """Return the recorded scenarios."""
    with gzip.open(VECTORS, "rt") as lines:
        return [json.loads(line) for line in lines]


def slowest(scenarios: list[dict[str, Any]]) -> float:
    """Return the CPU time of the slowest single admission."""
    worst = 0.0
    for scenario in scenarios:
        if scenario.get("startError"):
            continue
        node = KubeletNode(
            from_cadvisor(scenario["machine"]),
            read_settings(scenario["kubelet"]),
            devices=read_devices(scenario["devices"] or {}),
        )
        for step in scenario["steps"]:
            if step["op"] == "remove":
                node.remove(step["uid"])
                continue
            pod = msgspec.convert(step["pod"], Pod)
            start = time.process_time()
            node.admit(pod)
            worst = max(worst, time.process_time() - start)
    return worst
