"""The NUMA nodes that a guest sees, given what the kubelet gives its pod. Pure.

With NUMA pass-through KubeVirt makes one cell of the guest for each NUMA node of the host on which
its CPUs are, with those CPUs, and divides the memory evenly. Without, the guest sees one node
(KubeVirt 1.5, pkg/virt-launcher/virtwrap/converter/vcpu).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from numakube.kubelet import Admitted
from numakube_virtual_machines.launcher_pod import COMPUTE, GUEST, PASSTHROUGH

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numakube.api.pod import Pod
    from numakube.kubelet import KubeletNode


_MOST_DIGITS: Final = 18
_PARTS: Final = 2


@dataclass(frozen=True, slots=True)
class GuestCell:
    """One NUMA node of the guest, and that of the host behind it."""

    zone: int
    cpus: int
    memory_bytes: int


def cells_of(
    cpus: Iterable[int], zone_of: Mapping[int, int], memory_bytes: int, guest_cpus: int
) -> tuple[GuestCell, ...]:
    """Return the cells of a guest that is passed through.

    Args:
        cpus: that its pod has, those for threads of the emulator last.
        zone_of: the NUMA node of each CPU.
        memory_bytes: of the guest.
        guest_cpus: how many of the CPUs the guest has.
    """
    listed = sorted(cpus)[:guest_cpus]
    zones = Counter(zone_of[cpu] for cpu in listed if cpu in zone_of)
    return tuple(
        GuestCell(zone, count, memory_bytes // len(zones)) for zone, count in sorted(zones.items())
    )


def guest_of(pod: Pod) -> tuple[int, int] | None:
    """Return CPUs and memory of the guest of a planned pod; ``None`` if it is none of a machine."""
    words = pod.metadata.annotations.get(GUEST, "").split(" ")
    known = [int(word) for word in words if word.isdecimal() and len(word) <= _MOST_DIGITS]
    return (known[0], known[1]) if len(known) == len(words) == _PARTS else None


def cells_on(model: KubeletNode, pod: Pod) -> tuple[GuestCell, ...]:
    """Return the cells that the guest of *pod* would have on a node; none if it is not known."""
    guest = guest_of(pod)
    if guest is None or PASSTHROUGH not in pod.metadata.annotations:
        return ()
    tried = model.clone()
    if not isinstance(tried.admit(pod), Admitted):
        return ()
    held = tried.placement(pod.metadata.uid, COMPUTE).cpus
    zone_of = {
        cpu: node.id for node in model.machine.nodes for core in node.cores for cpu in core.threads
    }
    return cells_of(held, zone_of, guest[1], guest[0])
