"""What a node's NUMA zones look like after the admissions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numakube.insight.drawing.from_report import picture_of_model
from numakube.values.cpuset import CpuSet

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numakube.cli.admit.admissions import Verdict
    from numakube.insight.drawing.picture import Device, Memory, NodePicture, Zone
    from numakube.kubelet.node import KubeletNode


def picture_after(node: KubeletNode, verdicts: Sequence[Verdict]) -> NodePicture:
    """Return the picture of *node* with what the admitted pods hold."""
    names = {verdict.pod.metadata.uid: verdict.name for verdict in verdicts}
    return picture_of_model("", node, pods=names)


def zone_documents(picture: NodePicture) -> list[dict[str, Any]]:
    """Return the zones as plain data; ``node`` is ``None`` for devices without NUMA node."""
    documents = [_zone_document(picture, zone) for zone in picture.zones]
    if picture.homeless:
        documents.append({"node": None, "devices": _devices(picture, picture.homeless)})
    return documents


def _zone_document(picture: NodePicture, zone: Zone) -> dict[str, Any]:
    owned: dict[str, list[int]] = {}
    for cpu in zone.cpus():
        if cpu.owner is not None:
            owned.setdefault(picture.owner_name(cpu.owner), []).append(cpu.id)
    reserved = CpuSet.of(cpu.id for cpu in zone.cpus() if cpu.reserved)
    return {
        "node": zone.id,
        "sockets": list(zone.sockets),
        "cpus": str(zone.cpu_set),
        "reservedCPUs": str(reserved),
        "exclusiveCPUs": {name: str(CpuSet.of(cpus)) for name, cpus in owned.items()},
        "memory": {bar.kind: _memory(bar) for bar in zone.memory},
        "devices": _devices(picture, zone.devices),
    }


def _memory(bar: Memory) -> dict[str, int]:
    """Return the bytes of one kind; nobody counts what is used if it is not managed."""
    if not bar.managed:
        return {"total": bar.total_bytes}
    used = sum(part.size_bytes for part in bar.parts)
    return {"total": bar.total_bytes, "reserved": bar.reserved_bytes, "used": used}


def _devices(picture: NodePicture, devices: Iterable[Device]) -> dict[str, dict[str, str | None]]:
    found: dict[str, dict[str, str | None]] = {}
    for device in devices:
        owner = picture.owner_name(device.owner) or None
        found.setdefault(device.resource, {})[device.name] = owner
    return found
