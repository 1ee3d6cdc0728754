"""What was measured on a node, as the exporter publishes it: an annotation of its report.

    measurement = read_measurement(nrt)      # a Measurement, or Unmeasured with the reason

The text is written rarely (`numakube_measured.news`), so all amounts are rounded: memory to MiB,
shares to a hundredth. Whoever may write reports could write anything, so the size of the text, the
number of pods and every number have bounds, and one that makes no sense is no measurement.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import msgspec

from numakube.topology import uid_hash
from numakube.topology.nrt_names import OUR_PREFIX

if TYPE_CHECKING:
    from numakube.api.nrt import NodeResourceTopology
    from numakube.api.pod import Pod

ANNOTATION: Final = OUR_PREFIX + "measured"
MOST_BYTES: Final = 48 << 10
"""Annotations of an object have 256 KiB together; a report has other ones."""
MOST_PODS: Final = 128
MOST_DEVICES: Final = 64
"""Devices of one pod with interrupts elsewhere that are told."""
MIB: Final = 1 << 20

Amount: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=1 << 50)]
Share: TypeAlias = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]
ZoneNumber: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=4095)]
Word: TypeAlias = Annotated[str, msgspec.Meta(max_length=512)]


class _Part(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Base of the parts: what is not known is left out."""


class Guest(_Part, frozen=True):
    """A pod, by its short uid, with memory on a zone that it was not given."""

    uid: Word
    memory_mi: Amount = 0


class MeasuredZone(_Part, frozen=True):
    """One NUMA node.

    Attributes:
        total_mi: its memory; so are ``free_mi``, and ``available_mi`` with files that can go.
        guests_mi: memory of pods that have no place here, all together.
        guests: the largest of them.
        traffic_mi_per_second: to and from memory, where the processor counts it; ``remote`` of that
            to other NUMA nodes.
        missed_per_second: pages that were wanted here and taken elsewhere.
    """

    id: ZoneNumber
    total_mi: Amount | None = None
    free_mi: Amount | None = None
    available_mi: Amount | None = None
    guests_mi: Amount = 0
    guests: Annotated[tuple[Guest, ...], msgspec.Meta(max_length=16)] = ()
    traffic_mi_per_second: Amount | None = None
    remote_mi_per_second: Amount | None = None
    missed_per_second: Amount | None = None

    @property
    def available_share(self) -> float | None:
        """What programs can still have, as a share of all."""
        if not self.total_mi or self.available_mi is None:
            return None
        return min(1.0, self.available_mi / self.total_mi)


class FarInterrupts(_Part, frozen=True):
    """Interrupts of a device of a pod that are taken on zones that the pod is not on.

    Attributes:
        device: its PCI address.
        count: how many there are.
        numbers: the first few of them, as ``/proc/irq`` has them.
        zones: that take them.
        per_second: how many came; ``None`` if that is not known yet.
    """

    device: Word
    count: Amount = 0
    numbers: Annotated[tuple[Amount, ...], msgspec.Meta(max_length=64)] = ()
    zones: tuple[ZoneNumber, ...] = ()
    per_second: Amount | None = None


class MeasuredPod(_Part, frozen=True):
    """One pod.

    Attributes:
        uid: the short form of its uid; names are the cluster's to know.
        zones: where the kubelet gave it memory, or else CPUs, or else devices; none if it has
            nothing for itself.
        cpu_zones: where the CPUs are that it has for itself.
        memory_mi: what its programs have mapped, by zone.
        cache_mi: files kept in memory that it read first, all zones together.
        containers: ``memory_mi`` of each container by its place in the specification, those of
            initialisation first, if the pod has several.
        threads: how many of the threads that were looked at ran last on each zone.
        confined: whether the kernel takes its memory from these zones only; else it may go on
            elsewhere when they are full.
        far_interrupts: of its devices.
        throttled: the share of its periods in which its quota stopped it.
        stolen: the share of the time of its CPUs that a hypervisor took.
        others: the share of the time of its CPUs that others ran on them.
        memory_pressure: the share of the last minute in which it waited for memory.
        traffic_mi_per_second: to and from memory; ``remote`` of that to other NUMA nodes.
        since: when less than `LOCAL_ENOUGH` of its memory was local first, in RFC 3339.
    """

    uid: Word
    zones: tuple[ZoneNumber, ...] = ()
    cpu_zones: tuple[ZoneNumber, ...] = ()
    memory_mi: dict[ZoneNumber, Amount] = {}
    cache_mi: Amount = 0
    containers: dict[Amount, dict[ZoneNumber, Amount]] = {}
    threads: dict[ZoneNumber, Amount] = {}
    confined: bool = False
    far_interrupts: Annotated[tuple[FarInterrupts, ...], msgspec.Meta(max_length=MOST_DEVICES)] = ()
    throttled: Share | None = None
    stolen: Share | None = None
    others: Share | None = None
    memory_pressure: Share | None = None
    traffic_mi_per_second: Amount | None = None
    remote_mi_per_second: Amount | None = None
    since: Word = ""

    @property
    def local(self) -> float | None:
        """The share of its memory that is where it was promised; ``None`` if nothing was."""
        total = sum(self.memory_mi.values())
        if not self.zones or not total:
            return None
        return sum(self.memory_mi.get(zone, 0) for zone in self.zones) / total

    @property
    def near_threads(self) -> float | None:
        """The share of its threads that ran where its CPUs, or else its zones, are."""
        total, places = sum(self.threads.values()), self.cpu_zones or self.zones
        if not places or not total:
            return None
        return sum(self.threads.get(zone, 0) for zone in places) / total

    @property
    def is_spilled(self) -> bool:
        """Whether more than a little of its memory is elsewhere than promised."""
        return self.local is not None and self.local < LOCAL_ENOUGH


LOCAL_ENOUGH: Final = 0.95
"""A kernel counts in batches, and libraries that others read first are where those ran."""


class Settings(_Part, frozen=True):
    """Settings of the kernel: see `numakube.node.usage.node_memory.KernelSettings`."""

    numa_balancing: Word = ""
    transparent_huge_pages: Word = ""
    zone_reclaim: Word = ""


class Measurement(_Part, frozen=True):
    """Everything that was measured on a node.

    Attributes:
        taken_at: when, in RFC 3339; since then nothing has changed that matters.
        pods: those with something for themselves first, then the largest of the others.
        left_out: how many pods there are besides.
        untold: what the kernel does not tell, and why.
    """

    version: Annotated[int, msgspec.Meta(ge=1, le=1)] = 1
    taken_at: Word = ""
    zones: Annotated[tuple[MeasuredZone, ...], msgspec.Meta(max_length=4096)] = ()
    pods: Annotated[tuple[MeasuredPod, ...], msgspec.Meta(max_length=MOST_PODS)] = ()
    left_out: Amount = 0
    settings: Settings = Settings()
    untold: Annotated[tuple[Word, ...], msgspec.Meta(max_length=32)] = ()

    def zone(self, number: int) -> MeasuredZone | None:
        """Return a NUMA node."""
        return next((zone for zone in self.zones if zone.id == number), None)

    def of(self, pod: Pod) -> MeasuredPod | None:
        """Return what was measured of *pod*."""
        uid = uid_hash(pod.metadata.uid)
        return next((one for one in self.pods if one.uid == uid), None)


@dataclass(frozen=True, slots=True)
class Unmeasured:
    """Why nothing is known."""

    why: str


NOT_MEASURED: Final = Unmeasured("nothing is measured on its node; deploy exporters with --measure")


def write_measurement(measurement: Measurement) -> str:
    """Return the text of *measurement*, without the last pods if it is too long."""
    pods = measurement.pods
    while True:
        left_out = measurement.left_out + len(measurement.pods) - len(pods)
        text = msgspec.json.encode(
            msgspec.structs.replace(measurement, pods=pods, left_out=left_out)
        )
        if len(text) <= MOST_BYTES or not pods:
            return text.decode()
        pods = pods[: len(pods) * MOST_BYTES // (len(text) + 1)]


def read_measurement(nrt: NodeResourceTopology | None) -> Measurement | Unmeasured:
    """Return what *nrt* says was measured on its node, or why nothing is known."""
    text = None if nrt is None else nrt.metadata.annotations.get(ANNOTATION)
    return NOT_MEASURED if text is None else _read(text)


@lru_cache(maxsize=256)
def _read(text: str) -> Measurement | Unmeasured:
    if len(text) > 2 * MOST_BYTES:
        return Unmeasured(f"its measurement has more than {2 * MOST_BYTES} bytes")
    try:
        return msgspec.json.decode(text, type=Measurement)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        return Unmeasured(f"its measurement cannot be read: {str(error)[:200]}")
