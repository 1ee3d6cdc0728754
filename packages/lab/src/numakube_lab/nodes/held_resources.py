"""What a node's pods hold, in the words of the PodResources API (v1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.api.pod_resources import is_sidecar
from numakube.node.podresources_client import (
    AllocatableResources,
    ContainerResources,
    Devices,
    Memory,
    PodResources,
)
from numakube.values.cpuset import CpuSet

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numakube.api.pod import Container, Pod
    from numakube.kubelet.admission_outcome import MemoryBlock
    from numakube.kubelet.kubelet_model import KubeletNode
    from numakube_lab.nodes.dra_driver import ClaimedDevices


def pod_resources(
    model: KubeletNode, pods: Iterable[Pod], claims: ClaimedDevices | None = None
) -> tuple[PodResources, ...]:
    """Return what each of the active *pods* holds."""
    return tuple(_pod(model, pod, claims) for pod in pods)


def allocatable_resources(model: KubeletNode) -> AllocatableResources:
    """Return what an empty node could give out: healthy devices, CPUs less the reserved, memory."""
    devices = model.devices
    return AllocatableResources(
        cpu_ids=tuple(CpuSet(model.cpus.allocatable)) if model.cpus else (),
        memory=tuple(
            Memory(kind, table.allocatable, (number,))
            for number, books in (model.memory.books if model.memory else {}).items()
            for kind, table in books.tables.items()
            if table.allocatable
        ),
        devices=tuple(
            entry
            for resource in devices.resources()
            for device in sorted(devices.healthy(resource))
            for entry in _device(model, resource, device)
        ),
    )


def _pod(model: KubeletNode, pod: Pod, claims: ClaimedDevices | None) -> PodResources:
    sidecars = [one for one in pod.spec.init_containers if is_sidecar(one)]
    uid = pod.metadata.uid
    return PodResources(
        name=pod.metadata.name,
        namespace=pod.metadata.namespace,
        containers=tuple(
            _container(model, pod, one, claims) for one in (*sidecars, *pod.spec.containers)
        ),
        cpu_ids=tuple(CpuSet(model.cpus.bubbles.get(uid, 0))) if model.cpus else (),
        memory=_memory(model.memory.bubbles.get(uid, ())) if model.memory else (),
    )


def _container(
    model: KubeletNode, pod: Pod, container: Container, claims: ClaimedDevices | None
) -> ContainerResources:
    held = model.placement(pod.metadata.uid, container.name)
    return ContainerResources(
        name=container.name,
        cpu_ids=tuple(held.cpus),
        memory=_memory(held.memory),
        devices=tuple(
            entry
            for resource, ids in held.devices.items()
            for device in ids
            for entry in _device(model, resource, device)
        ),
        dynamic_resources=claims.of_container(pod, container) if claims else (),
    )


def _memory(blocks: Iterable[MemoryBlock]) -> tuple[Memory, ...]:
    return tuple(Memory(one.type, one.size_bytes, one.numa_nodes) for one in blocks)


def _device(model: KubeletNode, resource: str, device: str) -> Iterable[Devices]:
    """Yield one entry for each NUMA node of a device, or one without any."""
    nodes = model.devices.numa_nodes_of(resource, device)
    if not nodes:
        yield Devices(resource, (device,))
    for number in nodes:
        yield Devices(resource, (device,), (number,))
