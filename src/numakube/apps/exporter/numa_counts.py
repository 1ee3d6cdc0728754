"""Counting CPUs, devices and bytes by NUMA node.

The kubelet tells CPUs by id, devices in entries of ids with NUMA nodes, and memory in blocks with
NUMA nodes. A `Tally` adds them up; what lies on no NUMA node of the machine is set aside.

A device on several NUMA nodes counts on each: it can serve a container on any of them. A block of
memory on several NUMA nodes does not: its bytes are somewhere, once. Which part is where only the
kubelet's books say, so such blocks are kept apart in `Tally.spanning`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from numakube.values.resources import CPU

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numakube.apps.exporter.numa_hardware import Hardware
    from numakube.node.podresources_client import Devices, Memory


class Resources(Protocol):
    """What a container holds besides CPUs, or what the node has to give."""

    @property
    def devices(self) -> Iterable[Devices]:
        """Devices by resource and NUMA node."""
        ...

    @property
    def memory(self) -> Iterable[Memory]:
        """Blocks of memory."""
        ...


@dataclass(slots=True)
class Tally:
    """Amounts by NUMA node and resource: CPUs and devices as counts, memory in bytes.

    Attributes:
        split: keep blocks on several NUMA nodes apart instead of counting them on each.
        unknown_cpus: ids that are on no NUMA node of the machine.
    """

    hardware: Hardware
    split: bool
    amounts: dict[int, dict[str, int]] = field(default_factory=dict)
    spanning: list[Memory] = field(default_factory=list)
    unknown_cpus: set[int] = field(default_factory=set)

    def of(self, numa: int) -> dict[str, int]:
        """Return the amounts on one NUMA node."""
        return self.amounts.get(numa, {})

    def add_cpus(self, cpu_ids: Iterable[int]) -> None:
        """Count CPUs on the NUMA nodes that own them; an id that is repeated counts repeatedly."""
        for cpu in cpu_ids:
            numa = self.hardware.numa_of(cpu)
            if numa is None:
                self.unknown_cpus.add(cpu)
            else:
                self.book(numa, CPU, 1)

    def add_rest(self, resources: Resources) -> None:
        """Count all devices and memory of *resources*."""
        for entry in resources.devices:
            self.add_devices(entry)
        for block in resources.memory:
            self.add_memory(block)

    def add_devices(self, entry: Devices) -> None:
        """Count the devices of *entry* on each of its NUMA nodes; none of them is on -1."""
        for numa in entry.numa_nodes:
            if numa >= 0:
                self.book(numa, entry.resource, len(entry.ids))

    def add_memory(self, block: Memory) -> None:
        """Count a block on its NUMA node, or on each, or keep it apart."""
        if not block.size_bytes:
            return
        if self.split and len(set(block.numa_nodes)) > 1:
            self.spanning.append(block)
            return
        for numa in block.numa_nodes:
            if numa >= 0:
                self.book(numa, block.type, block.size_bytes)

    def book(self, numa: int, resource: str, amount: int) -> None:
        """Add *amount*, which may be 0: the resource is then known on the NUMA node."""
        amounts = self.amounts.setdefault(numa, {})
        amounts[resource] = amounts.get(resource, 0) + amount


def fill(blocks: Iterable[Memory], room: dict[int, dict[str, int]]) -> list[tuple[Memory, int]]:
    """Take *blocks* out of *room*, each from its NUMA nodes in order, as the Memory Manager does.

    Returns:
        the blocks that did not fit, with the bytes that found no room.
    """
    left_over = []
    for block in blocks:
        rest = block.size_bytes
        for numa in block.numa_nodes:
            free = room.get(numa, {})
            part = min(rest, max(0, free.get(block.type, 0)))
            if part:
                free[block.type] -= part
                rest -= part
        if rest:
            left_over.append((block, rest))
    return left_over
