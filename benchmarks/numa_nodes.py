"""How the cost of asking the kubelet model grows with the number of NUMA nodes.

Machines have two NUMA nodes with CPUs and GPUs, and all others with memory only, as GPU servers of
2026 do. Where a real kubelet would try sets of NUMA nodes for minutes, the answer is that it does.
"""

from __future__ import annotations

import time
import tracemalloc
from itertools import product
from typing import TYPE_CHECKING

from benchmarks.kubelet_model import GPU, guaranteed_pod
from numakube.kubelet.kubelet_model import KubeletNode
from numakube.kubelet.machine import Core, Device, Machine, NumaNode
from numakube.kubelet.manager_settings import KubeletSettings
from numakube.values.cpuset import CpuSet

if TYPE_CHECKING:
    from collections.abc import Iterator

COUNTS = (2, 4, 8, 12, 16, 20, 24, 34, 48, 64)
POLICIES = ("none", "best-effort", "restricted", "single-numa-node")
_MS_BUDGET = 10
_MB_BUDGET = 200


def run() -> Iterator[dict[str, object]]:
    """Yield the slowest admission for each number of NUMA nodes, and the memory of all."""
    tracemalloc.start()
    for count, memory in product(COUNTS, ("None", "Static")):
        yield {
            "metric": f"slowest admission, {count} NUMA nodes, memory {memory}, any policy",
            "value": round(max(_times(count, memory)) * 1e3, 3),
            "unit": "ms",
            "budget": _MS_BUDGET,
        }
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    yield {
        "metric": "most memory at any time",
        "value": round(peak / 1e6, 1),
        "unit": "MB",
        "budget": _MB_BUDGET,
    }


def _times(count: int, memory: str) -> Iterator[float]:
    """Yield the CPU time of admissions under every policy, scope and version."""
    machine = machine_of(count)
    for policy, scope, version in product(POLICIES, ("container", "pod"), ("1.35", "1.37")):
        settings = KubeletSettings(
            topology_policy=policy,
            topology_scope=scope,
            topology_options={"max-allowable-numa-nodes": "64"},
            cpu_policy="static",
            reserved_cpus=CpuSet.of([0]),
            memory_policy=memory,
            reserved_memory={0: {"memory": 1 << 30}},
        )
        node = KubeletNode(machine, settings, kubernetes=version)
        for index, (cpus, gib) in enumerate(((2, 4), (2, 90), (40, 200), (8, 4))):
            start = time.process_time()
            node.admit(guaranteed_pod(f"uid-{index}", cpus=cpus, gib=gib))
            yield time.process_time() - start


def machine_of(count: int) -> Machine:
    """Return a machine of two NUMA nodes with CPUs and so many in all."""
    nodes = []
    for number in range(count):
        cpus = range(32 * number, 32 * number + 32) if number < 2 else range(0)
        cores = tuple(Core(cpu, (cpu,), socket=number, uncore_cache=number) for cpu in cpus)
        distances = tuple(10 if other == number else 40 for other in range(count))
        nodes.append(NumaNode(number, 64 << 30, cores, distances=distances))
    gpus = tuple(Device(f"gpu{index}", (index % 2,)) for index in range(8))
    return Machine(tuple(nodes), cpu_count=64, socket_count=2, devices={GPU: gpus})
