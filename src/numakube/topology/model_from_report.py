"""From the kubelet model of a node to a report, and from a report to the model.

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
from typing import TYPE_CHECKING, Final

from numakube.errors import ConfigError
from numakube.kubelet.kubelet_model import KubeletNode
from numakube.kubelet.machine import Device
from numakube.kubelet.memory.memory_tables import charge
from numakube.kubelet.preferred_allocation import Chooser, chooser_of
from numakube.topology.exact_report import (
    DeviceChoice,
    DeviceTable,
    ExactReport,
    Holding,
    MemoryCell,
    choice_of,
    uid_hash,
)
from numakube.topology.machine_text import as_the_kubelet_sees_it
from numakube.topology.numa_zones import Unusable
from numakube.topology.zone_amounts import settled
from numakube.values.cpuset import CpuSet, union
from numakube.values.safe_text import quoted, reason_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numakube.kubelet.admission_outcome import MemoryBlock
    from numakube.kubelet.machine import Machine
    from numakube.kubelet.manager_settings import KubeletSettings
    from numakube.kubelet.memory.memory_manager import MemoryManager
    from numakube.kubelet.memory.memory_tables import MemoryBooks

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
    functions = tuple(one.pci for one in devices)
    return DeviceTable(
        tuple(one.numa_nodes for one in devices),
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
    if any(one not in books for block in holding.memory for one in block.numa_nodes):
        return False
    if not crowded and not _has_room(books, holding.memory):
        return False
    for name, positions in holding.devices.items():
        if name not in node.devices.resources():
            return False
        known, free = node.devices.devices_of(name), node.devices.available(name)
        if any(one >= len(known) or known[one].id not in free for one in positions):
            return False
    return True


def _has_room(books: MemoryBooks, blocks: Iterable[MemoryBlock]) -> bool:
    """Tell whether *blocks* fit, each into a group of nodes that others do not use otherwise."""
    wanted: Counter[tuple[tuple[int, ...], str]] = Counter()
    for block in blocks:
        wanted[block.numa_nodes, block.type] += block.size_bytes
    return all(
        all(books[one].cells == nodes or not books[one].assignments for one in nodes)
        and sum(books[one].free(kind) for one in nodes) >= size
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
