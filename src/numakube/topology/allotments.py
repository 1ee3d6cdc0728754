"""What pods hold of a node by a scheduler's decision, for nodes whose kubelet aligns nothing.

Who decides there is an annex: it writes its decision to the pod, and an `AllotmentReader` of its
own reads it back. What pods hold counts elsewhere too: whoever chooses victims, audits or draws a
node asks here. Without such an annex no pod holds anything in this sense.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

from numakube.values.cpuset import NO_CPUS, CpuMask

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.api.nodes import Node
    from numakube.api.nrt import NodeResourceTopology
    from numakube.api.pod import Pod
    from numakube.topology.topology_view import NodeTopology
    from numakube.values.numamask import NumaMask
    from numakube.values.resources import Amounts


class CpuExclusive(StrEnum):
    """What pods with the same word do not share: cores, or NUMA nodes."""

    NONE = ""
    PCPU_LEVEL = "PCPULevel"
    NUMA_NODE_LEVEL = "NUMANodeLevel"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldDevice:
    """A device, or a part of one, that a pod holds."""

    type: str
    minor: int
    resources: Amounts
    vfs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What a pod, or one of its containers, holds.

    Attributes:
        cpus: bound CPUs; none if it runs in a shared pool.
        zones: what it takes of each NUMA node, in base units, not amplified.
        mask: the NUMA nodes that it was placed on; 0 if it was placed on none in particular.
        throttled: the limit of CPU time holds on CPUs of its own, too.
    """

    cpus: CpuMask = NO_CPUS
    zones: Mapping[int, Amounts] = field(default_factory=lambda: MappingProxyType({}))
    mask: NumaMask = 0
    devices: tuple[HeldDevice, ...] = ()
    throttled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Allotment:
    """What a pod holds: the union, and with scope container what each container does.

    Plain init containers give back what they used, so the union is what the pod holds for as long
    as it lasts: its app containers and sidecars, and CPUs that only init containers needed.
    """

    total: Share = Share()
    containers: Mapping[str, Share] = field(default_factory=lambda: MappingProxyType({}))
    cpu_exclusive: CpuExclusive = CpuExclusive.NONE


@dataclass(frozen=True, slots=True)
class ZoneRoom:
    """What a zone has for pods that a scheduler places, and how much of it is left."""

    total: Amounts
    free: Amounts


class AllotmentReader(Protocol):
    """What an annex adds to `numakube.annexes.Group.ALLOTMENTS`."""

    def allotment_of(self, pod: Pod) -> Allotment | None:
        """Return what *pod* holds by its annotations; ``None`` if they tell nothing."""
        ...

    def room_on(
        self,
        node: Node,
        report: NodeResourceTopology | None,
        view: NodeTopology,
        held: Mapping[str, Allotment],
    ) -> Mapping[int, ZoneRoom]:
        """Return the room in each zone of *node*, whose kubelet aligns nothing.

        Args:
            node: the node.
            report: its report as an object.
            view: what the report says.
            held: what its pods hold, by uid.
        """
        ...


def allotment_of(pod: Pod) -> Allotment | None:
    """Return what a scheduler gave *pod*; ``None`` if nothing, or nothing that can be read."""
    if not pod.metadata.annotations:
        return None
    given = (reader.allotment_of(pod) for reader in _readers())
    return next((held for held in given if held is not None), None)


def room_on(
    node: Node,
    report: NodeResourceTopology | None,
    view: NodeTopology,
    held: Mapping[str, Allotment],
) -> Mapping[int, ZoneRoom]:
    """Return the room in each zone of *node*; see `AllotmentReader`. Empty if nobody gives any."""
    rooms = (reader.room_on(node, report, view, held) for reader in _readers())
    return next((room for room in rooms if room), {})


@cache
def _readers() -> tuple[AllotmentReader, ...]:
    from numakube.annexes import Group, loaded

    return tuple(loaded(Group.ALLOTMENTS).values())
