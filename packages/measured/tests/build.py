"""Nodes for tests: a machine of two NUMA nodes, a kubelet's answers, and what its kernel counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from random import Random

from numakube.api.meta import ObjectMeta
from numakube.api.pod import Container, ContainerStatus, Pod, PodSpec, PodStatus
from numakube.apps.exporter.node_scan import NodeInputs
from numakube.apps.exporter.numa_hardware import Hardware, hardware_of
from numakube.kubelet.machines.shape_text import from_shape
from numakube.node.cgroups import FakeCgroups, Version, container_group, pod_group
from numakube.node.podresources_client import ContainerResources, Devices, Memory, PodResources
from numakube.node.sysfs_machine import write_tree
from numakube.node.usage.fake_usage import FakeUsage
from numakube_measured.measurement import MIB, Measurement
from numakube_measured.node_measuring import NodeMeasurer
from numakube_measured.promised_pods import promised_pods

MACHINE = from_shape("2 sockets, 4 cores, smt 2, 32Gi")
GIB = 1 << 30
NOW = datetime(2026, 11, 19, 12, 0, tzinfo=UTC)
CARD = "0000:3b:00.1"


def container_id(name: str, container: str = "app") -> str:
    """Return a container's id, without its runtime."""
    return f"{name}-{container}".encode().hex().ljust(64, "0")[:64]


def running(name: str, *containers: str) -> Pod:
    """Return a pod that runs."""
    names = containers or ("app",)
    statuses = tuple(
        ContainerStatus(name=one, container_id=f"containerd://{container_id(name, one)}")
        for one in names
    )
    return Pod(
        metadata=ObjectMeta(name=name, namespace="team", uid=f"uid-{name}"),
        spec=PodSpec(containers=tuple(Container(name=one) for one in names), node_name="worker"),
        status=PodStatus(phase="Running", container_statuses=statuses),
    )


def holding(
    name: str,
    *,
    cpus: tuple[int, ...] = (),
    memory: int | None = None,
    device: str = "",
    container: str = "app",
) -> PodResources:
    """Return what the kubelet gave a pod: CPUs, memory of a NUMA node, a device of node 0."""
    blocks = () if memory is None else (Memory("memory", GIB, (memory,)),)
    devices = (Devices("example.com/nic", (device,), (0,)),) if device else ()
    held = ContainerResources(name=container, cpu_ids=cpus, memory=blocks, devices=devices)
    return PodResources(name=name, namespace="team", containers=(held,))


@dataclass
class FakeNode:
    """A node on disk, and the clock by which it is measured."""

    root: Path
    version: Version = Version.V2
    pods: dict[str, Pod] = field(default_factory=dict)
    held: dict[str, PodResources] = field(default_factory=dict)
    at: float = 0.0

    def __post_init__(self) -> None:
        sysfs = self.root / "sys"
        write_tree(MACHINE, sysfs)
        self.groups = FakeCgroups.make(
            sysfs / "fs/cgroup", version=self.version, cpus=(1 << 16) - 1, mems=0b11
        )
        self.groups.add("kubepods.slice")
        self.usage = FakeUsage(sysfs, self.root / "proc", version=self.version)
        self.usage.online("0-1")
        for zone in (0, 1):
            self.usage.zone(zone, total=32 * GIB, free=16 * GIB)
        self.usage.cpus(dict.fromkeys(range(16), (0.0, 0.0)))
        self.usage.settings()
        self.measurer = NodeMeasurer(sysfs, self.root / "proc", rng=Random(1))

    @property
    def hardware(self) -> Hardware:
        """The machine."""
        return hardware_of(MACHINE)

    @property
    def inputs(self) -> NodeInputs:
        """What the last scan read."""
        return NodeInputs(hardware=self.hardware, pods=tuple(self.held.values()))

    def run(self, pod: Pod, held: PodResources | None = None) -> str:
        """Have *pod* run, with a group for each container; return that of the pod."""
        name = pod.metadata.name
        self.pods[name] = pod
        if held is not None:
            self.held[name] = held
        group = pod_group("kubepods.slice", "Guaranteed", pod.metadata.uid)
        for container in pod.spec.containers:
            self.groups.add(self.container(name, container.name))
        return group

    def container(self, name: str, container: str = "app") -> str:
        """Return the group of a container."""
        group = pod_group("kubepods.slice", "Guaranteed", f"uid-{name}")
        return container_group(group, f"containerd://{container_id(name, container)}")

    def use(self, group: str, mebibytes: Mapping[int, int]) -> None:
        """Have programs of *group* map memory."""
        self.usage.memory(group, mapped={zone: size * MIB for zone, size in mebibytes.items()})

    def measure(self, after: float = 15.0) -> Measurement:
        """Measure the node some seconds after the last time."""
        self.at += after
        cpus = {cpu: zone.id for zone in self.hardware.zones for cpu in zone.cpus}
        return self.measurer.read(
            promised_pods(self.inputs, self.pods.values()), cpus, now=NOW, at=self.at
        )
