"""Which pods hold resources for themselves: those that a fingerprint may be limited to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numakube.node.podresources import ContainerResources, PodResources

Reason = Literal["cpu", "memory", "device"]


@dataclass(frozen=True, slots=True)
class Exclusive:
    """What makes a pod exclusive: its first such container; an empty name is the pod itself."""

    container: str
    reason: Reason


def exclusive_use(pod: PodResources) -> Exclusive | None:
    """Return what *pod* has for itself and on a NUMA node; nothing if all of it is shared.

    Containers are asked in order, each for CPUs, then memory (whatever its size), then devices.
    CPUs and memory of the pod as a whole are asked for last.
    """
    for container in pod.containers:
        reason = _reason(container)
        if reason:
            return Exclusive(container.name, reason)
    if pod.cpu_ids:
        return Exclusive("", "cpu")
    if any(has_numa_node(block.numa_nodes) for block in pod.memory):
        return Exclusive("", "memory")
    return None


def has_numa_node(numa_nodes: Iterable[int]) -> bool:
    """Tell whether one of *numa_nodes* is real: -1 stands for none."""
    return any(numa >= 0 for numa in numa_nodes)


def _reason(container: ContainerResources) -> Reason | None:
    if container.cpu_ids:
        return "cpu"
    if any(has_numa_node(block.numa_nodes) for block in container.memory):
        return "memory"
    if any(entry.ids and has_numa_node(entry.numa_nodes) for entry in container.devices):
        return "device"
    return None
