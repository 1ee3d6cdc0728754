"""Small clusters made of kubelet models, as their exporters and the API server tell of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from numakube.api.containers import Container, ResourceRequirements
from numakube.api.meta import ObjectMeta
from numakube.api.nodes import Node, NodeSpec, NodeStatus
from numakube.api.nrt import NodeResourceTopology
from numakube.api.pod import Pod, PodSpec, PodStatus
from numakube.insight.facts import ClusterFacts
from numakube.kubelet.machines.synthetic import from_shape
from numakube.kubelet.node import KubeletNode
from numakube.kubelet.outcome import Rejected
from numakube.kubelet.settings import KubeletSettings
from numakube.scheduling.snapshot.objects import ClusterObjects
from numakube.topology.model_report import nrt_of
from numakube.values.cpuset import CpuSet

GPU = "vendor.example/gpu"
SHAPE = "2 sockets, 4 cores, smt 2, 16Gi, gpu 2"
TAKEN_AT = "2026-03-01T12:00:00Z"
SCHEDULER = "numakube-scheduler"
GIB = 1 << 30


def resources(wanted: Mapping[str, str], *, guaranteed: bool = True) -> ResourceRequirements:
    """Requests and limits; without *guaranteed*, devices alone are limited."""
    limits = dict(wanted) if guaranteed else {k: v for k, v in wanted.items() if "/" in k}
    return ResourceRequirements(requests=dict(wanted), limits=limits)


def pod(name: str, cpu: str = "2", memory: str = "1Gi", **more: Any) -> Pod:
    """A pod with one container; *more* are devices (``gpu``), QoS, or fields of its spec."""
    wanted = {"cpu": cpu, "memory": memory}
    wanted |= {GPU: str(more.pop("gpu"))} if "gpu" in more else {}
    wanted |= more.pop("also", {})
    guaranteed = more.pop("guaranteed", True)
    labels, annotations = more.pop("labels", {}), more.pop("annotations", {})
    container = Container(name="main", resources=resources(wanted, guaranteed=guaranteed))
    spec: dict[str, Any] = {"containers": (container,), "scheduler_name": SCHEDULER, **more}
    return Pod(
        metadata=ObjectMeta(
            name=name, namespace="default", uid=name, labels=labels, annotations=annotations
        ),
        spec=PodSpec(**spec),
        status=PodStatus(phase="Pending"),
    )


def running(one: Pod, node: str) -> Pod:
    """The pod as it is on its node."""
    spec = msgspec.structs.replace(one.spec, node_name=node)
    status = PodStatus(phase="Running", start_time="2026-03-01T10:00:00Z")
    return msgspec.structs.replace(one, spec=spec, status=status)


def rejected(one: Pod, node: str, reason: str, message: str) -> Pod:
    """The pod after the kubelet of *node* has refused it."""
    spec = msgspec.structs.replace(one.spec, node_name=node)
    status = PodStatus(
        phase="Failed", reason=reason, message=message, start_time="2026-03-01T10:00:00Z"
    )
    return msgspec.structs.replace(one, spec=spec, status=status)


@dataclass
class Town:
    """A cluster in the making."""

    nodes: dict[str, Node] = field(default_factory=dict)
    models: dict[str, KubeletNode] = field(default_factory=dict)
    topologies: dict[str, NodeResourceTopology] = field(default_factory=dict)
    pods: list[Pod] = field(default_factory=list)
    objects: ClusterObjects = field(default_factory=ClusterObjects)
    extra: dict[str, Any] = field(default_factory=dict)

    def add(
        self,
        name: str,
        policy: str = "single-numa-node",
        scope: str = "container",
        *,
        shape: str = SHAPE,
        cpu_options: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        reserved: str = "0",
        managed: bool = True,
        annotations: Mapping[str, str] | None = None,
        **spec: Any,
    ) -> KubeletNode:
        """Add a node whose kubelet keeps a core and 1Gi of the first zone for itself.

        If it is not *managed*, the kubelet gives out neither CPUs nor memory by NUMA node.
        """
        model = KubeletNode(
            from_shape(shape),
            KubeletSettings(topology_policy=policy, topology_scope=scope)
            if not managed
            else KubeletSettings(
                topology_policy=policy,
                topology_scope=scope,
                cpu_policy="static",
                cpu_options=cpu_options or {},
                reserved_cpus=CpuSet.parse(reserved),
                memory_policy="Static",
                reserved_memory={0: {"memory": GIB}},
                memory_reservation={"memory": GIB},
            ),
        )
        self.models[name] = model
        meta = ObjectMeta(
            name=name,
            uid=f"uid-{len(self.nodes)}",
            labels={"kubernetes.io/hostname": name, **(labels or {})},
            annotations=dict(annotations or {}),
        )
        status = NodeStatus(allocatable=_allocatable(model, len(CpuSet.parse(reserved))))
        self.nodes[name] = Node(metadata=meta, spec=NodeSpec(**spec), status=status)
        return model

    def run(self, one: Pod, node: str) -> Pod:
        """Let the kubelet of *node* take a pod."""
        assert not isinstance(self.models[node].admit(one), Rejected)
        there = running(one, node)
        self.pods.append(there)
        return there

    def facts(
        self, *, exact: bool = True, attributes: Mapping[str, Mapping[str, str]] | None = None
    ) -> ClusterFacts:
        """What exporters and the API server tell."""
        told = attributes or {}
        reports = {
            name: nrt_of(name, model, exact=exact, attributes=told.get(name))
            for name, model in self.models.items()
        }
        return ClusterFacts(
            taken_at=TAKEN_AT,
            nodes=self.nodes,
            pods=tuple(self.pods),
            topologies={**reports, **self.topologies},
            objects=self.objects,
            **self.extra,
        )


def _allocatable(model: KubeletNode, reserved: int) -> dict[str, str]:
    machine = model.machine
    memory = sum(node.memory_bytes for node in machine.nodes) - GIB
    amounts = {"cpu": str(machine.cpu_count - reserved), "memory": str(memory), "pods": "110"}
    for resource, devices in machine.devices.items():
        amounts[resource] = str(len(devices))
    for node in machine.nodes:
        for pages in node.hugepages:
            name = f"hugepages-{pages.page_bytes >> 20}Mi"
            amounts[name] = str(int(amounts.get(name, "0")) + pages.total_bytes)
            amounts["memory"] = str(int(amounts["memory"]) - pages.total_bytes)
    return amounts
