"""Measures a node: reads what its kernel counts, and sets it against what pods were promised.

    measurer = NodeMeasurer(sysfs, proc, rng=Random())
    measurement = measurer.read(pods, cpu_zones, now=clock.now(), at=clock.monotonic())

Rates are differences to the reading before, so the first reading has none. A counter that fell has
started again and tells nothing this time. Pods that were promised nothing cost one file each; of
the others everything is read.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from numakube.errors import ConfigError
from numakube.node.cgroups import CgroupFiles, detect, find_parent, scan
from numakube.node.usage import (
    EFFECTIVE_CPUS,
    INTERRUPTS,
    MEMORY_BY_NODE,
    GroupPlaces,
    GroupReader,
    InterruptReader,
    ResctrlReader,
    ThreadSampler,
    Untold,
    ZoneMemoryReader,
    read_cpu_seconds,
    read_settings,
)
from numakube.topology import uid_hash
from numakube.values.times import format_time
from numakube_measured.measurement import (
    MIB,
    MOST_DEVICES,
    MOST_PODS,
    FarInterrupts,
    Guest,
    MeasuredPod,
    MeasuredZone,
    Measurement,
    Settings,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path
    from random import Random

    from numakube.node.cgroups import PodGroups
    from numakube.node.usage import (
        CpuSeconds,
        CpuTime,
        Interrupt,
        MemoryByNode,
        Traffic,
        ZoneMemory,
    )
    from numakube.values.cpuset import CpuSet
    from numakube_measured.promised_pods import PromisedPod

CGROUPS: Final = "control groups of pods"

MOST_OTHERS: Final = 10
"""Pods without anything for themselves that are told: those with the most memory."""
THREADS_A_READING: Final = 512
_MOST_GUESTS: Final = 3
_GUEST_MI: Final = 64
"""Less is libraries and page tables."""
_NUMBERS: Final = 8
_PROCESSES_EVERY: Final = 4
"""Readings from one look at all processes to the next: it takes a file for each."""

K = TypeVar("K")


@dataclass(slots=True)
class _PodReading:
    """What was read of one pod."""

    promised: PromisedPod
    memory: MemoryByNode | None = None
    containers: dict[int, dict[int, int]] = field(default_factory=dict)
    cpu_time: CpuTime | None = None
    pinned_seconds: float | None = None
    pinned_cpus: frozenset[int] = frozenset()
    memory_pressure: float | None = None
    confined: bool = False
    threads: Counter[int] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class _Counters:
    """What only grows, at one moment; keys are uids, CPUs, interrupts, zones and groups."""

    at: float
    cpus: Mapping[int, CpuSeconds]
    pinned: Mapping[str, float]
    periods: Mapping[str, tuple[int, int]]
    interrupts: Mapping[int, Mapping[int, int]]
    missed: Mapping[int, int]
    traffic: Mapping[str, Traffic]
    all_traffic: Traffic


class NodeMeasurer:
    """Measures one node, again and again."""

    def __init__(self, sysfs: Path, proc: Path, *, rng: Random) -> None:
        """Prepare to measure.

        Args:
            sysfs: the mount of sysfs, with control groups in ``fs/cgroup``.
            proc: the mount of the host's procfs.
            rng: chooses the threads to look at.
        """
        self.untold = Untold()
        self._sysfs = sysfs
        self._proc = proc
        self._zones = ZoneMemoryReader(sysfs, self.untold)
        self._resctrl = ResctrlReader(sysfs, self.untold)
        self._interrupts = InterruptReader(sysfs, proc, self.untold)
        self._threads = ThreadSampler(proc, rng, self.untold)
        self._groups: tuple[CgroupFiles, GroupReader] | None = None
        self._before: _Counters | None = None
        self._processes: dict[str, list[int]] = {}
        self._readings = 0
        self._caches: dict[int, int] | None = None
        # Since when the memory of a pod has been elsewhere, by uid.
        self._spilled: dict[str, str] = {}

    def read(
        self,
        pods: Mapping[str, PromisedPod],
        zone_of_cpu: Mapping[int, int],
        *,
        now: datetime,
        at: float,
    ) -> Measurement:
        """Return what is so now.

        Args:
            pods: by the uid that their control groups have.
            zone_of_cpu: the NUMA node of each CPU.
            now: the time.
            at: likewise, by a clock that never goes back.
        """
        self._threads.refill(THREADS_A_READING)
        if self._readings % _PROCESSES_EVERY == 0:
            self._processes = self._threads.by_container()
        self._readings += 1
        zones = self._zones.read()
        readings, container_ids = self._read_pods(pods, zone_of_cpu)
        irqs = {
            one.promised.uid: {
                device: self._interrupts.of(device) for device in one.promised.devices
            }
            for one in readings
        }
        wanted = {irq.number for devices in irqs.values() for of in devices.values() for irq in of}
        counters = self._counters(readings, zones, wanted, at)
        before, self._before = self._before, counters
        rates = _Rates(before, counters, zone_of_cpu, self._zone_of_cache(zone_of_cpu))
        told = tuple(
            self._told(one, rates, irqs[one.promised.uid], container_ids, now)
            for one in _chosen(readings)
        )
        self._spilled = {pod.uid: pod.since for pod in told if pod.since}
        return Measurement(
            taken_at=format_time(now),
            zones=tuple(_zone(zone, readings, rates) for zone in zones),
            pods=told,
            left_out=len(readings) - len(told),
            settings=self._settings(),
            untold=self.untold.lines()[:32],
        )

    def _settings(self) -> Settings:
        known = read_settings(self._sysfs, self._proc)
        return Settings(
            numa_balancing=known.numa_balancing,
            transparent_huge_pages=known.transparent_huge_pages,
            zone_reclaim=known.zone_reclaim,
        )

    def _zone_of_cache(self, zone_of_cpu: Mapping[int, int]) -> dict[int, int]:
        if self._caches is None:
            self._caches = self._resctrl.nodes_of_caches(dict(zone_of_cpu))
        return self._caches

    def _read_pods(
        self, pods: Mapping[str, PromisedPod], zone_of_cpu: Mapping[int, int]
    ) -> tuple[list[_PodReading], dict[str, list[str]]]:
        """Return what was read of each pod that has a group, and the ids of its containers."""
        found = self._find_groups()
        if found is None:
            return [], {}
        files, reader = found
        parent = find_parent(files)
        if parent is None:
            self.untold.note(CGROUPS, "no group of all pods is there")
            return [], {}
        readings: list[_PodReading] = []
        ids: dict[str, list[str]] = {}
        for uid, groups in scan(files, parent, nested=False).items():
            promised = pods.get(uid)
            if promised is None:
                continue
            ids[promised.uid] = list(groups.containers)
            readings.append(self._read_pod(promised, groups, reader, zone_of_cpu))
        if readings and all(one.memory is None for one in readings):
            self.untold.note(MEMORY_BY_NODE, "groups have no memory.numa_stat")
        return readings, ids

    def _find_groups(self) -> tuple[CgroupFiles, GroupReader] | None:
        if self._groups is None:
            root = self._sysfs / "fs/cgroup"
            places = GroupPlaces.below(root)
            if places is None:
                self.untold.note(CGROUPS, f"{root} has none")
                return None
            try:
                files = CgroupFiles(detect(root))
            except (ConfigError, OSError) as error:
                self.untold.note(CGROUPS, str(error))
                return None
            reader = GroupReader(places, page_kib=self._zones.page_kib(), untold=self.untold)
            self._groups = files, reader
        return self._groups

    def _read_pod(
        self,
        promised: PromisedPod,
        groups: PodGroups,
        reader: GroupReader,
        zone_of_cpu: Mapping[int, int],
    ) -> _PodReading:
        reading = _PodReading(promised, memory=reader.memory(groups.group))
        if not promised.zones:
            return reading
        usage = reader.usage(groups.group)
        reading.cpu_time, reading.memory_pressure = usage.cpu_time, usage.memory_pressure
        pinned: list[float | None] = []
        nodes: set[int] = set()
        for identity, group in groups.containers.items():
            if identity not in promised.containers:
                continue
            name, place = promised.containers[identity]
            nodes.update(reader.memory_nodes(group) or zone_of_cpu.values())
            own = promised.cpus.get(name) or promised.cpus.get("")
            if own and self._is_pinned(reader, group, own):
                pinned.append(reader.cpu_time(group).used)
                reading.pinned_cpus |= frozenset(own)
            memory = reader.memory(group) if len(promised.containers) > 1 else None
            if memory is not None:
                reading.containers[place] = dict(memory.mapped)
            ran = self._threads.last_cpus(self._processes.get(identity, ()))
            reading.threads.update(_by_zone(ran, zone_of_cpu))
        known = [used for used in pinned if used is not None]
        if pinned and len(known) == len(pinned):
            reading.pinned_seconds = sum(known)
        reading.confined = bool(nodes) and nodes <= set(promised.zones)
        return reading

    def _is_pinned(self, reader: GroupReader, group: str, own: CpuSet) -> bool:
        """Tell whether a group runs on its own CPUs only, so that its time is time of these."""
        runs_on = reader.cpus(group)
        if runs_on is None:
            self.untold.note(EFFECTIVE_CPUS, "groups do not tell which CPUs are in force")
            return False
        return bool(runs_on) and not runs_on.bits & ~own.bits

    def _counters(
        self,
        readings: Iterable[_PodReading],
        zones: Iterable[ZoneMemory],
        irqs: set[int],
        at: float,
    ) -> _Counters:
        counts = self._interrupts.counts(irqs)
        if irqs and not counts:
            self.untold.note(INTERRUPTS, "/proc/interrupts does not list those of devices")
        listed = list(readings)
        traffic = self._resctrl.groups()
        return _Counters(
            at=at,
            cpus=read_cpu_seconds(self._proc, self.untold),
            pinned={
                one.promised.uid: one.pinned_seconds
                for one in listed
                if one.pinned_seconds is not None
            },
            periods={
                one.promised.uid: (one.cpu_time.throttled_periods, one.cpu_time.periods)
                for one in listed
                if one.cpu_time is not None and one.cpu_time.throttled is not None
            },
            interrupts=counts,
            missed={
                zone.id: zone.allocations["numa_foreign"]
                for zone in zones
                if "numa_foreign" in zone.allocations
            },
            traffic=traffic,
            all_traffic=self._resctrl.by_cache(traffic),
        )

    def _told(
        self,
        reading: _PodReading,
        rates: _Rates,
        devices: Mapping[str, Sequence[Interrupt]],
        container_ids: Mapping[str, list[str]],
        now: datetime,
    ) -> MeasuredPod:
        promised, memory = reading.promised, reading.memory
        total, remote = rates.of_groups(container_ids.get(promised.uid, []))
        pod = MeasuredPod(
            uid=uid_hash(promised.uid),
            zones=promised.zones,
            cpu_zones=promised.cpu_zones,
            memory_mi=_mebibytes(memory.mapped) if memory is not None else {},
            cache_mi=sum(memory.cache.values()) // MIB if memory is not None else 0,
            containers={place: _mebibytes(of) for place, of in sorted(reading.containers.items())},
            threads=dict(sorted(reading.threads.items())),
            confined=reading.confined,
            far_interrupts=tuple(islice(rates.far(promised, devices), MOST_DEVICES)),
            throttled=rates.throttled(promised.uid),
            stolen=rates.stolen(reading.pinned_cpus),
            others=rates.others(promised.uid, reading.pinned_cpus),
            memory_pressure=_rounded(reading.memory_pressure),
            traffic_mi_per_second=total,
            remote_mi_per_second=remote,
        )
        if not pod.is_spilled:
            return pod
        since = self._spilled.get(pod.uid) or format_time(now)
        return msgspec.structs.replace(pod, since=since)


class _Rates:
    """What changed between two readings, as shares of the time and amounts a second."""

    def __init__(
        self,
        before: _Counters | None,
        now: _Counters,
        zone_of_cpu: Mapping[int, int],
        zone_of_cache: Mapping[int, int],
    ) -> None:
        self._before = before
        self._now = now
        self._zone_of_cpu = zone_of_cpu
        self._zone_of_cache = zone_of_cache
        self._seconds = 0.0 if before is None else now.at - before.at

    def _growth(self, old: Mapping[K, float], new: Mapping[K, float], key: K) -> float | None:
        """Return by how much a counter grew; ``None`` if that is not known."""
        if self._seconds <= 0 or key not in old or key not in new:
            return None
        grown = new[key] - old[key]
        return grown if grown >= 0 else None

    def missed(self, zone: int) -> int | None:
        """Return how many pages a second were wanted on *zone* and taken elsewhere."""
        if self._before is None:
            return None
        grown = self._growth(self._before.missed, self._now.missed, zone)
        return None if grown is None else round(grown / self._seconds)

    def throttled(self, uid: str) -> float | None:
        """Return the share of its periods in which a pod was stopped by its quota."""
        if self._before is None or uid not in self._before.periods or uid not in self._now.periods:
            return None
        stopped, periods = (
            new - old
            for old, new in zip(self._before.periods[uid], self._now.periods[uid], strict=True)
        )
        if stopped < 0 or periods < 0:
            return None
        return _rounded(stopped / periods) if periods else 0.0

    def _cpu_share(self, cpus: frozenset[int], of: Callable[[CpuSeconds], float]) -> float | None:
        """Return the share of the time of *cpus* that was what *of* tells."""
        if self._before is None or not cpus or self._seconds <= 0:
            return None
        old, new = self._before.cpus, self._now.cpus
        if not cpus <= old.keys() or not cpus <= new.keys():
            return None
        spent = sum(of(new[cpu]) - of(old[cpu]) for cpu in cpus)
        return max(0.0, spent / (self._seconds * len(cpus)))

    def stolen(self, cpus: frozenset[int]) -> float | None:
        """Return the share of the time of *cpus* that a hypervisor took."""
        return _rounded(self._cpu_share(cpus, lambda one: one.stolen))

    def others(self, uid: str, cpus: frozenset[int]) -> float | None:
        """Return the share of the time of a pod's *cpus* that others ran on them."""
        busy = self._cpu_share(cpus, lambda one: one.busy)
        own = (
            None
            if self._before is None
            else self._growth(self._before.pinned, self._now.pinned, uid)
        )
        if busy is None or own is None:
            return None
        return _rounded(max(0.0, busy - own / (self._seconds * len(cpus))))

    def of_groups(self, container_ids: Iterable[str]) -> tuple[int | None, int | None]:
        """Return MiB a second of all and of remote traffic of containers with a resctrl group."""
        before = self._before
        names = [
            name
            for name in self._now.traffic
            if name and any(name.endswith(identity) for identity in container_ids)
        ]
        if before is None or not names or not before.traffic.keys() >= set(names):
            return None, None
        parts = [self._grown(before.traffic[name], self._now.traffic[name]) for name in names]
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            return None, None
        return sum(total for total, _ in known), sum(remote for _, remote in known)

    def of_zone(self, zone: int) -> tuple[int | None, int | None]:
        """Return MiB a second of all traffic of the caches of *zone*, and of that to elsewhere."""
        caches = {cache for cache, of in self._zone_of_cache.items() if of == zone}
        before, now = self._before, self._now.all_traffic
        if before is None or not caches & now.total.keys():
            return None, None
        return self._grown(before.all_traffic, now, caches) or (None, None)

    def _grown(
        self, old: Traffic, new: Traffic, caches: set[int] | None = None
    ) -> tuple[int, int] | None:
        """Return MiB a second of all and of remote traffic, of some caches or of all."""
        if self._seconds <= 0:
            return None
        of = new.total.keys() if caches is None else caches
        total = sum(new.total[cache] - old.total[cache] for cache in of)
        local = sum(new.local[cache] - old.local[cache] for cache in of)
        if total < 0 or local < 0:
            return None
        scale = MIB * self._seconds
        return round(total / scale), round(max(0, total - local) / scale)

    def far(
        self, promised: PromisedPod, devices: Mapping[str, Sequence[Interrupt]]
    ) -> Iterator[FarInterrupts]:
        """Yield the interrupts of devices that are taken where the pod is not."""
        near = {*promised.zones, *promised.cpu_zones}
        for device, interrupts in devices.items():
            numbers: list[int] = []
            zones: set[int] = set()
            for irq in interrupts:
                at = {self._zone_of_cpu[cpu] for cpu in irq.cpus if cpu in self._zone_of_cpu}
                if at and near and not at & near:
                    numbers.append(irq.number)
                    zones |= at
            if numbers:
                yield FarInterrupts(
                    device=device,
                    count=len(numbers),
                    numbers=tuple(numbers[:_NUMBERS]),
                    zones=tuple(sorted(zones)),
                    per_second=self._came(numbers),
                )

    def _came(self, numbers: Iterable[int]) -> int | None:
        if self._before is None or self._seconds <= 0:
            return None
        old, new = self._before.interrupts, self._now.interrupts
        known = [number for number in numbers if number in old and number in new]
        if not known:
            return None
        came = sum(sum(new[one].values()) - sum(old[one].values()) for one in known)
        return round(max(0, came) / self._seconds)


def _chosen(readings: Iterable[_PodReading]) -> list[_PodReading]:
    """Return the pods to tell: with something for themselves, and the largest of the others."""
    listed = sorted(readings, key=lambda one: (one.promised.key, one.promised.uid))
    promised = [one for one in listed if one.promised.zones]
    others = [one for one in listed if not one.promised.zones and one.memory is not None]
    others.sort(key=lambda one: -sum(one.memory.mapped.values()) if one.memory else 0)
    return [*promised, *others[:MOST_OTHERS]][:MOST_PODS]


def _by_zone(cpus: Mapping[int, int], zone_of_cpu: Mapping[int, int]) -> Counter[int]:
    found: Counter[int] = Counter()
    for cpu, count in cpus.items():
        if cpu in zone_of_cpu:
            found[zone_of_cpu[cpu]] += count
    return found


def _zone(zone: ZoneMemory, readings: Iterable[_PodReading], rates: _Rates) -> MeasuredZone:
    guests = [
        Guest(uid=uid_hash(one.promised.uid), memory_mi=size)
        for one in readings
        if one.memory is not None
        and zone.id not in one.promised.zones
        and (size := one.memory.mapped.get(zone.id, 0) // MIB) >= _GUEST_MI
    ]
    guests.sort(key=lambda guest: (-guest.memory_mi, guest.uid))
    total, remote = rates.of_zone(zone.id)
    return MeasuredZone(
        id=zone.id,
        total_mi=_mi(zone.total),
        free_mi=_mi(zone.free),
        available_mi=_mi(zone.available),
        guests_mi=sum(guest.memory_mi for guest in guests),
        guests=tuple(guests[:_MOST_GUESTS]),
        traffic_mi_per_second=total,
        remote_mi_per_second=remote,
        missed_per_second=rates.missed(zone.id),
    )


def _mi(size: int | None) -> int | None:
    return None if size is None else size // MIB


def _mebibytes(memory: Mapping[int, int]) -> dict[int, int]:
    sizes = {zone: round(size / MIB) for zone, size in sorted(memory.items())}
    return {zone: size for zone, size in sizes.items() if size}


def _rounded(share: float | None) -> float | None:
    return None if share is None else round(min(1.0, max(0.0, share)), 2)
