"""What was measured of pods and zones, in words and figures for tools. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from numakube.insight.observations import UNKNOWN, Observation
from numakube.topology import uid_hash
from numakube.topology.topology_view import NodeTopology
from numakube.values.cpuset import CpuSet
from numakube.values.display import bytes_text, counted, zones_text
from numakube_measured.measurement import MIB, Measurement, Unmeasured, read_measurement
from numakube_measured.memory_speed import read_speed, speed_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numakube.api.pod import Pod
    from numakube.insight.observations import ObservedNode
    from numakube_measured.measurement import FarInterrupts, MeasuredPod, MeasuredZone

DISTURBED: Final = 0.05
"""The share of the time of CPUs from which on a disturbance is worth a word."""
_NEAR: Final = 0.9
_FULL_SPEED: Final = 0.99
_LEAST_AVAILABLE: Final = 0.1
_FEW: Final = 4


class MeasuredObserver:
    """What tools find by the entry point ``measured``."""

    def of_pod(self, node: ObservedNode, pod: Pod) -> Observation:
        """Return what was measured of a pod."""
        measurement = measured_on(node)
        if isinstance(measurement, Unmeasured):
            return Observation(text=UNKNOWN, document={"unknown": measurement.why})
        found = measurement.of(pod)
        if found is None:
            why = (
                "its node tells of the pods with a place and of the largest others only"
                if measurement.left_out
                else "its node has not measured it yet"
            )
            return Observation(text=UNKNOWN, document={"unknown": why})
        return Observation(
            text=_cell(found),
            words=tuple(_words(node, measurement, found)),
            is_bad=is_disappointed(found),
            since=found.since,
            document=_document(node, found, measurement),
        )

    def of_zone(self, node: ObservedNode, zone: int) -> Observation:
        """Return what was measured of a NUMA node."""
        measurement = measured_on(node)
        if isinstance(measurement, Unmeasured):
            return Observation(text=UNKNOWN, document={"unknown": measurement.why})
        found = measurement.zone(zone)
        if found is None:
            return Observation(text=UNKNOWN, document={"unknown": "its node did not measure it"})
        share = found.available_share
        return Observation(
            text=_zone_cell(found),
            words=tuple(_zone_words(node, found)),
            is_bad=share is not None and share < _LEAST_AVAILABLE,
            document=_zone_document(node, found),
        )


OBSERVER: Final = MeasuredObserver()


def measured_on(node: ObservedNode) -> Measurement | Unmeasured:
    """Return what was measured on *node*; nothing that nobody keeps up to date any more."""
    measurement, view = read_measurement(node.report), node.view
    if isinstance(measurement, Measurement) and isinstance(view, NodeTopology) and view.why_old:
        return Unmeasured(f"its measurement is old: {view.why_old}")
    return measurement


def is_disappointed(pod: MeasuredPod) -> bool:
    """Tell whether a pod did not get what it was promised."""
    near = pod.near_threads
    return (
        pod.is_spilled
        or bool(pod.far_interrupts)
        or (near is not None and bool(pod.cpu_zones) and near < _NEAR)
        or any(
            share is not None and share >= DISTURBED
            for share in (pod.others, pod.stolen, pod.throttled)
        )
    )


def memory_speed(node: ObservedNode, pod: MeasuredPod) -> float | None:
    """Return how fast a pod reads its memory, if its node was benchmarked."""
    known = read_speed(node.annotations)
    cpus = pod.threads or dict.fromkeys(pod.cpu_zones or pod.zones, 1)
    return None if known is None else speed_of(known, cpus, pod.memory_mi)


def names_of(node: ObservedNode) -> dict[str, str]:
    """Return the pods of *node* as ``namespace/name`` by the short forms of their uids."""
    return {uid_hash(pod.metadata.uid): pod.metadata.key for pod in node.pods}


def cpus_of_zones(node: ObservedNode, zones: tuple[int, ...]) -> str:
    """Return the CPUs of *zones* as the kernel writes them; empty if they are not known."""
    view = node.view
    if not isinstance(view, NodeTopology) or view.report is None:
        return ""
    return str(
        CpuSet.of(
            cpu
            for zone in view.report.machine.nodes
            if zone.id in zones
            for core in zone.cores
            for cpu in core.threads
        )
    )


def percent(share: float) -> str:
    """Return a share as people read it; what is not everything is never 100 %."""
    rounded = round(100 * share)
    if rounded == 100 and share < 1:
        return "99%"
    return "1%" if not rounded and share > 0 else f"{rounded}%"


def shares_text(memory: Mapping[int, int]) -> str:
    """Return memory by zone, the most first: ``93% on zone 0, 7% on zone 1``."""
    total = sum(memory.values())
    parts = sorted(memory.items(), key=lambda part: (-part[1], part[0]))
    told = [f"{percent(size / total)} on zone {zone}" for zone, size in parts[:_FEW]]
    if parts[_FEW:]:
        rest = sum(size for _, size in parts[_FEW:])
        told.append(f"{percent(rest / total)} on {len(parts) - _FEW} others")
    return ", ".join(told)


def _cell(pod: MeasuredPod) -> str:
    if not pod.memory_mi:
        memory = UNKNOWN
    elif pod.local is not None:
        memory = f"{percent(pod.local)} local"
    else:
        memory = shares_text(pod.memory_mi)
    marks = [
        f"{words} {percent(share)}"
        for words, share in (
            ("others", pod.others),
            ("stolen", pod.stolen),
            ("throttled", pod.throttled),
        )
        if share is not None and share >= DISTURBED
    ]
    near = pod.near_threads
    if near is not None and pod.cpu_zones and near < _NEAR:
        marks.append(f"threads {percent(near)} near")
    if pod.far_interrupts:
        marks.append("far interrupts")
    return ", ".join((memory, *marks))


def _words(node: ObservedNode, measurement: Measurement, found: MeasuredPod) -> Iterator[str]:
    if found.memory_mi:
        size = bytes_text(sum(found.memory_mi.values()) * MIB)
        yield f"Measured: {size} of memory, {shares_text(found.memory_mi)}{_promise(found)}."
    if found.is_spilled:
        yield from _why_spilled(node, measurement, found)
    if found.threads:
        total = counted(sum(found.threads.values()), "thread")
        yield f"The {total} that were looked at ran last: {shares_text(found.threads)}."
    speed = memory_speed(node, found)
    if speed is not None and speed < _FULL_SPEED:
        yield f"Placed so, it reads memory at {percent(speed)} of the best bandwidth of its CPUs."
    for far in found.far_interrupts:
        yield _interrupt_words(node, found, far)
    yield from _disturbances(found)


def _promise(pod: MeasuredPod) -> str:
    if not pod.zones:
        return "; none was promised to it"
    if not pod.is_spilled:
        return ", as promised"
    since = f" since {pod.since}" if pod.since else ""
    return f"; it was promised {zones_text(pod.zones)}{since}"


def _why_spilled(node: ObservedNode, measurement: Measurement, pod: MeasuredPod) -> Iterator[str]:
    if not pod.confined:
        yield (
            "The kernel may take its memory from any zone: only the Memory Manager's policy Static"
            " confines it."
        )
    for number in pod.zones:
        zone = measurement.zone(number)
        if zone is None or zone.available_mi is None:
            continue
        left = bytes_text(zone.available_mi * MIB)
        share = zone.available_share
        if not zone.guests or share is None or share >= _LEAST_AVAILABLE:
            yield f"Zone {number} has {left} left now."
            continue
        yield (
            f"Zone {number} has {left} left; pods without a place there use"
            f" {bytes_text(zone.guests_mi * MIB)}: {_guests(node, zone)}."
        )


def _guests(node: ObservedNode, zone: MeasuredZone) -> str:
    names = names_of(node)
    return ", ".join(
        f"{names.get(guest.uid, 'a pod that is gone')} {bytes_text(guest.memory_mi * MIB)}"
        for guest in zone.guests
    )


def _interrupt_words(node: ObservedNode, pod: MeasuredPod, far: FarInterrupts) -> str:
    count = counted(far.count, "interrupt")
    rate = f" ({far.per_second} a second)" if far.per_second else ""
    verb = "is" if far.count == 1 else "are"
    told = f"{count} of {far.device} {verb} taken on {zones_text(far.zones)}{rate}"
    cpus = cpus_of_zones(node, pod.cpu_zones or pod.zones)
    if not cpus or not far.numbers:
        return f"{told}, where the pod is not."
    numbers = " ".join(map(str, far.numbers))
    which = numbers if len(far.numbers) == 1 else f"{{{numbers.replace(' ', ',')}}}"
    return (
        f"{told}, where the pod is not; on {node.name}: echo {cpus} | tee"
        f" /proc/irq/{which}/smp_affinity_list"
    )


def _disturbances(pod: MeasuredPod) -> Iterator[str]:
    for share, words in (
        (pod.others, "Others ran on its CPUs for {} of their time."),
        (pod.stolen, "A hypervisor took {} of the time of its CPUs."),
        (pod.throttled, "Its quota stopped it in {} of its periods."),
        (pod.memory_pressure, "It waited for memory in {} of the last minute."),
    ):
        if share is not None and share >= DISTURBED:
            yield words.format(percent(share))
    if pod.traffic_mi_per_second and pod.remote_mi_per_second:
        remote = pod.remote_mi_per_second / pod.traffic_mi_per_second
        if remote >= DISTURBED:
            traffic = bytes_text(pod.traffic_mi_per_second * MIB)
            yield f"{percent(remote)} of its {traffic} a second to and from memory are remote."


def _document(node: ObservedNode, pod: MeasuredPod, measurement: Measurement) -> dict[str, Any]:
    shares = {
        "memorySpeed": memory_speed(node, pod),
        "local": pod.local,
        "nearThreads": pod.near_threads,
        "others": pod.others,
        "stolen": pod.stolen,
        "throttled": pod.throttled,
        "memoryPressure": pod.memory_pressure,
    }
    return {
        "takenAt": measurement.taken_at,
        "promised": list(pod.zones),
        "memoryMi": {str(zone): size for zone, size in pod.memory_mi.items()},
        "threads": {str(zone): count for zone, count in pod.threads.items()},
        **{name: round(share, 4) for name, share in shares.items() if share is not None},
        "farInterrupts": [
            {"device": far.device, "count": far.count, "zones": list(far.zones)}
            for far in pod.far_interrupts
        ],
        **({"since": pod.since} if pod.since else {}),
    }


def _zone_cell(zone: MeasuredZone) -> str:
    if zone.available_mi is None:
        return UNKNOWN
    guests = f", guests {bytes_text(zone.guests_mi * MIB)}" if zone.guests_mi else ""
    return f"{bytes_text(zone.available_mi * MIB)} available{guests}"


def _zone_words(node: ObservedNode, zone: MeasuredZone) -> Iterator[str]:
    if zone.available_mi is not None and zone.total_mi:
        left, total = bytes_text(zone.available_mi * MIB), bytes_text(zone.total_mi * MIB)
        free = f", {bytes_text(zone.free_mi * MIB)} of it free" if zone.free_mi is not None else ""
        yield f"programs can have {left} of {total}{free}"
    if zone.guests:
        used = bytes_text(zone.guests_mi * MIB)
        yield f"{used} of pods without a place here: {_guests(node, zone)}"
    if zone.traffic_mi_per_second is not None:
        remote = zone.remote_mi_per_second or 0
        yield (
            f"{bytes_text(zone.traffic_mi_per_second * MIB)} a second to and from memory,"
            f" {bytes_text(remote * MIB)} of that elsewhere"
        )
    if zone.missed_per_second:
        missed = counted(zone.missed_per_second, "page")
        yield f"{missed} a second were wanted here and taken elsewhere"


def _zone_document(node: ObservedNode, zone: MeasuredZone) -> dict[str, Any]:
    names = names_of(node)
    figures = {
        "totalMi": zone.total_mi,
        "freeMi": zone.free_mi,
        "availableMi": zone.available_mi,
        "trafficMiPerSecond": zone.traffic_mi_per_second,
        "remoteMiPerSecond": zone.remote_mi_per_second,
        "missedPagesPerSecond": zone.missed_per_second,
    }
    return {
        **{name: value for name, value in figures.items() if value is not None},
        "guestsMi": zone.guests_mi,
        "guests": [
            {"pod": names.get(guest.uid, ""), "memoryMi": guest.memory_mi} for guest in zone.guests
        ],
    }
