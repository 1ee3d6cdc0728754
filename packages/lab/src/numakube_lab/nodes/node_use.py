"""What a node's kernel would count of its pods: memory, threads and CPU time, as plain files.

Programs use three quarters of the memory that they were given, where they were given it; one that
was given none of a NUMA node uses what it requests near its CPUs, or else evenly. The annotation
``lab.numakube.dev/uses-memory`` of a pod says otherwise, in MiB by NUMA node: ``0=930,1=70``. So a
lab can have a pod whose memory is not where it was promised.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.node.usage import FakeUsage
from numakube.values.cpuset import CpuSet
from numakube.values.quantity import value

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numakube.api.pod import Pod
    from numakube.kubelet import KubeletNode, Machine
    from numakube.node.cgroups import Version

USES_MEMORY: Final = "lab.numakube.dev/uses-memory"

_MIB: Final = 1 << 20
_USUAL: Final = 64 * _MIB
_THREADS: Final = 4
_MOST_DIGITS: Final = 8
_FIRST_PROCESS: Final = 1000


class NodeUse:
    """Keeps the counters of one node in files."""

    def __init__(self, machine: Machine, sysfs: Path, version: Version) -> None:
        self._machine = machine
        self._files = FakeUsage(sysfs, sysfs.parent / "proc", version=version)
        self._zone_of = {
            cpu: node.id for node in machine.nodes for core in node.cores for cpu in core.threads
        }
        self._used: dict[str, dict[int, int]] = {}
        self._processes = _FIRST_PROCESS
        self._begun = False

    def show(self, pod: Pod, group: str, containers: Mapping[str, str], model: KubeletNode) -> None:
        """Write what *pod* uses.

        Args:
            pod: of the node.
            group: its group.
            containers: names by the groups of those that run.
            model: knows what they hold.
        """
        self._begin()
        total: dict[int, int] = {}
        told = _told(pod, {node.id for node in self._machine.nodes})
        for place, (container, name) in enumerate(containers.items()):
            use = self._use(pod, name, model) if told is None else {} if place else told
            self._show_container(pod, container, name, use, model)
            for zone, size in use.items():
                total[zone] = total.get(zone, 0) + size
        self._files.memory(group, mapped=total)
        self._files.cpu_time(group, 0.0)
        self._files.pressure(group, memory=0.0, cpu=0.0)
        self._used[pod.metadata.uid] = total
        self._write_zones()

    def remove(self, uid: str) -> None:
        """Give back what a pod used."""
        if self._used.pop(uid, None) is not None:
            self._write_zones()

    def _begin(self) -> None:
        if self._begun:
            return
        self._begun = True
        self._files.online(str(CpuSet.of(node.id for node in self._machine.nodes)))
        self._files.cpus(dict.fromkeys(self._zone_of, (0.0, 0.0)))
        self._files.settings()

    def _show_container(
        self, pod: Pod, group: str, name: str, use: Mapping[int, int], model: KubeletNode
    ) -> None:
        held = model.placement(pod.metadata.uid, name)
        cpus = held.cpus or model.shared_cpus or CpuSet.of(self._zone_of)
        zones = {zone for block in held.memory for zone in block.numa_nodes}
        mems = CpuSet.of(zones or {node.id for node in self._machine.nodes})
        self._files.memory(group, mapped=use)
        self._files.cpu_time(group, 0.0)
        self._files.confine(group, cpus=str(cpus), mems=str(mems))
        self._files.threads(group, {self._processes: list(cpus)[:_THREADS]})
        self._processes += _THREADS

    def _use(self, pod: Pod, name: str, model: KubeletNode) -> dict[int, int]:
        held = model.placement(pod.metadata.uid, name)
        found: dict[int, int] = {}
        for block in held.memory:
            for zone in block.numa_nodes:
                part = block.size_bytes * 3 // 4 // len(block.numa_nodes)
                found[zone] = found.get(zone, 0) + part
        if found:
            return found
        near = {self._zone_of[cpu] for cpu in held.cpus if cpu in self._zone_of}
        zones = sorted(near or {node.id for node in self._machine.nodes if node.memory_bytes})
        return dict.fromkeys(zones, _requested(pod, name) // len(zones)) if zones else {}

    def _write_zones(self) -> None:
        for node in self._machine.nodes:
            used = sum(use.get(node.id, 0) for use in self._used.values())
            total = node.memory_bytes
            self._files.zone(node.id, total=total, free=max(0, total - used))


def _requested(pod: Pod, name: str) -> int:
    """Return three quarters of the memory that a container requests, or what is usual."""
    for container in (*pod.spec.init_containers, *pod.spec.containers):
        if container.name == name and container.resources is not None:
            asked = container.resources.requests.get("memory", "0")
            return value(asked) * 3 // 4 or _USUAL
    return _USUAL


def _told(pod: Pod, zones: set[int]) -> dict[int, int] | None:
    """Return the bytes by NUMA node that the pod is told to use; what makes no sense is ignored."""
    text = pod.metadata.annotations.get(USES_MEMORY)
    if text is None:
        return None
    found: dict[int, int] = {}
    for part in text.split(","):
        zone, _, size = part.strip().partition("=")
        if (
            zone.isdecimal()
            and size.isdecimal()
            and int(zone) in zones
            and len(size) <= _MOST_DIGITS
        ):
            found[int(zone)] = int(size) * _MIB
    return found
