"""A node that really is what the model says, and whose exporter reports it."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

import msgspec

from numakube import testing
from numakube.api.meta import ObjectMeta
from numakube.api.nrt import Attribute, NodeResourceTopology, Zone
from numakube.api.pod import Container, Pod, PodStatus
from numakube.api.pod_resources import GUARANTEED, qos_class
from numakube.kubelet import KubeletNode, Machine, Rejected, from_shape
from numakube.testing import GPU, kubelet_settings, resources
from numakube.topology import nrt_names
from numakube.topology.exact_report import Heartbeat
from numakube.topology.fingerprint import fingerprint_of
from numakube.topology.foreseen_holdings import foreseen_text
from numakube.topology.model_report import attributes_of, model_zones, report_of, zones_of
from numakube.topology.report_codec import with_exact

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.values.resources import Amounts

GIB = 1 << 30
SCHEDULER = "numakube"


def machine(zones: int = 2, cores: int = 4, memory_gib: int = 16, gpus: int = 2) -> Machine:
    """A machine with one socket and two threads a core in each zone."""
    devices = f", gpu {gpus}" if gpus else ""
    return from_shape(f"{zones} sockets, {cores} cores, smt 2, {memory_gib}Gi{devices}")


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
    wanted = {"cpu": f"{round(cpus * 1000)}m", "memory": f"{memory_gib}Gi"}
    wanted |= {GPU: str(gpus)} if gpus else {}
    equal = tuple(
        Container(name=f"c{number}", resources=resources(wanted, guaranteed=guaranteed))
        for number in range(containers)
    )
    return testing.pod(uid, containers=equal, scheduler_name=scheduler, priority=priority)


def taken(pod: Pod, *, phase: str = "Running") -> Pod:
    """The pod as it is after the kubelet has acknowledged it."""
    status = PodStatus(phase=phase, start_time="2026-01-01T00:00:00Z")
    return msgspec.structs.replace(pod, status=status)


def ended(pod: Pod, *, reason: str = "") -> Pod:
    """The pod as it is when it runs no more."""
    phase = "Failed" if reason else "Succeeded"
    status = PodStatus(phase=phase, reason=reason, start_time="2026-01-01T00:00:00Z")
    return msgspec.structs.replace(pod, status=status)


def of_surprises(
    nrt: NodeResourceTopology, seconds: float = 60.0, *, at: str = "2026-01-01T00:00:00.000000Z"
) -> NodeResourceTopology:
    """The report as an exporter writes it that reports only surprises."""
    promise = str(Heartbeat(seconds, at))
    annotations = {**nrt.metadata.annotations, nrt_names.SURPRISES_ANNOTATION: promise}
    metadata = msgspec.structs.replace(nrt.metadata, annotations=annotations)
    return msgspec.structs.replace(nrt, metadata=metadata)


_VERSIONS = count(1)


@dataclass
class ReportedNode:
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
    ) -> ReportedNode:  # fmt: skip
        """A node with a regular machine."""
        return cls(
            name, KubeletNode(on or machine(), kubelet_settings(policy, scope)), exact, fingerprints
        )

    def admit(self, pod: Pod) -> bool:
        """Let the kubelet decide about *pod*."""
        if isinstance(self.node.admit(pod), Rejected):
            return False
        self.pods[pod.metadata.uid] = pod
        return True

    def admit_as_foreseen(self, pod: Pod) -> Pod:
        """Let the kubelet admit *pod*; return it with an annotation that foresaw what it got."""
        assert self.admit(pod)
        foreseen = foreseen_text(self.node, pod.metadata.uid)
        annotations = {**pod.metadata.annotations, nrt_names.FORESEEN: foreseen}
        metadata = msgspec.structs.replace(pod.metadata, annotations=annotations)
        return msgspec.structs.replace(pod, metadata=metadata)

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
        report = report_object(self.name, model_zones(self.node), told)
        return with_exact(report, report_of(self.node)) if self.exact else report

    def overwrite(self, last: NodeResourceTopology) -> NodeResourceTopology:
        """What the object says when RTE has written it after *last*: annotations stay."""
        policy = attributes_of(self.node)[nrt_names.TOPOLOGY_POLICY]
        told = {
            nrt_names.FINGERPRINT: self.fingerprint(),
            nrt_names.FINGERPRINT_METHOD: self.method,
            nrt_names.TOPOLOGY_SCOPE: attributes_of(self.node)[nrt_names.TOPOLOGY_SCOPE],
            nrt_names.TOPOLOGY_POLICY: policy,
        }
        annotations = {**last.metadata.annotations, nrt_names.RTE_UPDATE_ANNOTATION: "reactive"}
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
