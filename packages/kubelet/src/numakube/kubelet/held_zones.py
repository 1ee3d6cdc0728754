"""In which zones of a node a pod has something for itself: NUMA nodes, PCI roots or islands.

What counts are exclusive CPUs, pinned memory and devices; a pod that has none of them is in no
zone. Where a pod is that a kubelet will admit is certain only as far as the kubelet model knows how
the kubelet chooses: see `numakube.kubelet.device_pairs`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING

from numakube.api.node_islands import NONE_TOLD
from numakube.api.zone_relations import ZoneLevel
from numakube.kubelet.device_links import device_sets
from numakube.kubelet.device_pairs import device_handouts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from numakube.api.node_islands import ToldIslands
    from numakube.kubelet.admission_outcome import Admitted, MemoryBlock
    from numakube.kubelet.device_pairs import DeviceHandout
    from numakube.kubelet.kubelet_model import KubeletNode
    from numakube.kubelet.machine import Device, DeviceTree
    from numakube.kubelet.pod_demand import PodDemand


@dataclass(frozen=True, slots=True)
class ForeseenZones:
    """Where a pod will be.

    Attributes:
        certain: zones in which it will have something in any case.
        possible: those and others in which it may.
    """

    certain: frozenset[str]
    possible: frozenset[str]


class ZoneMap:
    """The zones of one level on the node of a kubelet model, by what is in them."""

    def __init__(self, model: KubeletNode, level: ZoneLevel, told: ToldIslands = NONE_TOLD) -> None:
        self._model = model
        self._level = level
        self._told = told

    def held(self, uid: str) -> frozenset[str] | None:
        """Return where an admitted pod has something; ``None`` if that is not known.

        It is not where the pod has devices of which none has a known PCI root.
        """
        model = self._model
        cpus, blocks = 0, list["MemoryBlock"]()
        if model.cpus is not None:
            cpus = model.cpus.bubbles.get(uid, 0)
            for part in model.cpus.assignments.get(uid, {}).values():
                cpus |= part
        if model.memory is not None:
            blocks += model.memory.bubbles.get(uid) or ()
            blocks += chain.from_iterable(model.memory.assignments.get(uid, {}).values())
        devices = [
            self._zones_of(resource, id_)
            for held in model.devices.assignments.get(uid, {}).values()
            for resource, ids in held.items()
            for id_ in ids
        ]
        if self._level is ZoneLevel.PCI_ROOT and devices and not any(devices):
            return None
        return frozenset(chain(self._of_cpus(cpus), self._of_memory(blocks), *devices))

    def foreseen(self, demand: PodDemand, admitted: Admitted) -> ForeseenZones:
        """Return where a pod will have something that the model admits."""
        certain: set[str] = set()
        possible: set[str] = set()
        for placement in admitted.containers.values():
            certain.update(self._of_cpus(placement.cpus.bits), self._of_memory(placement.memory))
        handouts = device_handouts(self._model, demand, admitted)
        for handout in chain.from_iterable(handouts.values()):
            surely, maybe = self._of_handout(handout)
            certain |= surely
            possible |= maybe
        return ForeseenZones(frozenset(certain), frozenset(certain | possible))

    def offered(self, demand: PodDemand) -> frozenset[str]:
        """Return the zones that have anything of what a pod asks for to itself, free or not.

        A zone without the devices that it asks for is none in which it could be.
        """
        resources = {
            name
            for container in demand.containers
            for name, count in container.limits.items()
            if count and name in self._model.devices.resources()
        }
        if resources:
            by_resource = [
                {zone for id_ in self._ids(name) for zone in self._zones_of(name, id_)}
                for name in resources
            ]
            return frozenset(set.intersection(*by_resource))
        if self._level is not ZoneLevel.NUMA:
            return frozenset()
        return frozenset(numa_zone(node.id) for node in self._model.machine.nodes if node.cores)

    def _of_handout(self, handout: DeviceHandout) -> tuple[set[str], set[str]]:
        """Return where a container will be by its devices of one resource, and where it may be."""
        name = handout.resource
        certain = {zone for one in handout.certain for zone in self._zones_of(name, one.id)}
        choices = [self._zones_of(name, one.id) for one in handout.candidates]
        possible = set(chain.from_iterable(choices))
        for zone in possible:
            # It cannot be avoided if those elsewhere are too few.
            if sum(zone not in zones for zones in choices) < handout.wanted:
                certain.add(zone)
        return certain, possible

    def _of_cpus(self, cpus: int) -> Iterator[str]:
        manager = self._model.cpus
        if self._level is ZoneLevel.NUMA and cpus and manager is not None:
            yield from (
                numa_zone(node) for node, own in manager.topology.numa.items() if own & cpus
            )

    def _of_memory(self, blocks: Iterable[MemoryBlock]) -> Iterator[str]:
        if self._level is ZoneLevel.NUMA:
            yield from (numa_zone(node) for block in blocks for node in block.numa_nodes)

    def _ids(self, resource: str) -> Iterable[str]:
        return (device.id for device in self._model.devices.devices_of(resource))

    def _zones_of(self, resource: str, id_: str) -> tuple[str, ...]:
        return self._by_device.get((resource, id_), ())

    @cached_property
    def _by_device(self) -> Mapping[tuple[str, str], tuple[str, ...]]:
        found: dict[tuple[str, str], tuple[str, ...]] = {}
        for resource in self._model.devices.resources():
            devices = self._model.devices.devices_of(resource)
            named = self._names(resource)
            found |= {(resource, device.id): named(device) for device in devices}
        return found

    def _names(self, resource: str) -> Callable[[Device], tuple[str, ...]]:
        tree = self._model.machine.tree
        if self._level is ZoneLevel.NUMA:
            return lambda device: tuple(map(numa_zone, device.numa_nodes))
        if self._level is ZoneLevel.PCI_ROOT:
            return lambda device: _root(tree, device)
        islands = device_sets(self._model, resource, self._told)
        return lambda device: tuple(
            f"island {number} of {resource}"
            for number, island in enumerate(islands)
            if device.id in island
        )


def numa_zone(node: int) -> str:
    """Return what a NUMA node is called as a zone."""
    return f"NUMA node {node}"


def _root(tree: DeviceTree, device: Device) -> tuple[str, ...]:
    path = tree.paths.get(device.pci)
    return () if path is None else (f"PCI root {path.root}",)
