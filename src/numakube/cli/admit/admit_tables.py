"""Verdicts as a table with the kubelet's words for refusals, and the NUMA zones after them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from numakube.insight.node_map.picture_from_report import picture_of_model
from numakube.kubelet.admission_outcome import ContainerPlacement, Rejected
from numakube.values.cpuset import CpuSet
from numakube.values.display import brief_text, short_name
from numakube.values.numamask import nodes_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from rich.console import RenderableType

    from numakube.cli.admit.admissions import AdmissionVerdict
    from numakube.insight.node_map.picture import DrawnDevice, DrawnMemory, DrawnZone, NodePicture
    from numakube.kubelet.kubelet_model import KubeletNode


def verdict_table(
    verdicts: Sequence[AdmissionVerdict], styles: Mapping[str, str], *, wide: bool = False
) -> Table:
    """Return a row for each container of an admitted pod and one for each refused pod.

    *styles* are those of the pods' names. The *wide* table names devices instead of counting them.
    """
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("POD", "VERDICT", "CONTAINER", "NUMA", "CPUS", "MEMORY", "DEVICES"):
        table.add_column(title, overflow="fold")
    for verdict in verdicts:
        name = Text(verdict.name, style=styles.get(verdict.name, ""))
        if isinstance(verdict.outcome, Rejected):
            table.add_row(name, Text("rejected", style="bold red"))
            continue
        for container, placement in verdict.outcome.containers.items():
            table.add_row(
                name, Text("admitted", style="green"), container, *_cells(placement, wide=wide)
            )
            name = Text()
    return table


def _cells(placement: ContainerPlacement, *, wide: bool) -> tuple[str, str, str, str]:
    mask = placement.hint.mask
    memory = ", ".join(
        f"{brief_text(block.type, block.size_bytes)} on {_nodes(block.numa_nodes)}"
        for block in placement.memory
        if block.size_bytes
    )
    devices = ", ".join(
        " ".join(ids) if wide else f"{len(ids)} {short_name(name)}"
        for name, ids in placement.devices.items()
    )
    return (
        "any" if mask is None else _nodes(nodes_of(mask)),
        str(placement.cpus) or "shared",
        memory or "-",
        devices or "-",
    )


def _nodes(nodes: Sequence[int]) -> str:
    return "+".join(map(str, nodes))


def refusals(verdicts: Sequence[AdmissionVerdict]) -> Iterator[RenderableType]:
    """Yield the kubelet's words for each refused pod, and ours if they say more."""
    for verdict in verdicts:
        if isinstance(verdict.outcome, Rejected):
            head = f"{verdict.name}: {verdict.outcome.reason}: "
            yield Text.assemble((head, "bold red"), verdict.outcome.message)
            if verdict.why:
                yield Padding(Text(verdict.why, style="dim"), (0, 0, 0, 4), expand=False)


def picture_after(node: KubeletNode, verdicts: Sequence[AdmissionVerdict]) -> NodePicture:
    """Return the picture of *node* with what the admitted pods hold."""
    names = {verdict.pod.metadata.uid: verdict.name for verdict in verdicts}
    return picture_of_model("", node, pods=names)


def zone_documents(picture: NodePicture) -> list[dict[str, Any]]:
    """Return the zones as plain data; ``node`` is ``None`` for devices without NUMA node."""
    documents = [_zone_document(picture, zone) for zone in picture.zones]
    if picture.homeless:
        documents.append({"node": None, "devices": _devices(picture, picture.homeless)})
    return documents


def _zone_document(picture: NodePicture, zone: DrawnZone) -> dict[str, Any]:
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


def _memory(bar: DrawnMemory) -> dict[str, int]:
    """Return the bytes of one kind; what is used is only counted if it is managed."""
    if not bar.managed:
        return {"total": bar.total_bytes}
    used = sum(part.size_bytes for part in bar.parts)
    return {"total": bar.total_bytes, "reserved": bar.reserved_bytes, "used": used}


def _devices(
    picture: NodePicture, devices: Iterable[DrawnDevice]
) -> dict[str, dict[str, str | None]]:
    found: dict[str, dict[str, str | None]] = {}
    for device in devices:
        owner = picture.owner_name(device.owner) or None
        found.setdefault(device.resource, {})[device.name] = owner
    return found
