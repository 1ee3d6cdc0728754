"""A small cluster of kubelet models: its nodes admit and reject pods as kubelets do.

    world = World()
    world.add_node("node-0", "restricted")
    world.run(pod("web", cpu="4"), "node-0")
    decision = world.scheduler().decide(pod("db", cpu="6"))

Everything is pure and happens at once. Reports are those of perfect exporters.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import msgspec

from numakube.api.meta import ObjectMeta
from numakube.api.nodes import Node, NodeSpec, NodeStatus
from numakube.insight.facts import ClusterFacts
from numakube.kubelet.admission_outcome import Rejected
from numakube.kubelet.config_from_words import configuration_of
from numakube.kubelet.kubelet_model import KubeletNode
from numakube.kubelet.machines.shape_text import from_shape
from numakube.kubelet.manager_settings import KubeletSettings, allocatable_of, capacity_of
from numakube.scheduling.snapshot.cluster_objects import ClusterObjects
from numakube.testing.pods import running
from numakube.testing.scheduler import Scheduler
from numakube.topology.model_report import nrt_of
from numakube.values.cpuset import CpuSet
from numakube.values.resources import quantities_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.api.nrt import NodeResourceTopology
    from numakube.api.pod import Pod
    from numakube.api.scheduler_config import KubeSchedulerConfiguration
    from numakube.kubelet.machine import Machine
    from numakube.scheduling.framework.registry import Registry

SHAPE: Final = "2 sockets, 4 cores, smt 2, 16Gi, gpu 2"
"""Two NUMA nodes, each with 8 CPUs, 16Gi and 2 GPUs."""
TAKEN_AT: Final = "2026-03-01T12:00:00Z"
"""When `World.facts` were collected."""
GIB: Final = 1 << 30


def kubelet_settings(
    policy: str = "single-numa-node", scope: str = "container", *, reserved: str = "0", **more: Any
) -> KubeletSettings:
    """Return a kubelet with static managers that reserves CPUs and 1Gi of the first NUMA node."""
    settings: dict[str, Any] = {
        "topology_policy": policy,
        "topology_scope": scope,
        "cpu_policy": "static",
        "reserved_cpus": CpuSet.parse(reserved),
        "memory_policy": "Static",
        "reserved_memory": {0: {"memory": GIB}},
        "memory_reservation": {"memory": GIB},
    }
    return KubeletSettings(**settings | more)


@dataclass
class World:
    """A cluster in the making.

    Attributes:
        kubelets: the models of the nodes.
        topologies: reports that stand in for what the models would report.
        objects: what schedulers look at besides nodes, pods and reports.
    """

    nodes: dict[str, Node] = field(default_factory=dict)
    kubelets: dict[str, KubeletNode] = field(default_factory=dict)
    pods: list[Pod] = field(default_factory=list)
    topologies: dict[str, NodeResourceTopology] = field(default_factory=dict)
    objects: ClusterObjects = field(default_factory=ClusterObjects)
    _versions: count[int] = field(default_factory=lambda: count(1), init=False, repr=False)

    def add_node(
        self,
        name: str,
        policy: str = "single-numa-node",
        scope: str = "container",
        *,
        machine: Machine | str = SHAPE,
        settings: KubeletSettings | None = None,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        **spec: Any,
    ) -> KubeletNode:
        """Add a node.

        Args:
            name: its name.
            policy: of its kubelet's Topology Manager.
            scope: of its kubelet's Topology Manager.
            machine: the hardware, or its shape in words.
            settings: of the kubelet, instead of `kubelet_settings` with *policy* and *scope*.
            labels: besides the host name.
            annotations: of the node.
            spec: fields of its spec.
        """
        machine = from_shape(machine) if isinstance(machine, str) else machine
        model = KubeletNode(machine, settings or kubelet_settings(policy, scope))
        config = configuration_of(model.settings)
        meta = ObjectMeta(
            name=name,
            uid=f"uid-{len(self.nodes)}",
            labels={"kubernetes.io/hostname": name, **(labels or {})},
            annotations=dict(annotations or {}),
        )
        status = NodeStatus(
            capacity=quantities_of(capacity_of(machine)),
            allocatable=quantities_of(allocatable_of(config, machine)),
        )
        self.nodes[name] = Node(metadata=meta, spec=NodeSpec(**spec), status=status)
        self.kubelets[name] = model
        return model

    def run(self, one: Pod, node: str) -> Pod:
        """Let the kubelet of *node* admit a pod; return it as it is then."""
        outcome = self.kubelets[node].admit(one)
        assert not isinstance(outcome, Rejected), outcome
        there = running(one, node)
        self.pods.append(there)
        return there

    def report(
        self, name: str, *, exact: bool = True, attributes: Mapping[str, str] | None = None
    ) -> NodeResourceTopology:
        """Return what the exporter of a node would publish now; each is newer than the last."""
        report = nrt_of(name, self.kubelets[name], exact=exact, attributes=attributes)
        uid = f"uid-report-{list(self.kubelets).index(name)}"
        version = str(next(self._versions))
        meta = msgspec.structs.replace(report.metadata, uid=uid, resource_version=version)
        return msgspec.structs.replace(report, metadata=meta)

    def facts(
        self,
        *,
        exact: bool = True,
        attributes: Mapping[str, Mapping[str, str]] | None = None,
        **others: Any,
    ) -> ClusterFacts:
        """Return what the API server has of the cluster.

        Args:
            exact: whether reports have exact data.
            attributes: further attributes of reports, by node.
            others: further fields of the facts.
        """
        told = attributes or {}
        reports = {
            name: self.report(name, exact=exact, attributes=told.get(name))
            for name in self.kubelets
        }
        return ClusterFacts(
            taken_at=TAKEN_AT,
            nodes=self.nodes,
            pods=tuple(self.pods),
            topologies={**reports, **self.topologies},
            objects=self.objects,
            **others,
        )

    def scheduler(
        self, config: KubeSchedulerConfiguration | None = None, *, plugins: Registry | None = None
    ) -> Scheduler:
        """Return a scheduler that knows the cluster as it is now.

        Args:
            config: its configuration; by default, that of `numakube run scheduler`.
            plugins: factories of further plugins; the default configuration enables them.
        """
        return Scheduler.of(self.facts(), config, plugins or {})
