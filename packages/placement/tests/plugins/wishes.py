"""Pods that are placed by the scheduler, and a small cluster whose kubelets align nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec

from numakube import testing
from numakube.api.koordinator import keys
from numakube.api.koordinator.devices import DeviceCr
from numakube.api.nrt import NodeResourceTopology
from numakube.api.pod import Container, Pod
from numakube.kubelet import KubeletSettings
from numakube.scheduling.snapshot.cluster import Cluster
from numakube.testing import Scheduler, World, resources
from numakube.topology.allotments import Allotment
from numakube.values.cpuset import CpuSet
from numakube_placement.koordinator.allotments import allotment_of
from numakube_placement.plugins.node_numa_resource import NodeNUMAResource

SHAPE = "2 sockets, 4 cores, smt 2, 16Gi"
"""Two NUMA nodes with 8 CPUs and 16Gi each; CPUs 0-7 are on the first."""


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
    if "containers" in more:
        sizes = more.pop("containers").items()
        more["containers"] = tuple(
            Container(name=one, resources=resources({"cpu": size, "memory": memory}))
            for one, size in sizes
        )
    return testing.pod(name, cpu, memory, annotations=annotations, labels=labels, **more)


class KoordinatorScheduler(Scheduler):
    """A scheduler on a cluster whose kubelets align nothing, unless a test says otherwise."""

    def __init__(self) -> None:
        super().__init__(World().scheduler().engine)
        self.world = World()

    @property
    def cluster(self) -> Cluster:
        """What it knows of the cluster."""
        return self.engine.cluster

    @property
    def numa(self) -> NodeNUMAResource:
        """The plugin that places pods."""
        plugin = self.runtime.profile.plugins()[NodeNUMAResource.name]
        assert isinstance(plugin, NodeNUMAResource)
        return plugin

    def add_node(
        self,
        name: str,
        *,
        policy: str = "none",
        scope: str = "container",
        machine: str = SHAPE,
        reported: bool = True,
        offers: Mapping[str, str] | None = None,
        **more: Any,
    ) -> None:
        """Add a node whose kubelet aligns by *policy*, and what its exporter reports."""
        settings = KubeletSettings(topology_policy=policy, topology_scope=scope)
        if policy != "none":
            settings = replace(settings, cpu_policy="static", reserved_cpus=CpuSet.parse("0"))
        self.world.add_node(name, machine=machine, settings=settings, **more)
        node = self.world.nodes[name]
        allocatable = {**node.status.allocatable, **(offers or {})}
        status = msgspec.structs.replace(node.status, allocatable=allocatable)
        self.set_node(msgspec.structs.replace(node, status=status))
        if reported:
            self.set_report(self.world.report(name))

    def report(self, name: str, *pods: Pod) -> NodeResourceTopology:
        """Return what an exporter reports of a node once its kubelet has admitted *pods*."""
        for one in pods:
            self.world.run(one, name)
        return self.world.report(name)

    def set_device(self, device: DeviceCr) -> None:
        """Let a node publish its devices."""
        self.cluster.objects.devices[device.metadata.name] = device
        self.cluster.objects_changed(node=device.metadata.name)


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
