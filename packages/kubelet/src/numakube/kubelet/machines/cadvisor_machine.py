"""cAdvisor's MachineInfo JSON to a Machine and back.

This is the document from which a real kubelet learns its machine, so nothing that the kubelet
reads may be lost or reordered: the order of nodes and of threads, the kernel's core ids, the first
uncore cache of a core, hugepage sizes (KiB there, bytes here), distances. As in Go's decoder, an
absent or null field is its zero value, and only a value of the wrong type is an error. Devices are
not part of MachineInfo: `read_devices` reads them from the JSON that the replay format uses.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec

from numakube.api.codec import convert
from numakube.errors import MalformedObject
from numakube.kubelet.machine import Core, Device, HugePages, Machine, NumaNode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Unsigned = Annotated[int, msgspec.Meta(ge=0)]
KIB: Final = 1024


class CadvisorStruct(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Base of these types: names are snake_case, and everything is written."""


class CadvisorCache(CadvisorStruct, frozen=True):
    """A cache of a core or of a NUMA node; size in bytes."""

    id: int = 0
    size: Unsigned = 0
    type: str = ""
    level: int = 0


class HugePagesInfo(CadvisorStruct, frozen=True):
    """Hugepages of one size; ``page_size`` in KiB."""

    page_size: Unsigned = 0
    num_pages: Unsigned = 0


class CoreInfo(CadvisorStruct, frozen=True):
    """A physical core; ``core_id`` is unique within a socket only."""

    core_id: int = 0
    thread_ids: tuple[int, ...] = ()
    caches: tuple[CadvisorCache, ...] = ()
    uncore_caches: tuple[CadvisorCache, ...] = ()
    socket_id: int = 0


class CadvisorNode(CadvisorStruct, frozen=True):
    """A NUMA node; memory in bytes, distances in the order of the nodes."""

    node_id: int = 0
    memory: Unsigned = 0
    hugepages: tuple[HugePagesInfo, ...] = ()
    cores: tuple[CoreInfo, ...] = ()
    caches: tuple[CadvisorCache, ...] = ()
    distances: tuple[Unsigned, ...] = ()


class MachineInfo(CadvisorStruct, frozen=True):
    """A whole machine."""

    num_cores: int = 0
    num_physical_cores: int = 0
    num_sockets: int = 0
    cpu_frequency_khz: Unsigned = 0
    memory_capacity: Unsigned = 0
    swap_capacity: Unsigned = 0
    hugepages: tuple[HugePagesInfo, ...] = ()
    machine_id: str = ""
    system_uuid: str = ""
    boot_id: str = ""
    topology: tuple[CadvisorNode, ...] = ()


class _Device(msgspec.Struct, frozen=True, gc=False):
    id: str
    numa: tuple[int, ...] = ()
    healthy: bool = True
    pci: str = ""


def from_cadvisor(
    document: Mapping[str, Any],
    *,
    devices: Mapping[str, Sequence[Device]] | None = None,
    subject: str = "MachineInfo",
) -> Machine:
    """Return the machine that *document* describes, with the given devices.

    Raises:
        MalformedObject: naming *subject* and the field whose type is wrong.
    """
    info = convert(MachineInfo, document, subject)
    return Machine(
        nodes=tuple(_node(node) for node in info.topology),
        cpu_count=info.num_cores,
        socket_count=info.num_sockets,
        devices=MappingProxyType({name: tuple(some) for name, some in (devices or {}).items()}),
    )


def read_devices(
    document: Mapping[str, Any], *, subject: str = "devices"
) -> Mapping[str, tuple[Device, ...]]:
    """Return the devices of ``{resource: [{"id": ..., "numa": [...]}]}`` by resource name."""
    wire = convert(dict[str, tuple[_Device, ...]], document, subject)
    return MappingProxyType(
        {
            resource: tuple(
                Device(device.id, device.numa, device.healthy, device.pci) for device in devices
            )
            for resource, devices in wire.items()
        }
    )


def to_cadvisor(machine: Machine) -> dict[str, Any]:
    """Return the MachineInfo document of *machine*: the fields that a kubelet reads."""
    return {
        "num_cores": machine.cpu_count,
        "num_physical_cores": sum(len(node.cores) for node in machine.nodes),
        "num_sockets": machine.socket_count,
        "memory_capacity": sum(node.memory_bytes for node in machine.nodes),
        "topology": [_node_document(node) for node in machine.nodes],
    }


def write_devices(devices: Mapping[str, Sequence[Device]]) -> dict[str, list[dict[str, Any]]]:
    """Return *devices* as `read_devices` reads them."""
    return {
        resource: [_device_document(device) for device in some]
        for resource, some in devices.items()
    }


def _node(wire: CadvisorNode) -> NumaNode:
    return NumaNode(
        id=wire.node_id,
        memory_bytes=wire.memory,
        cores=tuple(_core(core) for core in wire.cores),
        hugepages=tuple(
            HugePages(page_bytes=pool.page_size * KIB, count=pool.num_pages)
            for pool in wire.hugepages
        ),
        distances=wire.distances,
    )


def _core(wire: CoreInfo) -> Core:
    caches = wire.uncore_caches
    return Core(
        id=wire.core_id,
        threads=wire.thread_ids,
        socket=wire.socket_id,
        uncore_cache=caches[0].id if caches else None,
    )


def _node_document(node: NumaNode) -> dict[str, Any]:
    return {
        "node_id": node.id,
        "memory": node.memory_bytes,
        "hugepages": [
            {"page_size": _kib(pool.page_bytes), "num_pages": pool.count} for pool in node.hugepages
        ],
        "cores": [_core_document(core) for core in node.cores],
        "caches": None,
        "distances": list(node.distances),
    }


def _core_document(core: Core) -> dict[str, Any]:
    uncore = None
    if core.uncore_cache is not None:
        uncore = [{"id": core.uncore_cache, "size": 0, "type": "Unified", "level": 3}]
    return {
        "core_id": core.id,
        "thread_ids": list(core.threads),
        "caches": None,
        "uncore_caches": uncore,
        "socket_id": core.socket,
    }


def _device_document(device: Device) -> dict[str, Any]:
    document: dict[str, Any] = {"id": device.id, "numa": list(device.numa_nodes)}
    if not device.healthy:
        document["healthy"] = False
    return document | ({"pci": device.pci} if device.pci else {})


def _kib(page_bytes: int) -> int:
    if page_bytes % KIB:
        raise MalformedObject(
            "MachineInfo", f"a hugepage of {page_bytes} bytes is not a whole number of KiB"
        )
    return page_bytes // KIB
