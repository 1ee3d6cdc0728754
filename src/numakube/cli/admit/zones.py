"""What a node's NUMA zones look like after the admissions: a picture in data, for every output."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from numakube.kubelet.outcome import Admitted
from numakube.values.cpuset import CpuSet

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numakube.cli.admit.verdicts import Verdict
    from numakube.kubelet.machine import Device, NumaNode
    from numakube.kubelet.node import KubeletNode


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Bytes of one memory type in one zone; nobody counts what is used if it is not *managed*."""

    kind: str
    total: int
    reserved: int = 0
    used: int = 0
    managed: bool = True

    @property
    def free(self) -> int:
        """Bytes that nobody has."""
        return max(self.total - self.reserved - self.used, 0)


@dataclass(frozen=True, slots=True)
class DeviceUse:
    """The devices of one resource in one zone, and which pod holds each."""

    resource: str
    owners: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class Zone:
    """One NUMA node; ``id`` is ``None`` for devices whose plugin reports no NUMA node."""

    id: int | None
    sockets: tuple[int, ...] = ()
    cores: tuple[tuple[int, ...], ...] = ()
    reserved_cpus: CpuSet = field(default_factory=CpuSet)
    cpu_owners: Mapping[int, str] = field(default_factory=dict)
    memory: tuple[MemoryUse, ...] = ()
    devices: tuple[DeviceUse, ...] = ()

    @property
    def cpus(self) -> CpuSet:
        """All CPUs of the zone."""
        return CpuSet.of(cpu for core in self.cores for cpu in core)


def zones_of(node: KubeletNode, verdicts: Sequence[Verdict]) -> list[Zone]:
    """Return every zone of *node* with what the admitted pods hold there."""
    cpu_owners = _cpu_owners(verdicts)
    device_owners = _device_owners(verdicts)
    zones = [_zone(node, numa, cpu_owners, device_owners) for numa in node.machine.nodes]
    homeless = _devices(node, None, device_owners)
    return [*zones, Zone(None, devices=homeless)] if homeless else zones


def _zone(
    node: KubeletNode,
    numa: NumaNode,
    cpu_owners: Mapping[int, str],
    device_owners: Mapping[tuple[str, str], str],
) -> Zone:
    cores = tuple(core.threads for core in numa.cores)
    mine = {cpu for core in cores for cpu in core}
    reserved = CpuSet(node.cpus.reserved) if node.cpus else CpuSet()
    return Zone(
        id=numa.id,
        sockets=tuple(sorted({core.socket for core in numa.cores})),
        cores=cores,
        reserved_cpus=reserved & CpuSet.of(mine),
        cpu_owners={cpu: owner for cpu, owner in cpu_owners.items() if cpu in mine},
        memory=_memory(node, numa),
        devices=_devices(node, numa.id, device_owners),
    )


def _cpu_owners(verdicts: Sequence[Verdict]) -> dict[int, str]:
    return {
        cpu: verdict.name
        for verdict in verdicts
        if isinstance(verdict.outcome, Admitted)
        for placement in verdict.outcome.containers.values()
        for cpu in placement.cpus
    }


def _device_owners(verdicts: Sequence[Verdict]) -> dict[tuple[str, str], str]:
    return {
        (resource, device): verdict.name
        for verdict in verdicts
        if isinstance(verdict.outcome, Admitted)
        for placement in verdict.outcome.containers.values()
        for resource, devices in placement.devices.items()
        for device in devices
    }


def _memory(node: KubeletNode, numa: NumaNode) -> tuple[MemoryUse, ...]:
    if node.memory is None:
        return (MemoryUse("memory", numa.memory_bytes, managed=False),)
    tables = node.memory.books[numa.id].tables
    return tuple(
        MemoryUse(kind, table.total, table.system_reserved, table.reserved)
        for kind, table in tables.items()
        if table.total
    )


def _devices(
    node: KubeletNode, numa_id: int | None, owners: Mapping[tuple[str, str], str]
) -> tuple[DeviceUse, ...]:
    uses = []
    for resource, devices in node.machine.devices.items():
        here = [device.id for device in devices if _is_in(device, numa_id)]
        if here:
            uses.append(DeviceUse(resource, {one: owners.get((resource, one)) for one in here}))
    return tuple(uses)


def _is_in(device: Device, numa_id: int | None) -> bool:
    return not device.numa_nodes if numa_id is None else numa_id in device.numa_nodes


def zone_document(zone: Zone) -> dict[str, Any]:
    """Return *zone* as plain data."""
    document: dict[str, Any] = {"node": zone.id}
    if zone.id is not None:
        document |= {
            "sockets": list(zone.sockets),
            "cpus": str(zone.cpus),
            "reservedCPUs": str(zone.reserved_cpus),
            "exclusiveCPUs": _by_owner(zone.cpu_owners),
            "memory": {use.kind: _memory_document(use) for use in zone.memory},
        }
    document["devices"] = {use.resource: dict(use.owners) for use in zone.devices}
    return document


def _memory_document(use: MemoryUse) -> dict[str, int]:
    if not use.managed:
        return {"total": use.total}
    return {"total": use.total, "reserved": use.reserved, "used": use.used}


def _by_owner(owners: Mapping[int, str]) -> dict[str, str]:
    cpus: dict[str, list[int]] = {}
    for cpu, owner in owners.items():
        cpus.setdefault(owner, []).append(cpu)
    return {owner: str(CpuSet.of(some)) for owner, some in cpus.items()}
