"""What measuring a node takes: 110 pods on 2, 8 and 34 NUMA nodes, and how it grows with pods.

The files are those that a kernel offers, as plain files of a fake tree: what a kernel takes to add
up its counters is not in these figures, and `exporter_scan` measures the rest of the exporter.
Every second pod has a CPU and memory of its own, each has four processes; a reading every 15
seconds is what the exporter does.
"""

from __future__ import annotations

import gc
import statistics
import tempfile
import time
import tracemalloc
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final

from numakube.kubelet.machines.shape_text import from_shape
from numakube.node.cgroups import FakeCgroups, Version, container_group, pod_group
from numakube.node.sysfs_machine import write_tree
from numakube.node.usage import FakeUsage
from numakube.values.cpuset import CpuSet
from numakube_measured.measurement import MIB, write_measurement
from numakube_measured.node_measuring import NodeMeasurer
from numakube_measured.promised_pods import PromisedPod
from numakube_measured.report_annotation import EVERY_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator

PODS: Final = 110
ROUNDS: Final = 8
BUDGET_PERCENT: Final = 0.5
BUDGET_MB: Final = 10
SHAPES: Final = {
    "2 NUMA nodes": "2 sockets, 64 cores, smt 2, 512Gi",
    "8 NUMA nodes": "2 sockets, 4 numa each, 16 cores, smt 2, 64Gi",
    "34 NUMA nodes": "2 sockets, 72 cores, 480Gi, 32 cxl 24Gi",
}
_NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)
_PARENT: Final = "kubepods.slice"


def run() -> Iterator[dict[str, object]]:
    """Yield the share of a core, the memory and the size of what is published."""
    for name, shape in SHAPES.items():
        for pods in (PODS,) if name != "2 NUMA nodes" else (PODS // 2, PODS, 2 * PODS):
            yield from _measured(name, shape, pods)


def _measured(name: str, shape: str, pods: int) -> Iterator[dict[str, object]]:
    with tempfile.TemporaryDirectory() as folder:
        node = _Node(Path(folder), shape, pods)
        gc.collect()
        tracemalloc.start()
        text = node.read()
        held = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        seconds = [node.timed() for _ in range(ROUNDS)]
    where = f"{pods} pods, {name}"
    budget = {"budget": BUDGET_PERCENT} if pods == PODS else {}
    percent = 100 * statistics.median(seconds) / EVERY_SECONDS
    yield {"metric": f"CPU of one core, {where}", "value": round(percent, 3), "unit": "%", **budget}
    memory = {"budget": BUDGET_MB} if pods == PODS else {}
    yield {"metric": f"memory, {where}", "value": round(held / 1e6, 2), "unit": "MB", **memory}
    yield {"metric": f"annotation, {where}", "value": round(len(text) / 1024, 1), "unit": "KiB"}


class _Node:
    """A node whose every second pod has a CPU and memory of its own."""

    def __init__(self, root: Path, shape: str, pods: int) -> None:
        machine = from_shape(shape)
        sysfs, proc = root / "sys", root / "proc"
        write_tree(machine, sysfs)
        self._zone_of = {
            cpu: zone.id for zone in machine.nodes for core in zone.cores for cpu in core.threads
        }
        zones = [zone.id for zone in machine.nodes]
        groups = FakeCgroups.make(
            sysfs / "fs/cgroup", version=Version.V2, cpus=CpuSet.of(self._zone_of).bits, mems=1
        )
        usage = FakeUsage(sysfs, proc)
        for zone in zones:
            usage.zone(zone, total=64 << 30, free=8 << 30)
        usage.cpus(dict.fromkeys(self._zone_of, (1.0, 0.0)))
        usage.settings()
        cpus = sorted(self._zone_of)
        self._pods: dict[str, PromisedPod] = {}
        for number in range(pods):
            own = CpuSet.of([cpus[number % len(cpus)]] if number % 2 else [])
            self._add(groups, usage, number, own, zones)
        self._measurer = NodeMeasurer(sysfs, proc, rng=Random(1))
        self._at = 0.0

    def _add(
        self, groups: FakeCgroups, usage: FakeUsage, number: int, own: CpuSet, zones: list[int]
    ) -> None:
        uid, identity = f"00000000-0000-0000-0000-{number:012}", f"{number:064x}"
        group = pod_group(_PARENT, "Guaranteed" if own else "Burstable", uid)
        container = container_group(group, f"containerd://{identity}")
        groups.add(container)
        usage.memory(group, mapped=dict.fromkeys(zones, 100 * MIB), cache={zones[0]: MIB})
        for one in (group, container):
            usage.cpu_time(one, 1.0, stopped=1, periods=10)
            usage.pressure(one, memory=0.0, cpu=0.0)
            usage.confine(one, cpus=str(own or "0-1"), mems="0")
        first = 1000 + 100 * number
        usage.threads(container, {first + 20 * place: [0] * 5 for place in range(4)})
        zone = tuple(sorted({self._zone_of[cpu] for cpu in own}))
        self._pods[uid] = PromisedPod(
            key=f"team/pod-{number}",
            uid=uid,
            kubelet_uid=uid,
            memory_zones=zone,
            cpu_zones=zone,
            cpus={"app": own} if own else {},
            containers={identity: ("app", 0)},
        )

    def read(self) -> str:
        """Measure once, as the exporter does."""
        self._at += EVERY_SECONDS
        return write_measurement(
            self._measurer.read(self._pods, self._zone_of, now=_NOW, at=self._at)
        )

    def timed(self) -> float:
        """Return the CPU seconds of one reading."""
        begun = time.process_time()
        self.read()
        return time.process_time() - begun
