"""From an exact report to a picture: who has which CPU, which memory, which device."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from numakube.errors import ConfigError
from numakube.insight.node_map.picture import (
    DrawnCache,
    DrawnCore,
    DrawnCpu,
    DrawnDevice,
    DrawnMemory,
    DrawnZone,
    Kubelet,
    MemoryPart,
    NodePicture,
    PodMark,
    letter_of,
)
from numakube.kubelet.cpu_manager import start_cpu_manager
from numakube.kubelet.cpu_topology import CpuTopology
from numakube.kubelet.kubelet_versions import DEFAULT, behaviour_of
from numakube.kubelet.manager_settings import KubeletSettings
from numakube.kubelet.memory_hints import empty_books
from numakube.topology.exact_report import DeviceTable, ExactReport, uid_hash
from numakube.topology.held_zones import zone_cpus, zones_of_holding
from numakube.topology.model_report import report_of
from numakube.values.cpuset import CpuSet
from numakube.values.resources import is_memory

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numakube.kubelet.kubelet_model import KubeletNode
    from numakube.kubelet.machine import Machine, NumaNode
    from numakube.kubelet.memory_hints import MemoryAmounts
    from numakube.topology.exact_report import Holding

_NOTHING: Final[Mapping[str, Sequence[str]]] = MappingProxyType({})


def picture_of_report(
    name: str,
    report: ExactReport,
    *,
    pods: Mapping[str, str],
    device_ids: Mapping[str, Sequence[str]] = _NOTHING,
) -> NodePicture:
    """Return the picture of the node called *name*.

    Args:
        name: the name of the node.
        report: its state.
        pods: ``namespace/name`` by the hashes that the report knows pods by.
        device_ids: ids of the devices of a resource in ascending order, where they are known.
    """
    pen = _ReportReader(report, device_ids, _reserved_cpus(report), _owners(report))
    machine = report.machine
    return NodePicture(
        node=name,
        zones=tuple(pen.zone(node) for node in machine.nodes),
        homeless=pen.devices_of(None),
        pods=pen.marks(pods),
        sharing_pods=sum(holding.empty for holding in report.pods.values()),
        kubelet=_kubelet(report),
        notes=_notes(machine),
        tree=report.tree,
    )


def picture_of_model(name: str, node: KubeletNode, *, pods: Mapping[str, str]) -> NodePicture:
    """Return the picture of a kubelet model; *pods* are names by uid."""
    ids = {
        resource: [device.id for device in node.devices.devices_of(resource)]
        for resource in node.devices.resources()
    }
    names = {uid_hash(uid): key for uid, key in pods.items()}
    return picture_of_report(name, report_of(node), pods=names, device_ids=ids)


def picture_of_machine(name: str, machine: Machine) -> NodePicture:
    """Return the picture of a machine on which nothing runs."""
    ordered = {
        resource: sorted(devices, key=lambda device: device.id)
        for resource, devices in machine.devices.items()
    }
    tables = {
        resource: DeviceTable(
            tuple(device.numa_nodes for device in devices),
            tuple(index for index, one in enumerate(devices) if not one.healthy),
            functions=tuple(device.pci for device in devices),
        )
        for resource, devices in ordered.items()
    }
    report = ExactReport(
        machine=machine,
        settings=KubeletSettings(),
        kubernetes=DEFAULT,
        devices=tables,
        tree=machine.tree,
    )
    ids = {resource: [device.id for device in devices] for resource, devices in ordered.items()}
    picture = picture_of_report(name, report, pods={}, device_ids=ids)
    return replace(picture, kubelet=Kubelet())


def _reserved_cpus(report: ExactReport) -> CpuSet:
    """Return the CPUs that no pod gets for itself."""
    topology = CpuTopology.of(report.machine)
    try:
        manager = start_cpu_manager(topology, report.settings, behaviour_of(report.kubernetes))
    except ConfigError:
        return report.settings.reserved_cpus or CpuSet()
    return CpuSet(manager.reserved) if manager else report.settings.reserved_cpus or CpuSet()


def _owners(report: ExactReport) -> dict[str, int]:
    """Return the numbers of the pods that hold something, by hash."""
    holders = (uid for uid, holding in report.pods.items() if not holding.empty)
    return {uid: number for number, uid in enumerate(holders)}


def _kubelet(report: ExactReport) -> Kubelet:
    settings = report.settings
    return Kubelet(
        topology_policy=settings.topology_policy,
        topology_scope=settings.topology_scope,
        topology_options=settings.topology_options,
        cpu_policy=settings.cpu_policy,
        cpu_options=settings.cpu_options,
        memory_policy=settings.memory_policy,
        version=report.kubernetes,
    )


def _notes(machine: Machine) -> tuple[str, ...]:
    notes = []
    online = CpuSet.of(cpu for node in machine.nodes for core in node.cores for cpu in core.threads)
    missing = CpuSet.of(range(max(online, default=-1) + 1)) - online
    if missing:
        notes.append(f"CPUs {missing} are not online")
    return tuple(notes)


@dataclass(frozen=True, slots=True)
class _ReportReader:
    """Reads one report, zone by zone."""

    report: ExactReport
    device_ids: Mapping[str, Sequence[str]]
    reserved: CpuSet
    owners: Mapping[str, int]

    def zone(self, node: NumaNode) -> DrawnZone:
        """Return one zone with what pods hold there."""
        # The kernel lists distances by ascending id, whatever the order of the nodes.
        ids = sorted(numa_node.id for numa_node in self.report.machine.nodes)
        return DrawnZone(
            id=node.id,
            sockets=tuple(sorted({core.socket for core in node.cores})),
            caches=self._caches(node),
            memory=tuple(self._memory(node)),
            devices=self.devices_of(node.id),
            distances=dict(zip(ids, node.distances, strict=False)),
        )

    def _caches(self, node: NumaNode) -> tuple[DrawnCache, ...]:
        owners = self._cpu_owners()
        groups: dict[int | None, list[DrawnCore]] = defaultdict(list)
        for core in node.cores:
            cpus = tuple(
                DrawnCpu(thread, owners.get(thread), thread in self.reserved)
                for thread in core.threads
            )
            groups[core.uncore_cache].append(DrawnCore(core.socket, cpus))
        return tuple(DrawnCache(cache, tuple(cores)) for cache, cores in groups.items())

    def _cpu_owners(self) -> dict[int, int]:
        return {cpu: owner for owner, holding in self._holdings() for cpu in holding.cpus}

    def _holdings(self) -> Iterator[tuple[int, Holding]]:
        return ((number, self.report.pods[uid]) for uid, number in self.owners.items())

    def _memory(self, node: NumaNode) -> Iterator[DrawnMemory]:
        settings = self.report.settings
        # Without a Memory Manager there is still what a scheduler gave.
        managed = settings.memory_policy != "None" or any(
            holding.memory for holding in self.report.pods.values()
        )
        tables = empty_books(self.report.machine, settings.reserved_memory)[node.id].tables
        # Plain memory goes first, then hugepages from large to small.
        for kind in sorted(tables, key=lambda kind: (is_memory(kind), kind), reverse=True):
            table = tables[kind]
            if table.total:
                yield self._bar(node.id, kind, table, managed=managed)

    def _bar(self, zone: int, kind: str, table: MemoryAmounts, *, managed: bool) -> DrawnMemory:
        hugepages = max(table.total - table.system_reserved - table.allocatable, 0)
        return DrawnMemory(
            kind=kind,
            total_bytes=table.total - hugepages,
            reserved_bytes=table.system_reserved,
            parts=tuple(self._parts(zone, kind)) if managed else (),
            managed=managed,
        )

    def _parts(self, zone: int, kind: str) -> Iterator[MemoryPart]:
        """Yield what pods hold alone, then what they took from the zone's group together."""
        alone = 0
        group: tuple[int, ...] = ()
        together: list[int] = []
        for owner, holding in self._holdings():
            own = [
                block for block in holding.memory if block.type == kind and zone in block.numa_nodes
            ]
            single = sum(block.size_bytes for block in own if len(block.numa_nodes) == 1)
            if single:
                alone += single
                yield MemoryPart((owner,), single, (zone,))
            for block in own:
                if len(block.numa_nodes) > 1 and block.size_bytes:
                    together.append(owner)
                    group = block.numa_nodes
        cell = self.report.memory.get(zone)
        rest = (cell.reserved.get(kind, 0) if cell else 0) - alone
        if together and rest > 0:
            yield MemoryPart(tuple(dict.fromkeys(together)), rest, group)

    def devices_of(self, zone: int | None) -> tuple[DrawnDevice, ...]:
        """Return the devices that are near *zone*; with ``None``, those that have no zone."""
        owners = self._device_owners()
        found = []
        for resource, table in sorted(self.report.devices.items()):
            ids = self.device_ids.get(resource, ())
            for position, nodes in enumerate(table.numa_nodes):
                if zone in (nodes or (None,)):
                    device = DrawnDevice(
                        resource=resource,
                        position=position,
                        id=ids[position] if position < len(ids) else "",
                        zones=nodes,
                        owner=owners.get((resource, position)),
                        healthy=position not in table.unhealthy,
                        pci=table.functions[position] if table.functions else "",
                    )
                    found.append(device)
        return tuple(found)

    def _device_owners(self) -> dict[tuple[str, int], int]:
        return {
            (resource, position): owner
            for owner, holding in self._holdings()
            for resource, positions in holding.devices.items()
            for position in positions
        }

    def marks(self, names: Mapping[str, str]) -> tuple[PodMark, ...]:
        """Return the legend: a letter and what it holds for each pod that holds something."""
        cpus = zone_cpus(self.report.machine)
        return tuple(
            PodMark(
                name=names.get(uid) or f"unknown pod {uid}",
                letter=letter_of(number),
                cpus=self.report.pods[uid].cpus,
                memory=_memory_by_kind(self.report.pods[uid]),
                devices={
                    resource: len(positions)
                    for resource, positions in self.report.pods[uid].devices.items()
                },
                zones=zones_of_holding(self.report, self.report.pods[uid], cpus),
            )
            for uid, number in self.owners.items()
        )


def _memory_by_kind(holding: Holding) -> dict[str, int]:
    sizes: dict[str, int] = defaultdict(int)
    for block in holding.memory:
        if block.size_bytes:
            sizes[block.type] += block.size_bytes
    return dict(sizes)
