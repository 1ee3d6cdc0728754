"""The picture as JSON, described in docs/reference/map.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from numakube.insight.node_map import map_words
from numakube.insight.node_map.map_words import connections_of

if TYPE_CHECKING:
    from numakube.insight.node_map.map_words import Function
    from numakube.insight.node_map.picture import (
        DrawnCpu,
        DrawnDevice,
        DrawnMemory,
        DrawnZone,
        Kubelet,
        NodePicture,
    )
    from numakube.topology.numa_zones import MachinePart

API_VERSION: Final = "insight.numakube.dev/v1alpha1"
KIND: Final = "NodeMap"


def picture_document(picture: NodePicture) -> dict[str, Any]:
    """Return *picture* as plain data; what is not known is left out."""
    document: dict[str, Any] = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "node": picture.node,
        "exact": picture.exact,
    }
    if not picture.exact:
        document["whyNotExact"] = picture.why_not_exact
    if picture.stale:
        document["stale"] = picture.stale
    if picture.planned:
        document["planned"] = True
    document |= {
        "kubelet": _kubelet(picture.kubelet),
        "zones": [_zone(picture, zone) for zone in picture.zones],
        "pods": [
            {
                "name": pod.name,
                "letter": pod.letter,
                "zones": list(pod.zones),
                "cpus": str(pod.cpus),
                "memory": dict(pod.memory),
                "devices": dict(pod.devices),
                **({"change": str(pod.change)} if pod.change else {}),
            }
            for pod in picture.pods
        ],
        "sharingPods": picture.sharing_pods,
        "notes": list(picture.notes),
    }
    if picture.observed:
        document["observed"] = {
            str(zone): dict(seen.document) for zone, seen in picture.observed.items()
        }
    if picture.parts:
        document["hierarchy"] = [_part(part) for part in picture.parts]
    if picture.homeless:
        document["devicesWithoutZone"] = [_device(picture, device) for device in picture.homeless]
    if connections := connections_of(picture):
        document["connections"] = {
            "functions": [_function(function) for function in connections.functions],
            "closeness": [list(row) for row in connections.matrix()],
        }
    return document


def _function(function: Function) -> dict[str, Any]:
    path = function.path
    zone = {} if path.numa_node is None else {"zone": path.numa_node}
    return {
        "address": path.address,
        "root": path.root,
        "bridges": list(path.bridges),
        **zone,
        "resource": function.resource,
        "positions": [device.position for device in function.devices],
    }


def _kubelet(kubelet: Kubelet) -> dict[str, Any]:
    fields = {
        "topologyManagerPolicy": kubelet.topology_policy,
        "topologyManagerScope": kubelet.topology_scope,
        "topologyManagerPolicyOptions": dict(kubelet.topology_options),
        "cpuManagerPolicy": kubelet.cpu_policy,
        "cpuManagerPolicyOptions": dict(kubelet.cpu_options),
        "memoryManagerPolicy": kubelet.memory_policy,
        "version": kubelet.version,
    }
    return {name: value for name, value in fields.items() if value}


def _zone(picture: NodePicture, zone: DrawnZone) -> dict[str, Any]:
    document: dict[str, Any] = {"id": zone.id, "sockets": list(zone.sockets)}
    if zone.within:
        document["within"] = list(zone.within)
    if zone.caches:
        document["cpus"] = str(zone.cpu_set)
        document["caches"] = [
            {
                **({} if cache.id is None else {"l3": cache.id}),
                "cores": [
                    {"socket": core.socket, "cpus": [_cpu(picture, cpu) for cpu in core.cpus]}
                    for core in cache.cores
                ],
            }
            for cache in zone.caches
        ]
    if zone.memory:
        document["memory"] = [_memory(picture, bar) for bar in zone.memory]
    if zone.devices:
        document["devices"] = [_device(picture, device) for device in zone.devices]
    if zone.amounts:
        document["resources"] = {
            amount.resource: {
                "capacity": amount.capacity,
                "allocatable": amount.allocatable,
                "available": amount.available,
            }
            for amount in zone.amounts
        }
    document["distances"] = {str(other): value for other, value in zone.distances.items()}
    return document


def _part(part: MachinePart) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "name": part.name,
        "type": part.type,
        "level": str(part.level),
        "parent": part.parent,
        "allocatable": dict(part.allocatable),
        "available": dict(part.available),
        "attributes": dict(part.attributes),
    }
    zone = {} if part.numa_id is None else {"zone": part.numa_id}
    return {name: value for name, value in fields.items() if value} | zone


def _cpu(picture: NodePicture, cpu: DrawnCpu) -> dict[str, Any]:
    document: dict[str, Any] = {"id": cpu.id}
    if cpu.owner is not None:
        document["pod"] = picture.owner_name(cpu.owner)
    if cpu.reserved:
        document["reserved"] = True
    return document | _change(cpu)


def _memory(picture: NodePicture, bar: DrawnMemory) -> dict[str, Any]:
    document: dict[str, Any] = {"kind": bar.kind, "total": bar.total_bytes, "managed": bar.managed}
    if not bar.managed:
        return document
    return document | {
        "reserved": bar.reserved_bytes,
        "free": bar.free_bytes,
        "held": [
            {
                "pods": [picture.owner_name(owner) for owner in part.owners],
                "bytes": part.size_bytes,
                "zones": list(part.zones),
                **({"change": str(part.change)} if part.change else {}),
            }
            for part in bar.parts
        ],
    }


def _device(picture: NodePicture, device: DrawnDevice) -> dict[str, Any]:
    document: dict[str, Any] = {"resource": device.resource, "position": device.position}
    if device.id:
        document["id"] = device.id
    document["zones"] = list(device.zones)
    document["healthy"] = device.healthy
    if device.trouble:
        document["trouble"] = device.trouble
    if device.blocked:
        document["blocked"] = True
    if device.pci:
        document["pci"] = device.pci
    if device.owner is not None:
        document["pod"] = picture.owner_name(device.owner)
    if device.sharers:
        document["pods"] = map_words.owner_names(picture, device)
    if device.claims:
        document["claims"] = list(device.claims)
    return document | _change(device)


def _change(cell: DrawnCpu | DrawnDevice) -> dict[str, str]:
    if not cell.change:
        return {}
    return {"change": str(cell.change), **({"was": cell.was} if cell.was else {})}
