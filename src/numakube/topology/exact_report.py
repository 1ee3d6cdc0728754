"""The exact report: everything that decides what a node's kubelet does with the next pod.

Counts by zone cannot say whether whole cores are free, which memory group a node is in, or which
devices are left where. A report can: it holds the machine, the kubelet's settings and what each pod
holds, and `numakube.topology.model_from_report` makes the kubelet model of it in exactly that
state.

Pods are known by `uid_hash`, devices by their position among the sorted ids of their resource:
the ids themselves are long, and the kubelet model looks at nothing but their order. What our own
device plugin also looks at, physical functions, is given as groups of positions.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

from numakube.errors import InvalidValue
from numakube.kubelet.device_connections import NO_TREE, DeviceTree
from numakube.values.cpuset import CpuSet

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numakube.kubelet.admission_outcome import MemoryBlock
    from numakube.kubelet.machine import Machine
    from numakube.kubelet.manager_settings import KubeletSettings
    from numakube.kubelet.preferred_allocation import Preference

UidHash: TypeAlias = str
"""The short form of a pod's uid."""

# 72 bits are twelve characters of base64 without padding.
_HASH_BYTES: Final = 9


@lru_cache(maxsize=65536)
def uid_hash(uid: str) -> UidHash:
    """Return the short form of a pod's *uid*: 72 bits of BLAKE2b in URL-safe base64."""
    return urlsafe_b64encode(blake2b(uid.encode(), digest_size=_HASH_BYTES).digest()).decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """What one pod holds exclusively.

    Attributes:
        cpus: CPUs of all its containers, those of finished init containers included.
        memory: blocks in the order in which the Memory Manager will give them back.
        devices: positions of devices by resource name, ascending.
    """

    cpus: CpuSet = field(default_factory=CpuSet)
    memory: tuple[MemoryBlock, ...] = ()
    devices: Mapping[str, tuple[int, ...]] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def empty(self) -> bool:
        """Whether the pod runs on shared resources only."""
        return not (self.cpus or self.memory or self.devices)


@dataclass(frozen=True, slots=True)
class DeviceChoice:
    """How the plugin of a resource chooses among equally near devices.

    Attributes:
        policy: by which rule.
        groups: positions of the devices that belong together, in the order in which they are taken.
        near: whether those near to other devices of the pod, or to free ones, come first.
    """

    policy: Preference
    groups: tuple[tuple[int, ...], ...]
    near: bool = False


def choice_of(
    policy: Preference,
    groups: Iterable[Iterable[str]],
    positions: Mapping[str, int],
    *,
    near: bool = False,
) -> DeviceChoice:
    """Return the choice of a plugin that told *groups* of ids; ids without a position are gone."""
    known = (tuple(positions[id_] for id_ in group if id_ in positions) for group in groups)
    return DeviceChoice(policy, tuple(group for group in known if group), near)


@dataclass(frozen=True, slots=True)
class DeviceTable:
    """The devices of one resource in ascending order of their ids.

    Attributes:
        numa_nodes: the NUMA nodes of each device; empty if its plugin told none.
        unhealthy: positions of devices that may not be given out.
        choice: how their plugin chooses; ``None`` if it does not, or if that is not known.
        functions: the address of each device's physical PCI function, empty if that is not known;
            no entries at all if it is known of no device.
    """

    numa_nodes: tuple[tuple[int, ...], ...]
    unhealthy: tuple[int, ...] = ()
    choice: DeviceChoice | None = None
    functions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MemoryCell:
    """The Memory Manager's books of one NUMA node.

    Attributes:
        group: the NUMA nodes that the node is used together with, itself included.
        assignments: how many blocks lie on the node.
        reserved: bytes that pods hold by memory type.
    """

    group: tuple[int, ...]
    assignments: int
    reserved: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactReport:
    """The state of one node's kubelet.

    Attributes:
        machine: the machine without its devices.
        kubernetes: the kubelet's version, such as ``1.35``.
        shared_cpus: the CPU Manager's shared pool, reserved CPUs included unless reserved strictly;
            ``None`` with the CPU policy ``none``.
        memory: the Memory Manager's books by NUMA node, without unused nodes.
        devices: tables by resource name.
        pods: what each pod that the report accounts for holds.
        tree: how the devices are connected, as far as that is known.
        checksum: of the zones that it was written with (`numakube.topology.report_binding`); empty
            if its exporter writes none. It is no part of the state.
    """

    machine: Machine
    settings: KubeletSettings
    kubernetes: str
    shared_cpus: CpuSet | None = None
    memory: Mapping[int, MemoryCell] = field(default_factory=lambda: MappingProxyType({}))
    devices: Mapping[str, DeviceTable] = field(default_factory=lambda: MappingProxyType({}))
    pods: Mapping[UidHash, Holding] = field(default_factory=lambda: MappingProxyType({}))
    tree: DeviceTree = NO_TREE
    checksum: str = field(default="", compare=False)

    @property
    def connects_devices(self) -> bool:
        """Whether it says how devices of several resources are connected."""
        known = sum(bool(table.functions) for table in self.devices.values())
        return bool(self.tree.paths) and known > 1

    def accounts_for(self, uid: str) -> bool:
        """Tell whether what the pod with that uid holds is already taken off."""
        return uid_hash(uid) in self.pods

    def holding(self, uid: str) -> Holding | None:
        """Return what the pod with that uid holds; ``None`` if the report does not know it."""
        return self.pods.get(uid_hash(uid))


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The promise of an exporter that reports only surprises.

    Attributes:
        seconds: how long it is silent at most.
        at: when it wrote last.
    """

    seconds: float
    at: str

    @property
    def overdue_seconds(self) -> float:
        """After how long without a write it has missed two of them."""
        return 2 * self.seconds

    def __str__(self) -> str:
        """Return the value of the report's annotation."""
        return f"{self.seconds:g} {self.at}"

    @classmethod
    def parse(cls, text: str) -> Heartbeat:
        """Read the value of the annotation.

        Raises:
            InvalidValue: it is something else.
        """
        seconds, _, at = text.partition(" ")
        try:
            return cls(float(seconds), at)
        except ValueError:
            raise InvalidValue(f"{text!r} is not a number of seconds and a time") from None


@dataclass(frozen=True, slots=True)
class BadReport:
    """Why a report cannot be read."""

    reason: str
