"""Memory of a pod with pod-level resources, held as one bubble and parted among its containers.

Only with gate PodLevelResourceManagers (1.36, off by default) and pod scope.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.kubelet.admission_outcome import MemoryBlock
from numakube.kubelet.memory.memory_tables import UINT64
from numakube.kubelet.pod_demand import Role

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.kubelet.pod_demand import PodDemand


def shared_pool_problem(pod: PodDemand) -> str | None:
    """Return why the pod's containers without memory of their own would have none at all."""
    budget = pod.memory or {}
    lasting: dict[str, int] = {}
    has_shared = False
    for container in pod.containers:
        own = container.memory or {}
        if container.role is not Role.INIT:
            has_shared = has_shared or not own
            for kind, size in own.items():
                lasting[kind] = lasting.get(kind, 0) + size
        elif not own and (gone := _exhausted(budget, lasting)):
            return f"pod rejected, pod has shared init containers but no {gone} available for them"
    if has_shared and (gone := _exhausted(budget, lasting)):
        return (
            f"pod rejected, sum of exclusive container {gone} requests equals pod budget, "
            "leaving no memory for shared containers"
        )
    return None


def partition(pod: PodDemand, nodes: tuple[int, ...]) -> dict[str, tuple[MemoryBlock, ...]]:
    """Return each container's blocks; those without their own share what is left at the end."""
    left = dict(pod.memory or {})
    parts: dict[str, tuple[MemoryBlock, ...]] = {}
    for container in pod.containers:
        own = container.memory or {}
        if own:
            parts[container.name] = blocks(nodes, own)
            if container.role is Role.SIDECAR:
                own = {kind: size for kind, size in own.items() if kind in left}
            if container.role is not Role.INIT:
                _take_off(left, own)
        elif container.role is Role.INIT:
            parts[container.name] = blocks(nodes, left)
    for container in pod.containers:
        parts.setdefault(container.name, blocks(nodes, left))
    return parts


def _take_off(left: dict[str, int], sizes: Mapping[str, int]) -> None:
    """Subtract as the kubelet does, without a look at what is there: less than nothing is much."""
    for kind, size in sizes.items():
        if size:
            left[kind] = (left.get(kind, 0) - size) & UINT64


def blocks(nodes: tuple[int, ...], sizes: Mapping[str, int]) -> tuple[MemoryBlock, ...]:
    """Return a block for each positive size."""
    return tuple(MemoryBlock(nodes, kind, size) for kind, size in sizes.items() if size > 0)


def _exhausted(budget: Mapping[str, int], lasting: Mapping[str, int]) -> str | None:
    """Return a memory type of which lasting containers take the whole budget."""
    return next((kind for kind, size in budget.items() if lasting.get(kind, 0) >= size), None)
