"""Whether what a pod was given is on one NUMA node."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.kubelet.node import KubeletNode
    from numakube.kubelet.outcome import Admitted, ContainerPlacement


def is_aligned(node: KubeletNode, outcome: Admitted) -> bool | None:
    """Tell whether all that the pod's containers have for themselves is on one NUMA node.

    ``None`` if they have nothing for themselves. A device that belongs to several NUMA nodes is on
    each of them; one whose plugin does not say is anywhere.
    """
    places = [one for held in outcome.containers.values() for one in _places(node, held)]
    return any(all(zone in one for one in places) for zone in _zones(node)) if places else None


def has_its_devices_together(node: KubeletNode, outcome: Admitted) -> bool | None:
    """Tell whether devices of several resources are on one NUMA node; ``None`` without such."""
    together = [held.devices for held in outcome.containers.values()]
    names = {name for devices in together for name in devices}
    if len(names) < 2:
        return None
    places = [one for held in outcome.containers.values() for one in _device_places(node, held)]
    return any(all(zone in one for one in places) for zone in _zones(node))


def _zones(node: KubeletNode) -> list[int]:
    return [numa.id for numa in node.machine.nodes]


def _places(node: KubeletNode, held: ContainerPlacement) -> Iterator[tuple[int, ...]]:
    """Yield, for each thing that a container holds, the NUMA nodes that it is on."""
    if held.cpus and node.cpus is not None:
        for zone, mask in node.cpus.topology.numa.items():
            if held.cpus.bits & mask:
                yield (zone,)
    for block in held.memory:
        yield from ((zone,) for zone in block.numa_nodes)
    yield from _device_places(node, held)


def _device_places(node: KubeletNode, held: ContainerPlacement) -> Iterator[tuple[int, ...]]:
    for resource, ids in held.devices.items():
        for device in ids:
            zones = node.devices.numa_nodes_of(resource, device)
            if zones:
                yield zones
