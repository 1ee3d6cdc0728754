"""What a node offers of its memory: the memory and the hugepages of each NUMA node, as devices.

Claims take parts of a device by its capacity. What there is of it is what the kubelet's Memory
Manager would call allocatable: the total less hugepages and less what is reserved on that node. A
kubelet that does not say where its reservation is (``reservedMemory``) has it everywhere, in
proportion. Nothing is said of free pages: pods without claims use the memory of any NUMA node.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from numakube.api.resource_slices import Device, DeviceAttribute, DeviceCapacity
from numakube.kubelet.memory_hints import empty_books
from numakube.values.resources import MEMORY, hugepage_bytes, is_hugepages, quantity_of
from numakube_dra_driver.devices import DRIVER, place_attributes, request_policy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.kubelet import KubeletSettings
    from numakube.kubelet.machine import Machine, NumaNode
    from numakube.values.resources import Amounts, ResourceName

MEMORY_CAPACITY: Final = f"{DRIVER}/memory"
HUGEPAGES_CAPACITY: Final = f"{DRIVER}/hugepages"
_STEP: Final = 1 << 20
"""Memory is claimed in so many bytes at a time; hugepages in pages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPool:
    """Memory of one kind on one NUMA node, offered as one device.

    Attributes:
        name: of the device.
        resource: ``memory``, or ``hugepages-2Mi`` and such.
        numa_node: where it is.
        sockets: those that the NUMA node's CPUs are in.
        size_bytes: what of it can be claimed.
        step_bytes: so much at a time.
    """

    name: str
    resource: ResourceName
    numa_node: int
    sockets: tuple[int, ...]
    size_bytes: int
    step_bytes: int

    @property
    def capacity(self) -> str:
        """The name of the capacity that claims take parts of."""
        return HUGEPAGES_CAPACITY if is_hugepages(self.resource) else MEMORY_CAPACITY

    @property
    def device(self) -> Device:
        """The pool as slices have it."""
        is_huge = is_hugepages(self.resource)
        attributes = {f"{DRIVER}/kind": DeviceAttribute(string="hugepages" if is_huge else MEMORY)}
        if is_huge:
            size = self.resource.partition("-")[2]
            attributes[f"{DRIVER}/pageSize"] = DeviceAttribute(
                string=size.removesuffix("i").lower()
            )
        attributes |= place_attributes((self.numa_node,), self.sockets)
        policy = request_policy(self.size_bytes, self.step_bytes, _quantity)
        capacity = DeviceCapacity(value=_quantity(self.size_bytes), request_policy=policy)
        return Device(
            name=self.name,
            attributes=attributes,
            capacity={self.capacity: capacity},
            allow_multiple_allocations=True,
        )


def memory_pools(machine: Machine, settings: KubeletSettings) -> tuple[MemoryPool, ...]:
    """Return the pools of *machine* of which at least one step can be claimed."""
    reserved = settings.reserved_memory or _spread(machine, settings.memory_reservation or {})
    books = empty_books(machine, reserved)
    pools = (
        _pool(node, resource, books[node.id].allocatable(resource))
        for node in machine.nodes
        for resource in sorted(books[node.id].tables, key=_by_page)
        if not books[node.id].wraps(resource)
    )
    return tuple(pool for pool in pools if pool.size_bytes)


def _by_page(resource: ResourceName) -> int:
    return hugepage_bytes(resource) if is_hugepages(resource) else 0


def _pool(node: NumaNode, resource: ResourceName, size_bytes: int) -> MemoryPool:
    step = hugepage_bytes(resource) if is_hugepages(resource) else _STEP
    return MemoryPool(
        name=f"{resource.lower()}-numa{node.id}",
        resource=resource,
        numa_node=node.id,
        sockets=tuple(sorted({core.socket for core in node.cores})),
        size_bytes=size_bytes - size_bytes % step,
        step_bytes=step,
    )


def _spread(machine: Machine, reservation: Amounts) -> Mapping[int, Amounts]:
    """Return a reservation for the whole machine by NUMA node, in proportion to what each has."""
    shares: dict[int, dict[str, int]] = {node.id: {} for node in machine.nodes}
    for resource, amount in reservation.items():
        sizes = {node.id: _size(node, resource) for node in machine.nodes}
        total = sum(sizes.values())
        for node, size in sizes.items() if total else ():
            # Rounded up: what is promised twice is worse than what is not offered.
            shares[node][resource] = -(-amount * size // total)
    return shares


def _size(node: NumaNode, resource: ResourceName) -> int:
    if resource == MEMORY:
        return node.memory_bytes
    return sum(
        pool.total_bytes
        for pool in node.hugepages
        if is_hugepages(resource) and pool.page_bytes == hugepage_bytes(resource)
    )


def _quantity(size_bytes: int) -> str:
    return str(quantity_of(MEMORY, size_bytes))
