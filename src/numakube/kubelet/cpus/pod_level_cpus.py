"""CPUs of a pod with pod-level resources, held as one bubble and parted among its containers.

Only with gate PodLevelResourceManagers (1.36, off by default) and pod scope.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.kubelet.cpus.cpu_selection import CpuShortage
from numakube.kubelet.pod_demand import Role

if TYPE_CHECKING:
    from collections.abc import Callable

    from numakube.kubelet.pod_demand import PodDemand
    from numakube.values.cpuset import CpuMask

_NO_ROOM_FOR_INIT = "pod rejected, pod has shared init containers but no cpus available for them"
_NO_ROOM_FOR_SHARED = (
    "pod rejected, sum of exclusive container cpu requests equals pod budget, leaving no cpus "
    "for shared containers"
)


def shared_pool_problem(pod: PodDemand) -> str | None:
    """Return why the pod's containers without CPUs of their own would have none at all."""
    budget = pod.exclusive_cpus
    lasting = 0
    has_shared = False
    for container in pod.containers:
        own = container.exclusive_cpus
        if container.role is Role.INIT:
            if not own and lasting >= budget:
                return _NO_ROOM_FOR_INIT
        elif own:
            lasting += own
        else:
            has_shared = True
    return _NO_ROOM_FOR_SHARED if has_shared and lasting >= budget else None


def partition(
    pod: PodDemand, bubble: CpuMask, take: Callable[[CpuMask, int], CpuMask | CpuShortage]
) -> dict[str, CpuMask] | CpuShortage:
    """Return each container's CPUs; those without their own share what is left at the end."""
    parts: dict[str, CpuMask] = {}
    left = bubble
    for container in pod.containers:
        own = container.exclusive_cpus
        if own:
            cpus = take(left, own)
            if isinstance(cpus, CpuShortage):
                return cpus
            parts[container.name] = cpus
            if container.role is not Role.INIT:
                left &= ~cpus
        elif container.role is Role.INIT:
            parts[container.name] = left
    for container in pod.containers:
        parts.setdefault(container.name, left)
    return parts
