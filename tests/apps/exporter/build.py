"""Short ways to write what a scan reads, from literals and from a model's state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.api.kubelet_config import (
    KubeletConfiguration,
    MemoryReservation,
    with_defaults,
)
from numakube.api.pod import Pod
from numakube.apps.exporter.kubelet_checkpoints import read_checkpoints
from numakube.apps.exporter.node_scan import KubeletFacts, NodeInputs
from numakube.apps.exporter.numa_hardware import Hardware, ZoneHardware, hardware_of
from numakube.kubelet.state_files import save
from numakube.node.podresources_client import (
    AllocatableResources,
    ContainerResources,
    Devices,
    Memory,
    PodResources,
)
from numakube.values.cpuset import CpuSet
from numakube.values.quantity import value
from numakube_lab.nodes.node_folder import allocatable_resources, pod_resources

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numakube.api.nrt import Zone
    from numakube.kubelet.kubelet_model import KubeletNode
    from numakube.kubelet.manager_settings import KubeletSettings

GIB = 1 << 30
Figures = dict[str, dict[str, tuple[int, int, int]]]
"""Capacity, allocatable and available by zone and resource."""


def zone(numa: int, cpus: str = "", **more: object) -> ZoneHardware:
    """A NUMA node with these CPUs, without hugepages, 10 from itself and 20 from others."""
    facts: dict[str, object] = {"memory_bytes": 0, "hugepages": {}, "distances": (10, 20), **more}
    return ZoneHardware(id=numa, cpus=CpuSet.parse(cpus), **facts)  # type: ignore[arg-type]


def two_zones(memory: int = 0) -> Hardware:
    """Two NUMA nodes of twelve CPUs: even ones on the first."""
    even, odd = (",".join(map(str, range(first, 24, 2))) for first in (0, 1))
    return Hardware(zones=(zone(0, even, memory_bytes=memory), zone(1, odd, memory_bytes=memory)))


def pod(
    *containers: ContainerResources, name: str = "pod", namespace: str = "default"
) -> PodResources:
    """A listed pod."""
    return PodResources(name=name, namespace=namespace, containers=containers)


def container(
    name: str = "c",
    cpus: Iterable[int] = (),
    memory: Iterable[Memory] = (),
    devices: Iterable[Devices] = (),
) -> ContainerResources:
    """A container and what it holds."""
    return ContainerResources(name, tuple(cpus), tuple(memory), tuple(devices))


def inputs(
    hardware: Hardware,
    *pods: PodResources,
    cpus: Iterable[int] = (),
    memory: Iterable[Memory] = (),
    devices: Iterable[Devices] = (),
) -> NodeInputs:
    """What a scan of a machine with these allocatable resources reads."""
    allocatable = AllocatableResources(tuple(cpus), tuple(memory), tuple(devices))
    return NodeInputs(hardware=hardware, allocatable=allocatable, pods=pods)


def inputs_of(node: KubeletNode, pods: Mapping[str, Pod]) -> NodeInputs:
    """What a scan of a modelled node reads, with the active ones of *pods* (by uid)."""
    active = [pods[uid] for uid in node.pods]
    return NodeInputs(
        hardware=hardware_of(node.machine),
        allocatable=allocatable_resources(node),
        pods=pod_resources(node, active),
        checkpoints=read_checkpoints(save(node)),
        kubelet=KubeletFacts(
            config=configuration(node.settings), version="v{}.{}.0".format(*node.behaviour.version)
        ),
        uids={(one.metadata.namespace, one.metadata.name): one.metadata.uid for one in active},
    )


def configuration(settings: KubeletSettings) -> KubeletConfiguration:
    """The configuration file of a kubelet with these settings."""
    reserved = sum(kinds.get("memory", 0) for kinds in settings.reserved_memory.values())
    return with_defaults(
        KubeletConfiguration(
            topology_manager_policy=settings.topology_policy,
            topology_manager_scope=settings.topology_scope,
            topology_manager_policy_options=dict(settings.topology_options),
            cpu_manager_policy=settings.cpu_policy,
            cpu_manager_policy_options=dict(settings.cpu_options),
            memory_manager_policy=settings.memory_policy,
            reserved_system_cpus=str(settings.reserved_cpus or ""),
            reserved_memory=tuple(
                MemoryReservation(numa_node=numa, limits=dict(kinds))
                for numa, kinds in settings.reserved_memory.items()
            ),
            system_reserved={"memory": reserved},
            eviction_hard={},
            feature_gates=dict(settings.feature_gates),
        )
    )


def figures(zones: Iterable[Zone]) -> Figures:
    """Return the amounts in *zones* as numbers."""
    return {
        one.name: {
            part.name: (
                value(part.capacity),
                value(part.allocatable),
                value(part.available),
            )
            for part in one.resources
        }
        for one in zones
    }
