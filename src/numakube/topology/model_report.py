"""From the kubelet model of a node to its report and zones, and from a report to the model.

`node_of` gives a model that answers every further pod as the reported one would: the same verdict,
the same CPUs and memory, the devices at the same positions. Its pods are known by `uid_hash`.

What a report leaves out has no say in that: container names, the hints of running containers and
device ids. Of plugins' own preferences among devices (GetPreferredAllocation), that of ours is
there (`numakube.kubelet.preferred_allocation`) and those of others are lost.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, repeat
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from numakube.api.meta import ObjectMeta
from numakube.api.nrt import (
    ZONE_TYPE_NODE,
    Attribute,
    Cost,
    NodeResourceTopology,
    Zone,
    ZoneResource,
    zone_name,
)
from numakube.errors import ConfigError
from numakube.kubelet.kubelet_model import KubeletNode
from numakube.kubelet.machine import Device
from numakube.kubelet.memory_hints import charge
from numakube.kubelet.preferred_allocation import Chooser, chooser_of
from numakube.topology import nrt_names
from numakube.topology.exact_report import (
    DeviceChoice,
    DeviceTable,
    ExactReport,
    Holding,
    MemoryCell,
    choice_of,
    uid_hash,
)
from numakube.topology.numa_zones import Unusable
from numakube.topology.report_codec import with_exact
from numakube.topology.report_notation import as_the_kubelet_sees_it
from numakube.values.cpuset import CpuSet, union
from numakube.values.resources import CPU, MILLI_PER_CPU, quantity_of
from numakube.values.safe_text import quoted, reason_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numakube.kubelet.admission_outcome import MemoryBlock
    from numakube.kubelet.machine import Machine, NumaNode
    from numakube.kubelet.manager_settings import KubeletSettings
    from numakube.kubelet.memory_hints import MemoryBooks
    from numakube.kubelet.memory_manager import MemoryManager
    from numakube.topology.numa_zones import ZoneView
    from numakube.values.resources import Amounts


# What the zones of a node's NRT should say, told by the kubelet model itself.
#
# This is the definition, not what an exporter does: an exporter sees PodResources answers and sysfs
# and has to arrive at the same numbers.
#
# * ``cpu``: only with the static CPU policy, since no other has CPUs to give out; allocatable
#   without reserved ones, available without those of any pod, finished init containers included;
# * memory and hugepages: only with the Static memory policy, and only types of which pods may have
#   any; available is what the Memory Manager's books have free;
# * devices: healthy ones with a NUMA node; one on several nodes counts in the zone of each.
#
# A zone of which nothing can be given out has its CPUs as capacity.


@dataclass(frozen=True, slots=True)
class ZoneAmounts:
    """Amounts of one NUMA node in base units."""

    id: int
    capacity: Amounts
    allocatable: Amounts
    available: Amounts


class _ReportRow(NamedTuple):
    name: str
    capacity: int
    allocatable: int
    available: int


_Devices: TypeAlias = "Mapping[str, tuple[Mapping[int, int], Mapping[int, int]]]"
"""By resource name, how many devices are healthy and how many are free near each NUMA node."""


def settled(node: KubeletNode) -> KubeletNode:
    """Return *node*, or a copy of it if pods that are gone still hold something."""
    managers = (node.devices, node.cpus, node.memory)
    holders = {uid for manager in managers if manager is not None for uid in manager.pods()}
    if holders <= set(node.pods):
        return node
    copy = node.clone()
    copy.collect_garbage()
    return copy


def zones_of(node: KubeletNode) -> tuple[ZoneAmounts, ...]:
    """Return the zones of *node* by NUMA id, as the next admission finds them."""
    node = settled(node)
    devices = {
        name: (node.devices.healthy_by_node(name), node.devices.free_by_node(name))
        for name in node.devices.resources()
    }
    return tuple(
        _zone(node, numa, devices) for numa in sorted(node.machine.nodes, key=lambda one: one.id)
    )


def _zone(node: KubeletNode, numa: NumaNode, devices: _Devices) -> ZoneAmounts:
    rows = [*_cpus(node, numa), *_memory(node, numa), *_near(devices, numa)]
    if not rows:
        rows = [
            _ReportRow(CPU, MILLI_PER_CPU * sum(len(core.threads) for core in numa.cores), 0, 0)
        ]
    return ZoneAmounts(
        id=numa.id,
        capacity={row.name: row.capacity for row in rows},
        allocatable={row.name: row.allocatable for row in rows},
        available={row.name: row.available for row in rows},
    )


def _cpus(node: KubeletNode, numa: NumaNode) -> Iterator[_ReportRow]:
    manager = node.cpus
    if manager is None:
        return
    cpus = manager.topology.numa.get(numa.id, 0)
    parts = (cpus, cpus & manager.allocatable, cpus & manager.available)
    capacity, allocatable, available = (MILLI_PER_CPU * part.bit_count() for part in parts)
    if allocatable:
        yield _ReportRow(CPU, capacity, allocatable, available)


def _memory(node: KubeletNode, numa: NumaNode) -> Iterator[_ReportRow]:
    if node.memory is None:
        return
    for kind, table in node.memory.books[numa.id].tables.items():
        if table.allocatable:
            capacity = max(table.total, table.allocatable)
            yield _ReportRow(kind, capacity, table.allocatable, table.free)


def _near(devices: _Devices, numa: NumaNode) -> Iterator[_ReportRow]:
    for name, (healthy, free) in devices.items():
        if count := healthy.get(numa.id, 0):
            yield _ReportRow(name, count, count, free.get(numa.id, 0))


def moved(zone: ZoneView, before: Amounts, after: Amounts) -> Amounts:
    """Return what *zone* has free if it changes as the model did, from *before* to *after*.

    Only the difference is taken from the model, because producers count differently; what they
    leave out is not made up.
    """
    if before == after:
        return zone.available
    return {
        name: min(zone.allocatable[name], max(0, amount + after.get(name, 0) - before.get(name, 0)))
        for name, amount in zone.available.items()
    }


_WHOLE_POD: Final = "*"
"""The container to which everything that a pod holds is booked in a rebuilt model."""


def report_of(node: KubeletNode) -> ExactReport:
    """Return the state of *node* as the next admission finds it: what is gone is released."""
    node = settled(node)
    memory, devices = node.memory, node.devices
    positions = _positions(node)
    major, minor = node.behaviour.version
    return ExactReport(
        machine=as_the_kubelet_sees_it(node.machine),
        settings=node.settings,
        kubernetes=f"{major}.{minor}",
        shared_cpus=node.shared_cpus if node.cpus else None,
        memory=_cells(memory) if memory else {},
        devices={
            name: _table(devices.devices_of(name), _choice(node, name, positions[name]))
            for name in positions
        },
        pods={uid_hash(uid): _holding(node, uid, positions) for uid in _holders(node)},
        tree=node.machine.tree,
    )


def holding_of(node: KubeletNode, uid: str) -> Holding:
    """Return what a pod holds in *node*."""
    return _holding(node, uid, _positions(node))


def _positions(node: KubeletNode) -> dict[str, dict[str, int]]:
    """Return each device's position among those of its resource, by id."""
    return {
        name: {one.id: index for index, one in enumerate(node.devices.devices_of(name))}
        for name in sorted(node.devices.resources())
    }


def _holders(node: KubeletNode) -> Iterable[str]:
    """Return every pod in order of admission.

    The order in which the Memory Manager came to know the pods goes first: in it, pods that end at
    the same time give back their memory.
    """
    managers = (node.memory, node.cpus, node.devices)
    known = (uid for manager in managers if manager is not None for uid in manager.pods())
    return dict.fromkeys((*known, *node.pods))


def _holding(node: KubeletNode, uid: str, positions: dict[str, dict[str, int]]) -> Holding:
    cpus = 0
    if node.cpus is not None:
        parts = node.cpus.assignments.get(uid, {}).values()
        cpus = union(parts) | node.cpus.bubbles.get(uid, 0)
    held: dict[str, set[int]] = {}
    for container in node.devices.assignments.get(uid, {}).values():
        for name, ids in container.items():
            known = positions.get(name, {})
            # A device that its plugin does not list any more is nothing to give out.
            held.setdefault(name, set()).update(known[one] for one in ids if one in known)
    return Holding(
        cpus=CpuSet(cpus),
        memory=_blocks(node.memory, uid) if node.memory else (),
        devices={name: tuple(sorted(places)) for name, places in sorted(held.items()) if places},
    )


def _blocks(manager: MemoryManager, uid: str) -> tuple[MemoryBlock, ...]:
    """Return the blocks that the end of the pod gives back, in that order."""
    whole = manager.bubbles.get(uid)
    if whole is not None:
        return whole
    return tuple(chain.from_iterable(manager.assignments.get(uid, {}).values()))


def _cells(manager: MemoryManager) -> dict[int, MemoryCell]:
    """Return the books of the NUMA nodes in use."""
    cells = {}
    for number, books in manager.books.items():
        reserved = {kind: table.reserved for kind, table in books.tables.items() if table.reserved}
        if books.assignments or reserved or books.cells != (number,):
            cells[number] = MemoryCell(books.cells, books.assignments, reserved)
    return cells


def _table(devices: tuple[Device, ...], choice: DeviceChoice | None) -> DeviceTable:
    unhealthy = (index for index, one in enumerate(devices) if not one.healthy)
    functions = tuple(device.pci for device in devices)
    return DeviceTable(
        tuple(device.numa_nodes for device in devices),
        tuple(unhealthy),
        choice,
        functions if any(functions) else (),
    )


def _choice(node: KubeletNode, name: str, positions: Mapping[str, int]) -> DeviceChoice | None:
    preferred = node.devices.preferred(name)
    if not isinstance(preferred, Chooser):
        return None
    return choice_of(preferred.policy, preferred.groups(), positions, near=preferred.near)


def node_of(report: ExactReport) -> KubeletNode | Unusable:
    """Return a kubelet model in the state of *report*; the caller may change it freely."""
    try:
        return _rebuilt(report)
    except ConfigError as error:
        return Unusable(f"the kubelet model does not start: {quoted(str(error))}")
    except Exception as error:
        # A report that passed every check and is impossible all the same.
        return Unusable(f"the kubelet model cannot be built: {reason_of(error)}")


def frame_of(report: ExactReport) -> KubeletNode | None:
    """Return a model without pods and devices, not to be changed; ``None`` if it does not start."""
    try:
        return _started(_Frame(report.machine, report.settings, report.kubernetes))
    except Exception:
        # `node_of` says why.
        return None


def _rebuilt(report: ExactReport) -> KubeletNode:
    node = _started(_Frame(report.machine, report.settings, report.kubernetes)).clone()
    if report.tree:
        node.machine = replace(node.machine, tree=report.tree)
        node.devices.tree = report.tree
    for name, table in report.devices.items():
        node.register_devices(name, _devices(table), preferred=_preferred(table))
    if node.cpus is not None and report.shared_cpus is not None:
        node.cpus.shared = report.shared_cpus.mask
    if node.memory is not None:
        _restore_books(node.memory, report)
    for uid, holding in report.pods.items():
        _restore_pod(node, uid, holding, report)
    return node


def remove_pod(node: KubeletNode, uid: str) -> None:
    """Remove a pod from a rebuilt model, whether it was reported or admitted since."""
    node.remove(uid)
    node.remove(uid_hash(uid))


def place(node: KubeletNode, uid: str, holding: Holding, *, crowded: bool = False) -> bool:
    """Let a pod have *holding* in a rebuilt model, if all of that is free; tell whether it was.

    If it is *crowded*, memory need not be free: others that hold it may be gone.
    """
    if not _is_free(node, holding, crowded=crowded):
        return False
    node.adopt(uid)
    if node.cpus is not None and holding.cpus:
        node.cpus.shared &= ~holding.cpus.mask
        node.cpus.assignments[uid] = {_WHOLE_POD: holding.cpus.mask}
    if node.memory is not None and holding.memory:
        for block in holding.memory:
            charge(node.memory.books, block.numa_nodes, block.type, block.size_bytes)
        node.memory.assignments[uid] = {_WHOLE_POD: holding.memory}
    for name, positions in holding.devices.items():
        known = node.devices.devices_of(name)
        held = {known[position].id: known[position].numa_nodes for position in positions}
        node.devices.restore(uid, _WHOLE_POD, name, held)
    return True


def _is_free(node: KubeletNode, holding: Holding, *, crowded: bool) -> bool:
    if holding.cpus and (node.cpus is None or holding.cpus.mask & ~node.cpus.shared):
        return False
    books = {} if node.memory is None else node.memory.books
    if any(other not in books for block in holding.memory for other in block.numa_nodes):
        return False
    if not crowded and not _has_room(books, holding.memory):
        return False
    for name, positions in holding.devices.items():
        if name not in node.devices.resources():
            return False
        known, free = node.devices.devices_of(name), node.devices.available(name)
        if any(position >= len(known) or known[position].id not in free for position in positions):
            return False
    return True


def _has_room(books: MemoryBooks, blocks: Iterable[MemoryBlock]) -> bool:
    """Tell whether *blocks* fit, each into a group of nodes that others do not use otherwise."""
    wanted: Counter[tuple[tuple[int, ...], str]] = Counter()
    for block in blocks:
        wanted[block.numa_nodes, block.type] += block.size_bytes
    return all(
        all(books[node].cells == nodes or not books[node].assignments for node in nodes)
        and sum(books[node].free(kind) for node in nodes) >= size
        for (nodes, kind), size in wanted.items()
    )


def _restore_books(manager: MemoryManager, report: ExactReport) -> None:
    for number, cell in report.memory.items():
        books = manager.books[number]
        books.cells, books.assignments = cell.group, cell.assignments
        for kind, size in cell.reserved.items():
            table = books.tables[kind]
            table.reserved, table.free = size, table.allocatable - size


def _restore_pod(node: KubeletNode, uid: str, holding: Holding, report: ExactReport) -> None:
    node.adopt(uid)
    if node.cpus is not None and holding.cpus:
        node.cpus.assignments[uid] = {_WHOLE_POD: holding.cpus.mask}
    if node.memory is not None and holding.memory:
        node.memory.assignments[uid] = {_WHOLE_POD: holding.memory}
    for name, positions in holding.devices.items():
        places = report.devices[name].numa_nodes
        held = {_device_id(position): places[position] for position in positions}
        node.devices.restore(uid, _WHOLE_POD, name, held)


@lru_cache(maxsize=1024)
def _devices(table: DeviceTable) -> tuple[Device, ...]:
    unhealthy = set(table.unhealthy)
    return tuple(
        Device(_device_id(position), nodes, position not in unhealthy, function)
        for position, (nodes, function) in enumerate(
            zip(table.numa_nodes, table.functions or repeat(""), strict=False)
        )
    )


@lru_cache(maxsize=4096)
def _preferred(table: DeviceTable) -> Chooser | None:
    if table.choice is None:
        return None
    groups = [[_device_id(one) for one in group] for group in table.choice.groups]
    numa_nodes = {_device_id(one): nodes for one, nodes in enumerate(table.numa_nodes)}
    return chooser_of(table.choice.policy, groups, numa_nodes, near=table.choice.near)


def _device_id(position: int) -> str:
    """Return an id that sorts as the position does."""
    return f"{position:05d}"


@dataclass(slots=True, eq=False)
class _Frame:
    """What a model starts from, compared by identity: the codec has one object for equal texts."""

    machine: Machine
    settings: KubeletSettings
    kubernetes: str

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _Frame)
            and self.machine is other.machine
            and self.settings is other.settings
            and self.kubernetes == other.kubernetes
        )

    def __hash__(self) -> int:
        return hash((id(self.machine), id(self.settings), self.kubernetes))


@lru_cache(maxsize=1024)
def _started(frame: _Frame) -> KubeletNode:
    return KubeletNode(frame.machine, frame.settings, devices={}, kubernetes=frame.kubernetes)


# The NRT that describes a model's state: what a perfect exporter would publish of it.
#
# For tests, benchmarks and simulations, where the model is the node.


def nrt_of(
    name: str,
    node: KubeletNode,
    *,
    exact: bool = True,
    attributes: Mapping[str, str] | None = None,
) -> NodeResourceTopology:
    """Return the report of *node*, called *name*.

    Args:
        name: the name of the node.
        node: its state.
        exact: with exact data.
        attributes: attributes beyond policy and scope, or in place of those.
    """
    told = {**attributes_of(node), **(attributes or {})}
    report = NodeResourceTopology(
        metadata=ObjectMeta(name=name),
        attributes=tuple(Attribute(name=one, value=value) for one, value in told.items()),
        zones=model_zones(node),
    )
    return with_exact(report, report_of(node)) if exact else report


def attributes_of(node: KubeletNode) -> dict[str, str]:
    """Return what the report says of the kubelet."""
    settings = node.settings
    return {
        nrt_names.TOPOLOGY_POLICY: settings.topology_policy,
        nrt_names.TOPOLOGY_SCOPE: settings.topology_scope,
        nrt_names.CPU_POLICY: settings.cpu_policy,
        nrt_names.MEMORY_POLICY: settings.memory_policy,
    }


def model_zones(node: KubeletNode) -> tuple[Zone, ...]:
    """Return the zones of the report."""
    ids = [numa_node.id for numa_node in node.machine.nodes]
    distances = {
        numa_node.id: dict(zip(ids, numa_node.distances, strict=False))
        for numa_node in node.machine.nodes
    }
    return tuple(_nrt_zone(zone, distances[zone.id]) for zone in zones_of(node))


def _nrt_zone(zone: ZoneAmounts, distances: Mapping[int, int]) -> Zone:
    costs = tuple(Cost(name=zone_name(to), value=cost) for to, cost in distances.items())
    resources = tuple(
        ZoneResource(
            name=name,
            capacity=_text(name, zone.capacity[name]),
            allocatable=_text(name, zone.allocatable[name]),
            available=_text(name, zone.available[name]),
        )
        for name in zone.available
    )
    return Zone(name=zone_name(zone.id), type=ZONE_TYPE_NODE, costs=costs, resources=resources)


@lru_cache(maxsize=16384)
def _text(name: str, amount: int) -> str:
    return str(quantity_of(name, amount))
