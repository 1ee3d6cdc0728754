"""A node that really is what the model says, and whose exporter reports it."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

import msgspec

from numakube.api.containers import Container, ResourceRequirements
from numakube.api.meta import ObjectMeta
from numakube.api.nrt import Attribute, NodeResourceTopology, Zone
from numakube.api.pod import Pod, PodCondition, PodSpec, PodStatus
from numakube.api.pod_resources import GUARANTEED, qos_class
from numakube.kubelet.machine import Core, Device, Machine, NumaNode
from numakube.kubelet.node import KubeletNode
from numakube.kubelet.outcome import Rejected
from numakube.kubelet.settings import KubeletSettings
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.topology import nrt_names
from numakube.topology.fingerprint import fingerprint_of
from numakube.topology.model_report import attributes_of, model_zones
from numakube.topology.rebuild import report_of
from numakube.topology.report_codec import encode_report
from numakube.topology.zone_amounts import zones_of
from numakube.values.cpuset import CpuSet

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.values.resources import Amounts

GIB = 1 << 30
GPU = "vendor.example/gpu"
SCHEDULER = "numakube"


def machine(zones: int = 2, cores: int = 4, memory_gib: int = 16, gpus: int = 2) -> Machine:
    """A machine with one socket and two threads a core in each zone."""
    cpu = count()
    nodes = tuple(
        NumaNode(
            id=zone,
            memory_bytes=memory_gib * GIB,
            cores=tuple(
                Core(id=core, threads=(next(cpu), next(cpu)), socket=zone) for core in range(cores)
            ),
            distances=tuple(10 if other == zone else 20 for other in range(zones)),
        )
        for zone in range(zones)
    )
    devices = tuple(
        Device(id=f"gpu-{zone}-{number}", numa_nodes=(zone,))
        for zone in range(zones)
        for number in range(gpus)
    )
    return Machine(
        nodes=nodes,
        cpu_count=zones * cores * 2,
        socket_count=zones,
        devices={GPU: devices} if devices else {},
    )


def settings(policy: str, scope: str) -> KubeletSettings:
    """A kubelet with static managers that keeps CPU 0 and 1 GiB of zone 0 for itself."""
    return KubeletSettings(
        topology_policy=policy,
        topology_scope=scope,
        cpu_policy="static",
        reserved_cpus=CpuSet.parse("0"),
        memory_policy="Static",
        reserved_memory={0: {"memory": GIB}},
        memory_reservation={"memory": GIB},
    )


def pod(
    uid: str,
    *,
    cpus: float = 2,
    memory_gib: int = 1,
    gpus: int = 0,
    guaranteed: bool = True,
    priority: int = 0,
    scheduler: str = SCHEDULER,
    containers: int = 1,
) -> Pod:
    """A pod with *containers* equal containers."""
    amounts = {"cpu": f"{round(cpus * 1000)}m", "memory": f"{memory_gib}Gi"}
    devices = {GPU: str(gpus)} if gpus else {}
    resources = ResourceRequirements(
        requests={**amounts, **devices}, limits={**(amounts if guaranteed else {}), **devices}
    )
    return Pod(
        metadata=ObjectMeta(name=uid, namespace="default", uid=uid),
        spec=PodSpec(
            containers=tuple(
                Container(name=f"c{number}", resources=resources) for number in range(containers)
            ),
            scheduler_name=scheduler,
            priority=priority,
        ),
        status=PodStatus(phase="Pending"),
    )


def bound(pod: Pod, node: str) -> Pod:
    """The pod as the API server has it after its binding."""
    spec = msgspec.structs.replace(pod.spec, node_name=node)
    scheduled = PodCondition(type="PodScheduled", status="True")
    status = PodStatus(phase="Pending", conditions=(scheduled,))
    return msgspec.structs.replace(pod, spec=spec, status=status)


def taken(pod: Pod, *, phase: str = "Running") -> Pod:
    """The pod as it is after the kubelet has acknowledged it."""
    status = PodStatus(phase=phase, start_time="2026-01-01T00:00:00Z")
    return msgspec.structs.replace(pod, status=status)


def ended(pod: Pod, *, reason: str = "") -> Pod:
    """The pod as it is when it runs no more."""
    phase = "Failed" if reason else "Succeeded"
    status = PodStatus(phase=phase, reason=reason, start_time="2026-01-01T00:00:00Z")
    return msgspec.structs.replace(pod, status=status)


def info(pod: Pod) -> PodInfo:
    """The pod as caches want it."""
    return PodInfo(pod)


_VERSIONS = count(1)


@dataclass
class Site:
    """The true state of one node."""

    name: str
    node: KubeletNode
    exact: bool = True
    fingerprints: bool = True
    method: str = "all"
    pods: dict[str, Pod] = field(default_factory=dict)

    @classmethod
    def make(
        cls, name: str = "n1", *, policy: str = "single-numa-node", scope: str = "container",
        on: Machine | None = None, exact: bool = True, fingerprints: bool = True,
    ) -> Site:  # fmt: skip
        """A node with a regular machine."""
        return cls(name, KubeletNode(on or machine(), settings(policy, scope)), exact, fingerprints)

    def admit(self, pod: Pod) -> bool:
        """Let the kubelet decide about *pod*."""
        if isinstance(self.node.admit(pod), Rejected):
            return False
        self.pods[pod.metadata.uid] = pod
        return True

    def remove(self, uid: str) -> None:
        """End a pod."""
        self.node.remove(uid)
        self.pods.pop(uid, None)

    @property
    def free(self) -> tuple[Amounts, ...]:
        """What is free in each zone."""
        return tuple(zone.available for zone in zones_of(self.node))

    def report(self, **attributes: str) -> NodeResourceTopology:
        """What the exporter writes now."""
        told = {**attributes_of(self.node), **attributes}
        if self.fingerprints and nrt_names.FINGERPRINT not in told:
            told[nrt_names.FINGERPRINT] = self.fingerprint()
            told[nrt_names.FINGERPRINT_METHOD] = self.method
        annotations = {}
        if self.exact:
            annotations[nrt_names.EXACT_ANNOTATION] = encode_report(report_of(self.node))
        return report_object(self.name, model_zones(self.node), told, annotations)

    def fingerprint(self) -> str:
        """Return that of the pods on the node, or of the Guaranteed ones."""
        only = self.method != "all"
        pods = (one for one in self.pods.values() if not only or qos_class(one) == GUARANTEED)
        return fingerprint_of((one.metadata.namespace, one.metadata.name) for one in pods)


def report_object(
    name: str,
    zones: tuple[Zone, ...],
    attributes: Mapping[str, str],
    annotations: Mapping[str, str] | None = None,
) -> NodeResourceTopology:
    """Return an NRT with the next version."""
    meta = ObjectMeta(
        name=name,
        uid=f"uid-of-{name}",
        resource_version=str(next(_VERSIONS)),
        annotations=dict(annotations or {}),
    )
    told = tuple(Attribute(name=one, value=value) for one, value in attributes.items())
    return NodeResourceTopology(metadata=meta, attributes=told, zones=zones)
