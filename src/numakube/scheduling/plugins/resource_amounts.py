"""What of a pod's requests the scheduler counts, and how nodes are rated by what is free.

kube-scheduler (1.35) fits CPU, memory, ephemeral storage, hugepages and extended resources; any
other name in a request is nothing to it. To rate nodes by what is free it looks at the pod without
its pod-level resources, and as if each container asked for a little CPU and memory; to rate balance
it looks at plain requests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.api.pod_resources import effective_requests
from numakube.scheduling.snapshot.node_resources import bounded
from numakube.values.quantity import Quantity
from numakube.values.resources import CPU, EPHEMERAL_STORAGE, MEMORY, is_scalar

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.api.pod import Pod
    from numakube.scheduling.arrays import IntArray, Rows
    from numakube.scheduling.snapshot.node_resources import ResourceTable
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo

_FIRST: Final = (CPU, MEMORY, EPHEMERAL_STORAGE)
_LITTLE: Final = {CPU: Quantity.of_milli(100), MEMORY: Quantity.of_bytes(200 * 1024 * 1024)}


def counted_requests(pod: PodInfo) -> tuple[tuple[str, int], ...]:
    """Return what of *pod*'s requests must fit: resource and amount, CPU and memory first."""
    asked = pod.requests
    native = [(name, asked[name]) for name in _FIRST if asked.get(name, 0) > 0]
    scalars = sorted((name, amount) for name, amount in asked.items() if amount)
    return (*native, *(one for one in scalars if one[0] not in _FIRST and is_scalar(one[0])))


def rated_requests(pod: PodInfo) -> Mapping[str, int]:
    """Return what *pod* counts with when nodes are rated by what is free."""
    return pod.memo("rated-requests", _rated)


def _rated(pod: Pod) -> Mapping[str, int]:
    requests = effective_requests(pod, pod_level_resources=False, defaults=_LITTLE)
    return {
        name: quantity.milli_value() if name == CPU else quantity.value()
        for name, quantity in requests.items()
    }


class Usage:
    """What nodes offer and use of one resource, with the pod that is to be placed.

    Attributes:
        request: how much the pod asks for.
        little: whether containers without a request count with a little.
    """

    def __init__(self, resource: str, request: int, *, little: bool) -> None:
        self.resource = resource
        self.request = bounded(request)
        self.little = little

    @property
    def counts(self) -> bool:
        """Tell whether the resource counts: not if it is special and the pod does not want it."""
        return self.request != 0 or not is_scalar(self.resource)

    def of_node(self, node: NodeInfo) -> tuple[int, int]:
        """Return what *node* offers and what would be in use."""
        if not self.counts:
            return 0, 0
        offered = node.allocatable.get(self.resource, 0)
        return (offered, self._used_on(node) + self.request) if offered else (0, 0)

    def of_row(self, table: ResourceTable, row: int) -> tuple[int, int]:
        """Return both for the node at *row*."""
        offered = int(table.allocatable(self.resource)[row]) if self.counts else 0
        return (offered, int(self._used_in(table)[row]) + self.request) if offered else (0, 0)

    def of_all(self, table: ResourceTable, rows: Rows | slice) -> tuple[IntArray, IntArray] | None:
        """Return both for the nodes at *rows*, or ``None`` if the resource does not count."""
        if not self.counts:
            return None
        used = self._used_in(table)[rows] + self.request
        return table.allocatable(self.resource)[rows], used

    def _used_on(self, node: NodeInfo) -> int:
        if self.little and self.resource == CPU:
            return node.nonzero_cpu_milli
        if self.little and self.resource == MEMORY:
            return node.nonzero_memory_bytes
        return node.requested.get(self.resource, 0)

    def _used_in(self, table: ResourceTable) -> IntArray:
        if self.little and self.resource == CPU:
            return table.nonzero_cpu_milli
        if self.little and self.resource == MEMORY:
            return table.nonzero_memory_bytes
        return table.requested(self.resource)
