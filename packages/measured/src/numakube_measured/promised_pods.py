"""What the kubelet promised each pod of its node: zones, CPUs and devices by container. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from numakube.api.pod import by_kubelet_uid, has_ended
from numakube.node.pci.pci_functions import is_address
from numakube.values.cpuset import CpuSet

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numakube.api.pod import Pod
    from numakube.apps.exporter.node_scan import NodeInputs
    from numakube.apps.exporter.numa_hardware import Hardware
    from numakube.node.podresources_client import ContainerResources, PodResources


@dataclass(frozen=True, slots=True, kw_only=True)
class PromisedPod:
    """One pod.

    Attributes:
        key: ``namespace/name``.
        uid: as the API has it.
        kubelet_uid: as the kubelet has it, which is another one for static pods.
        memory_zones: of memory that it has for itself.
        cpu_zones: of CPUs that it has for itself; so are ``device_zones``.
        cpus: those CPUs, by container; the pod's own under the empty name.
        devices: PCI addresses of its devices.
        containers: by the runtime's ids, names and places in the specification.
    """

    key: str
    uid: str
    kubelet_uid: str
    memory_zones: tuple[int, ...] = ()
    cpu_zones: tuple[int, ...] = ()
    device_zones: tuple[int, ...] = ()
    cpus: Mapping[str, CpuSet] = field(default_factory=lambda: MappingProxyType({}))
    devices: tuple[str, ...] = ()
    containers: Mapping[str, tuple[str, int]] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def zones(self) -> tuple[int, ...]:
        """Where its memory should be: where it was given some, else near its CPUs or devices."""
        return self.memory_zones or self.cpu_zones or self.device_zones


def promised_pods(inputs: NodeInputs, pods: Iterable[Pod]) -> dict[str, PromisedPod]:
    """Return the pods of a node by the uid that their control groups have.

    Args:
        inputs: what the kubelet said in the last scan.
        pods: the node's pods in the API.
    """
    held = {(pod.namespace, pod.name): pod for pod in inputs.pods}
    return {
        uid: _promised(pod, uid, held.get((pod.metadata.namespace, pod.metadata.name)), inputs)
        for uid, pod in by_kubelet_uid(pods).items()
        if not has_ended(pod)
    }


def _promised(pod: Pod, uid: str, held: PodResources | None, inputs: NodeInputs) -> PromisedPod:
    parts = () if held is None else held.containers
    own = () if held is None else held.cpu_ids
    cpus = {part.name: CpuSet.of(part.cpu_ids) for part in parts if part.cpu_ids}
    if own and not cpus:
        cpus = {"": CpuSet.of(own)}
    blocks = [block for part in parts for block in part.memory]
    blocks += () if held is None else held.memory
    return PromisedPod(
        key=pod.metadata.key,
        uid=pod.metadata.uid,
        kubelet_uid=uid,
        memory_zones=_real(node for block in blocks for node in block.numa_nodes),
        cpu_zones=_zones_of(cpus.values(), inputs.hardware),
        device_zones=_real(
            node for part in parts for entry in part.devices for node in entry.numa_nodes
        ),
        cpus=cpus,
        devices=tuple(_addresses(parts, inputs)),
        containers=_containers(pod),
    )


def _real(nodes: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted({node for node in nodes if node >= 0}))


def _zones_of(sets: Iterable[CpuSet], hardware: Hardware) -> tuple[int, ...]:
    found = (hardware.numa_of(cpu) for cpus in sets for cpu in cpus)
    return tuple(sorted({zone for zone in found if zone is not None}))


def _addresses(parts: Iterable[ContainerResources], inputs: NodeInputs) -> Iterator[str]:
    """Yield the PCI addresses of devices: some plugins call devices by them."""
    for part in parts:
        for entry in part.devices:
            for device in entry.ids:
                address = device if is_address(device) else inputs.connected.functions.get(device)
                if address:
                    yield address


def _containers(pod: Pod) -> dict[str, tuple[str, int]]:
    status = pod.status
    if status is None:
        return {}
    specified = (*pod.spec.init_containers, *pod.spec.containers)
    places = {container.name: place for place, container in enumerate(specified)}
    listed = (*status.init_container_statuses, *status.container_statuses)
    named = ((one.container_id.rpartition("://")[2], one.name) for one in listed)
    return {
        identity: (name, places[name]) for identity, name in named if identity and name in places
    }
