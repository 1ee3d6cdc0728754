"""Zones: what each NUMA node has, may give to pods, and has left.

For each resource that the kubelet can give out on a NUMA node:

* capacity: from sysfs for CPUs (online), memory and hugepages; for devices, which sysfs does not
  know as such, what is allocatable. The kubelet is trusted over sysfs where it has more to give;
* allocatable: what GetAllocatableResources says;
* available: allocatable less what pods hold, never below 0.

A NUMA node on which nothing is allocatable is published with 0 CPUs, so that readers see it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from numakube.api.nrt import ZONE_TYPE_NODE, Cost, Zone, ZoneResource, zone_name
from numakube.apps.exporter.kubelet_checkpoints import HiddenUse, memory_books
from numakube.apps.exporter.numa_hardware import ZoneHardware
from numakube.apps.exporter.report_options import Accounting, Problem, Trouble
from numakube.node.podresources_client import ContainerResources
from numakube.values.cpuset import MAX_CPU_ID, CpuSet
from numakube.values.quantity import Quantity
from numakube.values.resources import CPU, MEMORY, is_hugepages

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence, Set

    from numakube.apps.exporter.node_scan import NodeInputs
    from numakube.apps.exporter.numa_hardware import Hardware
    from numakube.apps.exporter.report_options import ReportOptions
    from numakube.node.podresources_client import Devices, Memory, PodResources


# Counting CPUs, devices and bytes by NUMA node.
#
# The kubelet tells CPUs by id, devices in entries of ids with NUMA nodes, and memory in blocks with
# NUMA nodes. A `Tally` adds them up; what lies on no NUMA node of the machine is set aside.
#
# A device on several NUMA nodes counts on each: it can serve a container on any of them. A block of
# memory on several NUMA nodes does not: its bytes are somewhere, once. Which part is where only the
# kubelet's books say, so such blocks are kept apart in `Tally.spanning`.


class Resources(Protocol):
    """What a container holds besides CPUs, or what the node has to give."""

    @property
    def devices(self) -> Iterable[Devices]:
        """Devices by resource and NUMA node."""
        ...

    @property
    def memory(self) -> Iterable[Memory]:
        """Blocks of memory."""
        ...


@dataclass(slots=True)
class Tally:
    """Amounts by NUMA node and resource: CPUs and devices as counts, memory in bytes.

    Attributes:
        split: keep blocks on several NUMA nodes apart instead of counting them on each.
        usable: the only devices that count, by resource and id; ``None`` if all do.
        unknown_cpus: ids that are on no NUMA node of the machine.
    """

    hardware: Hardware
    split: bool
    usable: Set[tuple[str, str]] | None = None
    amounts: dict[int, dict[str, int]] = field(default_factory=dict)
    spanning: list[Memory] = field(default_factory=list)
    unknown_cpus: set[int] = field(default_factory=set)

    def of(self, numa: int) -> dict[str, int]:
        """Return the amounts on one NUMA node."""
        return self.amounts.get(numa, {})

    def add_cpus(self, cpu_ids: Iterable[int]) -> None:
        """Count CPUs on the NUMA nodes that own them; an id that is repeated counts repeatedly."""
        for cpu in cpu_ids:
            numa = self.hardware.numa_of(cpu)
            if numa is None:
                self.unknown_cpus.add(cpu)
            else:
                self.book(numa, CPU, 1)

    def add_rest(self, resources: Resources) -> None:
        """Count all devices and memory of *resources*."""
        for entry in resources.devices:
            self.add_devices(entry)
        for block in resources.memory:
            self.add_memory(block)

    def add_devices(self, entry: Devices) -> None:
        """Count the devices of *entry* on each of its NUMA nodes; none of them is on -1."""
        count = sum(
            self.usable is None or (entry.resource, device) in self.usable for device in entry.ids
        )
        for numa in entry.numa_nodes:
            if numa >= 0:
                self.book(numa, entry.resource, count)

    def add_memory(self, block: Memory) -> None:
        """Count a block on its NUMA node, or on each, or keep it apart."""
        if not block.size_bytes:
            return
        if self.split and len(set(block.numa_nodes)) > 1:
            self.spanning.append(block)
            return
        for numa in block.numa_nodes:
            if numa >= 0:
                self.book(numa, block.type, block.size_bytes)

    def book(self, numa: int, resource: str, amount: int) -> None:
        """Add *amount*, which may be 0: the resource is then known on the NUMA node."""
        amounts = self.amounts.setdefault(numa, {})
        amounts[resource] = amounts.get(resource, 0) + amount


def fill(blocks: Iterable[Memory], room: dict[int, dict[str, int]]) -> list[tuple[Memory, int]]:
    """Take *blocks* out of *room*, each from its NUMA nodes in order, as the Memory Manager does.

    Returns:
        the blocks that did not fit, with the bytes that found no room.
    """
    left_over = []
    for block in blocks:
        rest = block.size_bytes
        for numa in block.numa_nodes:
            free = room.get(numa, {})
            part = min(rest, max(0, free.get(block.type, 0)))
            if part:
                free[block.type] -= part
                rest -= part
        if rest:
            left_over.append((block, rest))
    return left_over


Room: TypeAlias = dict[int, dict[str, int]]
"""Amounts by NUMA node and resource."""

EVERY_NODE: Final = "*"
# What a Go int64 holds: a kubelet whose reservations exceed its memory reports more.
_MAX_AMOUNT: Final = (1 << 63) - 1
_THOUSAND: Final = 1000
# The page sizes whose pools RTE looks at.
_RTE_HUGEPAGES: Final = ("hugepages-2Mi", "hugepages-1Gi")


@dataclass(frozen=True, slots=True)
class AccountedZones:
    """The zones, and what of the kubelet's answers found no place in them."""

    zones: tuple[Zone, ...]
    problems: tuple[Problem, ...]


def zones_of(
    inputs: NodeInputs, pods: Sequence[PodResources], options: ReportOptions
) -> AccountedZones:
    """Return the zones of a node on which *pods* run, those of other namespaces included."""
    counted = [pod for pod in pods if options.watch_namespace in ("", pod.namespace)]
    books = _Books(inputs, counted, options)
    excluded = {
        name
        for node in (EVERY_NODE, options.node_name)
        for name in options.resource_exclude.get(node, ())
    }
    ids = [zone.id for zone in books.zones]
    zones = tuple(
        Zone(
            name=zone_name(zone.id),
            type=ZONE_TYPE_NODE,
            costs=_costs(zone, ids),
            resources=tuple(books.resources(zone, excluded)),
        )
        for zone in books.zones
    )
    return AccountedZones(zones, tuple(books.problems()))


class _Books:
    """What is allocatable and used, by NUMA node."""

    def __init__(
        self, inputs: NodeInputs, pods: Sequence[PodResources], options: ReportOptions
    ) -> None:
        self.hardware = inputs.hardware
        self.as_rte = options.accounting is Accounting.RTE
        self.allocatable = self._allocatable(inputs)
        self.zones = self.hardware.zones or self._zones_of_kubelet()
        self.used = self._used(inputs, pods)
        self.available = self._available(inputs, pods)

    def _allocatable(self, inputs: NodeInputs) -> Tally:
        answer = inputs.allocatable
        tally = Tally(self.hardware, split=not self.as_rte)
        tally.add_cpus(answer.cpu_ids if self.as_rte else set(answer.cpu_ids))
        tally.add_rest(answer)
        if tally.spanning:
            self._place_spanning(tally)
        return tally

    def _place_spanning(self, tally: Tally) -> None:
        """Book allocatable blocks on several NUMA nodes where the hardware has the room.

        No kubelet reports such a block, so this only has to be sane: every byte once.
        """
        room = {
            zone.id: {
                kind: _capacity(zone, kind, as_rte=False) - tally.of(zone.id).get(kind, 0)
                for kind in {block.type for block in tally.spanning}
            }
            for zone in self.hardware.zones
        }
        before = {numa: dict(amounts) for numa, amounts in room.items()}
        rests = fill(tally.spanning, room)
        for numa, amounts in room.items():
            for kind, left in amounts.items():
                if before[numa][kind] != left:
                    tally.book(numa, kind, before[numa][kind] - left)
        for block, rest in rests:
            known = [numa for numa in block.numa_nodes if numa in room]
            if known:
                tally.book(known[-1], block.type, rest)

    def _zones_of_kubelet(self) -> tuple[ZoneHardware, ...]:
        """Return the NUMA nodes that the kubelet talks of, if sysfs tells of none."""
        return tuple(ZoneHardware(id=numa) for numa in sorted(self.allocatable.amounts))

    def _used(self, inputs: NodeInputs, pods: Sequence[PodResources]) -> Tally:
        tally = Tally(self.hardware, split=not self.as_rte, usable=self._usable(inputs))
        hidden = HiddenUse(inputs.checkpoints)
        cpus: list[int] = []
        for pod in pods:
            for part in pod.containers if self.as_rte else _parts(pod):
                cpus += set(part.cpu_ids)
                tally.add_rest(part)
            uid = inputs.uids.get((pod.namespace, pod.name))
            if uid is not None and not self.as_rte:
                rest = hidden.of(pod, uid)
                cpus += rest.cpu_ids
                tally.add_rest(rest)
        tally.add_cpus(self._distinct(cpus, inputs))
        return tally

    def _usable(self, inputs: NodeInputs) -> set[tuple[str, str]] | None:
        """Return the devices to count if pods hold them, by resource and id.

        A broken device is not allocatable, so that a pod which holds one leaves the others as they
        are. Without the checkpoint of devices an unknown one is rather an error in the list.
        """
        if self.as_rte or inputs.checkpoints.devices is None:
            return None
        entries = inputs.allocatable.devices
        return {(entry.resource, device) for entry in entries for device in entry.ids}

    def _distinct(self, cpus: list[int], inputs: NodeInputs) -> Iterable[int]:
        """Return those of *cpus* to count.

        On machines with unlike sockets or cores kubelets do give a CPU to two containers, or give
        away a reserved one. Without the state file that shows it, that is an error in the list, and
        to count all of it errs on the safe side.
        """
        if self.as_rte or inputs.checkpoints.cpu is None:
            return cpus
        unknown = {cpu for cpu in cpus if self.hardware.numa_of(cpu) is None}
        return set(cpus) & set(inputs.allocatable.cpu_ids) | unknown

    def _available(self, inputs: NodeInputs, pods: Sequence[PodResources]) -> Room:
        room = {
            numa: {
                name: max(0, amount - self.used.of(numa).get(name, 0))
                for name, amount in amounts.items()
            }
            for numa, amounts in self.allocatable.amounts.items()
        }
        if self.used.spanning:
            fill(self.used.spanning, room)
            self._take_from_checkpoint(inputs, pods, room)
        return room

    def _take_from_checkpoint(
        self, inputs: NodeInputs, pods: Sequence[PodResources], room: Room
    ) -> None:
        """Take the kubelet's own figures for free memory, if they are of the same moment."""
        uids = [inputs.uids.get((pod.namespace, pod.name)) for pod in pods]
        known = {uid: pod for uid, pod in zip(uids, pods, strict=True) if uid is not None}
        if len(known) < len(pods):
            return
        books = memory_books(inputs.checkpoints, known) or {}
        for numa, memory in books.items():
            for kind, table in memory.tables.items():
                if room.get(numa, {}).get(kind) is None:
                    continue
                if table.allocatable == self.allocatable.of(numa)[kind]:
                    room[numa][kind] = table.free

    def resources(self, zone: ZoneHardware, excluded: set[str]) -> Iterator[ZoneResource]:
        """Yield the resources of one zone in order of their names."""
        allocatable = self.allocatable.of(zone.id) or {CPU: 0}
        for name in sorted(allocatable.keys() - excluded):
            amount = allocatable[name]
            yield ZoneResource(
                name=name,
                capacity=_text(max(amount, _capacity(zone, name, as_rte=self.as_rte))),
                allocatable=_text(amount),
                available=_text(self.available.get(zone.id, {}).get(name, 0)),
            )

    def problems(self) -> Iterator[Problem]:
        """Yield what contradicts itself."""
        if not self.hardware.zones:
            yield Problem(
                Trouble.NO_ZONES,
                "sysfs tells of no NUMA node: zones are those the kubelet has memory or devices on",
            )
        yield from _unknown(self.allocatable, self.used, self.zones)
        for zone in self.zones:
            row = zone.distances
            if row is not None and len(row) != len(self.zones):
                yield Problem(
                    Trouble.NO_DISTANCES,
                    f"{zone_name(zone.id)}: the kernel lists {len(row)} distances for "
                    f"{len(self.zones)} NUMA nodes; taken in order as far as they go",
                )
            yield from self._excesses(zone)

    def _excesses(self, zone: ZoneHardware) -> Iterator[Problem]:
        where = zone_name(zone.id)
        used = self.used.of(zone.id)
        for name, amount in sorted(self.allocatable.of(zone.id).items()):
            has = _capacity(zone, name, as_rte=False)
            if 0 < has < amount:
                yield Problem(
                    Trouble.OVER_CAPACITY,
                    f"{where}: the kubelet gives out {amount} of {name}, sysfs has {has}: "
                    "the kubelet is trusted",
                )
            if used.get(name, 0) > amount:
                yield Problem(
                    Trouble.OVER_ALLOCATABLE,
                    f"{where}: pods hold {used[name]} of {name}, allocatable are {amount}: "
                    "published as none available",
                )


def _parts(pod: PodResources) -> Iterable[ContainerResources]:
    """Return what to count of *pod*: its containers, unless it holds CPUs or memory as a whole.

    Those of its containers are then parts of the pod's.
    """
    if not pod.cpu_ids and not pod.memory:
        return pod.containers
    cpus = {*pod.cpu_ids, *(cpu for container in pod.containers for cpu in container.cpu_ids)}
    return (
        ContainerResources(
            name="",
            cpu_ids=tuple(cpus),
            memory=pod.memory
            or tuple(block for container in pod.containers for block in container.memory),
            devices=tuple(entry for container in pod.containers for entry in container.devices),
        ),
    )


def _capacity(zone: ZoneHardware, name: str, *, as_rte: bool) -> int:
    """Return what the hardware has of a resource; 0 if it cannot tell."""
    if name == CPU:
        return len(zone.cpus)
    if name == MEMORY:
        return zone.memory_bytes or 0
    if is_hugepages(name) and (not as_rte or name in _RTE_HUGEPAGES):
        return (zone.hugepages or {}).get(name, 0)
    return 0


def _costs(zone: ZoneHardware, ids: Sequence[int]) -> tuple[Cost, ...]:
    """Return the distances to all zones, which the kernel lists in order of their ids."""
    row = zone.distances or ()
    return tuple(
        Cost(name=zone_name(numa), value=distance) for numa, distance in zip(ids, row, strict=False)
    )


def _unknown(allocatable: Tally, used: Tally, zones: Sequence[ZoneHardware]) -> Iterator[Problem]:
    ids = {zone.id for zone in zones}
    for what, tally in (("is to give out", allocatable), ("has given out", used)):
        if tally.unknown_cpus:
            cpus = _cpu_list(tally.unknown_cpus)
            yield Problem(
                Trouble.UNKNOWN_CPU,
                f"the kubelet {what} CPUs that sysfs does not show online: {cpus}; not counted",
            )
        for numa in sorted(tally.amounts.keys() - ids):
            names = ", ".join(sorted(tally.of(numa)))
            yield Problem(
                Trouble.UNKNOWN_ZONE,
                f"the kubelet {what} {names} on NUMA node {numa}, which is not in sysfs; "
                "not published",
            )


def _cpu_list(cpus: set[int]) -> str:
    """Return the ids as the kernel writes them; those that cannot be ids as they are."""
    usual = str(CpuSet.of(cpu for cpu in cpus if 0 <= cpu <= MAX_CPU_ID))
    odd = [str(cpu) for cpu in sorted(cpus) if not 0 <= cpu <= MAX_CPU_ID]
    return ",".join(filter(None, (usual, *odd)))


def _text(amount: int) -> str:
    amount = min(amount, _MAX_AMOUNT)
    # Thousands have a suffix; other numbers are as they are, and there are hundreds of them.
    return str(amount) if amount % _THOUSAND else str(Quantity.of_count(amount))
