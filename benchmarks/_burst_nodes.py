"""Nodes whose kubelet is the model, and whose exporter reports once a second at most."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Final

import msgspec

from benchmarks._burst_pods import GPU
from numakube.api.meta import ObjectMeta
from numakube.api.nodes import Node, NodeStatus
from numakube.kubelet.admission_outcome import Admitted
from numakube.kubelet.kubelet_model import KubeletNode
from numakube.kubelet.machine import Core, Device, Machine, NumaNode
from numakube.kubelet.manager_settings import KubeletSettings
from numakube.topology import nrt_names
from numakube.topology.fingerprint import fingerprint_of
from numakube.topology.model_report import nrt_of, zones_of
from numakube.values.cpuset import CpuSet

if TYPE_CHECKING:
    from numakube.api.nrt import NodeResourceTopology
    from numakube.api.pod import Pod

_GIB: Final = 1 << 30
_CORES: Final = 24
_ZONES: Final = 2
_MEMORY_GIB: Final = 192
_GPUS_PER_ZONE: Final = 4
_RESERVED_CPUS: Final = "0,1"
_SETTINGS: Final = KubeletSettings(
    topology_policy="single-numa-node",
    cpu_policy="static",
    reserved_cpus=CpuSet.parse(_RESERVED_CPUS),
    memory_policy="Static",
    reserved_memory={0: {"memory": 2 * _GIB}},
    memory_reservation={"memory": 2 * _GIB},
)


def _machine() -> Machine:
    """Return 2 sockets with 48 CPUs, 192 GiB and 4 GPUs each: the trace's most frequent node."""
    cpu = count()
    nodes = tuple(
        NumaNode(
            id=zone,
            memory_bytes=_MEMORY_GIB * _GIB,
            cores=tuple(
                Core(id=core, threads=(next(cpu), next(cpu)), socket=zone) for core in range(_CORES)
            ),
            distances=tuple(10 if other == zone else 20 for other in range(_ZONES)),
        )
        for zone in range(_ZONES)
    )
    gpus = tuple(
        Device(id=f"gpu-{zone}-{number}", numa_nodes=(zone,))
        for zone in range(_ZONES)
        for number in range(_GPUS_PER_ZONE)
    )
    cpus = _ZONES * _CORES * 2
    return Machine(nodes=nodes, cpu_count=cpus, socket_count=_ZONES, devices={GPU: gpus})


_MACHINE: Final = _machine()


class BurstNode:
    """The true state of one node."""

    def __init__(self, name: str, *, exact: bool) -> None:
        self.name = name
        self.kubelet = KubeletNode(_MACHINE, _SETTINGS)
        self.pods: dict[str, Pod] = {}
        self._exact = exact

    def admit(self, pod: Pod) -> bool:
        """Let the kubelet decide about *pod*."""
        admitted = isinstance(self.kubelet.admit(pod), Admitted)
        if admitted:
            self.pods[pod.metadata.uid] = pod
        return admitted

    def end(self, uid: str) -> None:
        """End a pod."""
        self.kubelet.remove(uid)
        del self.pods[uid]

    def would_admit(self, pod: Pod) -> bool:
        """Tell whether the kubelet would take *pod* now."""
        return isinstance(self.kubelet.clone().admit(pod), Admitted)

    def free_cpus(self) -> int:
        """Return how many CPUs could still be given out."""
        return sum(zone.available.get("cpu", 0) for zone in zones_of(self.kubelet)) // 1000

    def node(self) -> Node:
        """Return the node object."""
        cpus = _MACHINE.cpu_count - len(CpuSet.parse(_RESERVED_CPUS))
        allocatable = {
            "cpu": str(cpus),
            "memory": f"{_ZONES * _MEMORY_GIB - 2}Gi",
            GPU: str(_ZONES * _GPUS_PER_ZONE),
            "pods": "110",
        }
        return Node(metadata=ObjectMeta(name=self.name), status=NodeStatus(allocatable=allocatable))

    def report(self, version: int) -> NodeResourceTopology:
        """Return what the exporter writes now."""
        pods = ((one.metadata.namespace, one.metadata.name) for one in self.pods.values())
        told = {nrt_names.FINGERPRINT: fingerprint_of(pods)}
        report = nrt_of(self.name, self.kubelet, exact=self._exact, attributes=told)
        metadata = msgspec.structs.replace(
            report.metadata, uid=self.name, resource_version=str(version)
        )
        return msgspec.structs.replace(report, metadata=metadata)
