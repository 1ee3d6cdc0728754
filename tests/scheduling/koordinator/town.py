"""A scheduler's own parts on a small cluster whose kubelets align nothing, one step at a time."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from numakube.api.containers import Container, ResourceRequirements
from numakube.api.koordinator import keys
from numakube.api.koordinator.devices import DeviceCr
from numakube.api.meta import ObjectMeta
from numakube.api.nodes import Node, NodeStatus
from numakube.api.nrt import NodeResourceTopology
from numakube.api.pod import Pod, PodSpec, PodStatus
from numakube.insight.scheduler_engine import BindsNothing
from numakube.koordinator.ledger.annotations import allotment_of
from numakube.koordinator.ledger.holdings import Allotment
from numakube.kubelet.machines.synthetic import from_shape
from numakube.kubelet.node import KubeletNode
from numakube.kubelet.outcome import Admitted
from numakube.kubelet.settings import KubeletSettings
from numakube.scheduling.assembly import assemble, default_configuration, our_plugins
from numakube.scheduling.cycle import Chosen, Cycle, Refused
from numakube.scheduling.framework.bind_annotations import as_bound
from numakube.scheduling.framework.runtime import Runtime
from numakube.scheduling.koordinator.node_numa_resource import NodeNUMAResource
from numakube.scheduling.numa.topology_match import pending_changes
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.topology.model_report import nrt_of
from numakube.values.cpuset import CpuSet

NAME = "numakube-scheduler"
SHAPE = "2 sockets, 4 cores, smt 2, 16Gi"
"""Two NUMA nodes with 8 CPUs and 16Gi each; CPUs 0-7 are on the first."""


class NoDice:
    """Takes the first of equals."""

    def random(self, size: int) -> Any:
        """Return zeros."""
        return np.zeros(size)


def pod(
    name: str,
    cpu: str = "2",
    memory: str = "1Gi",
    *,
    spec: Mapping[str, Any] | None = None,
    bound: bool = False,
    **more: Any,
) -> Pod:
    """Return a pod of one container.

    Args:
        name: its name and uid.
        cpu: how much.
        memory: how much.
        spec: its numa-topology-spec.
        bound: whether its CPUs are bound (QoS class LSR).
        more: ``containers`` (cpu by name) instead of one, ``annotations``, ``labels``,
            ``priority``, ``resource_spec``.
    """
    annotations = dict(more.pop("annotations", {}))
    labels = dict(more.pop("labels", {}))
    if spec is not None:
        annotations[keys.NUMA_TOPOLOGY_SPEC] = json.dumps(spec)
    if "resource_spec" in more:
        annotations[keys.RESOURCE_SPEC] = json.dumps(more.pop("resource_spec"))
    if bound:
        labels |= {keys.QOS_CLASS: "LSR", keys.PRIORITY_CLASS: "koord-prod"}
    sizes = more.pop("containers", {"main": cpu})
    extra = more.pop("also", {})
    containers = []
    for container, size in sizes.items():
        wanted = {"cpu": size, "memory": memory, **extra}
        resources = ResourceRequirements(requests=wanted, limits=dict(wanted))
        containers.append(Container(name=container, resources=resources))
    return Pod(
        metadata=ObjectMeta(
            name=name, namespace="default", uid=name, annotations=annotations, labels=labels
        ),
        spec=PodSpec(containers=tuple(containers), scheduler_name=NAME, **more),
        status=PodStatus(phase="Pending"),
    )


class Town:
    """A cluster and a scheduler of it."""

    def __init__(self) -> None:
        self.parts = assemble(default_configuration(NAME), our_plugins(BindsNothing.make))
        self.cluster = self.parts.cluster
        self.runtime: Runtime = self.parts.runtimes[NAME]
        self.cycle = Cycle(self.cluster, self.parts.nominations, NoDice())
        self.models: dict[str, KubeletNode] = {}

    @property
    def plugin(self) -> NodeNUMAResource:
        """The plugin."""
        plugin = self.runtime.profile.plugins()[NodeNUMAResource.name]
        assert isinstance(plugin, NodeNUMAResource)
        return plugin

    def add_node(
        self,
        name: str,
        *,
        labels: dict[str, str] | None = None,
        annotations: dict[str, str] | None = None,
        policy: str = "none",
        scope: str = "container",
        shape: str = SHAPE,
        reported: bool = True,
        offers: Mapping[str, str] | None = None,
        **settings: Any,
    ) -> None:
        """Add a node whose kubelet aligns by *policy*, and what its exporter tells."""
        machine = from_shape(shape)
        if policy != "none":
            settings |= {"cpu_policy": "static", "reserved_cpus": CpuSet.parse("0")}
        wanted = KubeletSettings(topology_policy=policy, topology_scope=scope, **settings)
        model = KubeletNode(machine, wanted)
        self.models[name] = model
        nrt = nrt_of(name, model, exact=True)
        allocatable = {"cpu": "16", "memory": "32Gi", "pods": "110", **(offers or {})}
        meta = ObjectMeta(
            name=name, uid=f"uid-{name}", labels=labels or {}, annotations=annotations or {}
        )
        self.cluster.set_node(Node(metadata=meta, status=NodeStatus(allocatable=allocatable)))
        if reported:
            self._apply(self.parts.cache.set_report(nrt))

    def report(self, name: str, *pods: Pod) -> NodeResourceTopology:
        """Return what an exporter tells of a node once its kubelet has taken *pods*."""
        for one in pods:
            assert isinstance(self.models[name].admit(one), Admitted)
        report = nrt_of(name, self.models[name], exact=True)
        newer = msgspec.structs.replace(report.metadata, resource_version="2")
        return msgspec.structs.replace(report, metadata=newer)

    def tell(self, report: NodeResourceTopology) -> None:
        """Take over a report."""
        self._apply(self.parts.cache.set_report(report))

    def set_device(self, device: DeviceCr) -> None:
        """Let a node publish its devices."""
        self.cluster.objects.devices[device.metadata.name] = device
        self.cluster.objects_changed(node=device.metadata.name)

    def try_pod(self, one: Pod) -> Chosen | Refused:
        """Return what the scheduler decides."""
        decision = self.cycle.decide(PodInfo(one), self.runtime)
        assert isinstance(decision, Chosen | Refused)
        return decision

    def assume(self, one: Pod) -> PodInfo:
        """Decide, reserve and assume a pod, as far as a scheduler goes before binding."""
        decision = self.try_pod(one)
        assert isinstance(decision, Chosen), decision
        node = self.cluster.node(decision.node)
        assert node is not None
        info = PodInfo(one)
        assert self.runtime.reserve(decision.state, info, node).ok
        self._apply(pending_changes(decision.state))
        assumed = as_bound(decision.state, info)
        self.cluster.place(assumed, decision.node)
        return assumed

    def run(self, one: Pod) -> Pod:
        """Schedule a pod and let the server tell of it; return it as it is then."""
        assumed = self.assume(one)
        node = self.cluster.node_of(assumed.uid)
        assert node is not None
        there = bound_to(assumed.pod, node)
        self.see(there)
        return there

    def see(self, one: Pod) -> None:
        """Take over what the server tells of a pod."""
        info = PodInfo(one)
        self._apply(self.parts.cache.pod_seen(info))
        self.cluster.place(info, one.spec.node_name)

    def forget(self, uid: str) -> None:
        """Take over that a pod is gone."""
        self.cluster.remove_pod(uid)
        self._apply(self.parts.cache.pod_gone(uid))

    def reasons(self, one: Pod) -> set[str]:
        """Return why a pod fits nowhere."""
        decision = self.try_pod(one)
        assert isinstance(decision, Refused), decision
        diagnosis = decision.diagnosis
        if diagnosis.pre_filter is not None:
            return set(diagnosis.pre_filter.reasons)
        return {reason for _, status in diagnosis.groups() for reason in status.reasons}

    def _apply(self, changes: Any) -> None:
        self.cluster.take(changes, self.parts.cache)


def bound_to(one: Pod, node: str) -> Pod:
    """Return a pod as it is on its node."""
    spec = msgspec.structs.replace(one.spec, node_name=node)
    return msgspec.structs.replace(one, spec=spec, status=PodStatus(phase="Running"))


def given(one: Pod) -> Allotment:
    """Return what a pod was given, as its annotations tell."""
    problems: list[str] = []
    allotment = allotment_of(one, problems)
    assert allotment is not None
    assert not problems
    return allotment


def cpus(one: Pod) -> str:
    """Return the CPUs that a pod was given."""
    return str(CpuSet(given(one).total.cpus))
