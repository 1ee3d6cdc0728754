"""The exact report: everything that decides what a node's kubelet does with the next pod.

Counts by zone cannot say whether whole cores are free, which memory group a node is in, or which
devices are left where. A report can: it holds the machine, the kubelet's settings and what each pod
holds, and `numakube.topology.model_report` makes the kubelet model of it in exactly that
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
from numakube.kubelet.machine import NO_TREE, DeviceTree
from numakube.values.cpuset import CpuSet
from numakube.values.resources import MEMORY, hugepage_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numakube.kubelet.admission_outcome import MemoryBlock
    from numakube.kubelet.machine import Machine, NumaNode
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
        checksum: of the zones that it was written with (`numakube.topology.report_codec`); empty
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


# Whether the parts of a report fit together, so that a model can be made of it.


def defect_of(report: ExactReport, *, cpus: int) -> str | None:
    """Return the first contradiction in *report*, whose machine has *cpus*; ``None`` if none."""
    return next(_defects(report, cpus), None)


def _defects(report: ExactReport, cpus: int) -> Iterator[str]:
    kinds = {node.id: _kinds(node) for node in report.machine.nodes}
    if len(kinds) != len(report.machine.nodes):
        yield "two NUMA nodes have the same id"
    yield from _wrong_books(report, kinds)
    for name, table in report.devices.items():
        yield from _wrong_positions(f"{name}: unhealthy", table.unhealthy, table)
        for group in table.choice.groups if table.choice else ():
            yield from _wrong_positions(f"{name}: choice", tuple(sorted(group)), table)
    for uid, holding in report.pods.items():
        if unknown := holding.cpus.bits & ~cpus:
            yield f"pod {uid}: CPUs {CpuSet(unknown)} do not exist"
        yield from _wrong_holding(f"pod {uid}", holding, report, kinds)


def _kinds(node: NumaNode) -> set[str]:
    return {MEMORY, *(_kind(pool.page_bytes) for pool in node.hugepages)}


@lru_cache(maxsize=64)
def _kind(page_bytes: int) -> str:
    return hugepage_name(page_bytes)


def _wrong_books(report: ExactReport, kinds: Mapping[int, set[str]]) -> Iterator[str]:
    for number, cell in report.memory.items():
        if unknown := {number, *cell.group} - kinds.keys():
            yield f"memory of NUMA node {number}: there is no NUMA node {min(unknown)}"
        elif number not in cell.group:
            yield f"memory of NUMA node {number}: not in its own group"
        elif missing := cell.reserved.keys() - kinds[number]:
            yield f"memory of NUMA node {number}: has no {min(missing)}"


def _wrong_holding(
    where: str, holding: Holding, report: ExactReport, kinds: Mapping[int, set[str]]
) -> Iterator[str]:
    for block in holding.memory:
        if unknown := set(block.numa_nodes) - kinds.keys():
            yield f"{where}: there is no NUMA node {min(unknown)}"
    for name, positions in holding.devices.items():
        if name in report.devices:
            yield from _wrong_positions(f"{where}: {name}", positions, report.devices[name])
        else:
            yield f"{where}: there is no {name}"


def _wrong_positions(where: str, positions: tuple[int, ...], table: DeviceTable) -> Iterator[str]:
    if positions and positions[-1] >= len(table.numa_nodes):
        yield f"{where}: device {positions[-1]} of {len(table.numa_nodes)}"
