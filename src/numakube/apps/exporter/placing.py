"""On which NUMA node each container is, for readers that must know it to preempt.

Only under the policy ``single-numa-node`` is there one NUMA node a container. The encoding counts
NUMA nodes from 0 without holes and knows no "elsewhere": if a single container does not fit in, the
whole payload is left out, because a reader would take the container to be where most are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from numakube.topology.placement import ContainerName

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numakube.apps.exporter.hardware import Hardware
    from numakube.node.podresources import ContainerResources, PodResources


Affinities: TypeAlias = dict[ContainerName, int]
"""NUMA nodes of containers."""


@dataclass(frozen=True, slots=True)
class Unplaced:
    """Why there is no placement to publish."""

    reason: str


def affinities_of(pods: Iterable[PodResources], hardware: Hardware) -> Affinities | Unplaced:
    """Return where the containers of *pods* are; those that hold nothing are left out."""
    found: Affinities = {}
    for pod in pods:
        for container in pod.containers:
            numa = _numa_node_of(container, hardware)
            name = f"{pod.namespace}/{pod.name}/{container.name}"
            if isinstance(numa, Unplaced):
                return Unplaced(f"container {name}: {numa.reason}")
            if numa is not None and not 0 <= numa < len(hardware.zones):
                return Unplaced(f"container {name}: NUMA node {numa} is out of range")
            if numa is not None:
                found[ContainerName(pod.namespace, pod.name, container.name)] = numa
    return found


def _numa_node_of(container: ContainerResources, hardware: Hardware) -> int | Unplaced | None:
    """Return the NUMA node of the container's first CPU, else of its first device or memory."""
    if container.cpu_ids:
        first = min(container.cpu_ids)
        numa = hardware.numa_of(first)
        return Unplaced(f"CPU {first} is unknown") if numa is None else numa
    entries = [entry.numa_nodes for entry in container.devices if entry.ids]
    blocks = [block.numa_nodes for block in container.memory]
    for numa_nodes in (*entries, *blocks):
        real = sorted({numa for numa in numa_nodes if numa >= 0})
        if len(real) > 1:
            return Unplaced(f"it is on NUMA nodes {', '.join(map(str, real))}")
        if real:
            return real[0]
    return None
