"""What Koordinator's node agent adds to the NRTs that it writes.

koordlet reports what a node has, not what is left: ``available`` always equals ``allocatable``.
The kubelet's CPU Manager configuration stands in an annotation, and so do the sockets of its CPUs.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from numakube.api.codec import decode
from numakube.api.koordinator import keys
from numakube.api.koordinator.node_annotations import AnnotatedCpuTopology, CpuManagerPolicy
from numakube.api.nrt import ZONE_TYPE_NODE
from numakube.errors import MalformedObject
from numakube.topology.numa_zones import ZONE_TYPE_SOCKET, Level, MachinePart

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numakube.api.meta import ObjectMeta
    from numakube.topology.numa_zones import ZoneView


def is_written_by_koordlet(meta: ObjectMeta) -> bool:
    """Tell whether an NRT is koordlet's."""
    return is_labelled(meta) or keys.CPU_MANAGER_POLICY in meta.annotations


def is_labelled(meta: ObjectMeta) -> bool:
    """Tell whether an NRT has koordlet's label, which nobody else writes."""
    return meta.labels.get(keys.MANAGED_BY) == keys.KOORDINATOR


def cpu_policy_of(annotations: Mapping[str, str], problems: list[str]) -> CpuManagerPolicy | None:
    """Return the CPU Manager configuration in *annotations*, if there is one that can be read."""
    text = annotations.get(keys.CPU_MANAGER_POLICY)
    if text is None:
        return None
    try:
        return decode(CpuManagerPolicy, text, f"annotation {keys.CPU_MANAGER_POLICY} ignored")
    except MalformedObject as error:
        problems.append(str(error))
        return None


def parts_of(annotations: Mapping[str, str], zones: Sequence[ZoneView]) -> tuple[MachinePart, ...]:
    """Return the sockets, and the NUMA nodes on them, that *annotations* tell of; none if none."""
    sockets = _sockets_in(annotations.get(keys.CPU_TOPOLOGY, ""))
    if not sockets:
        return ()
    names = {socket: f"socket {socket}" for socket in sorted(set(sockets.values()))}
    return (
        *(
            MachinePart(name=name, type=ZONE_TYPE_SOCKET, level=Level.SOCKET)
            for name in names.values()
        ),
        *(
            MachinePart(
                name=zone.name,
                type=ZONE_TYPE_NODE,
                level=Level.NUMA,
                parent=names[sockets[zone.id]] if zone.id in sockets else "",
                numa_id=zone.id,
                allocatable=zone.allocatable,
                available=zone.available,
            )
            for zone in zones
        ),
    )


# All machines of one model have the same text.
@lru_cache(maxsize=256)
def _sockets_in(text: str) -> Mapping[int, int]:
    """Return the socket of each NUMA node that is on one only; nothing if that cannot be read."""
    try:
        topology = decode(AnnotatedCpuTopology, text) if text else AnnotatedCpuTopology()
    except MalformedObject:
        return {}  # the reader of CPUs says what is wrong with it
    sockets: dict[int, set[int]] = {}
    for cpu in topology.detail:
        sockets.setdefault(cpu.node, set()).add(cpu.socket)
    return {node: found.pop() for node, found in sockets.items() if len(found) == 1}
