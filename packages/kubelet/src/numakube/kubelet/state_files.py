"""Save a node's state to the kubelet's own checkpoint files, and start a node from them.

The files are those of the kubelet version that is modelled. As there, a file that does not match
the configuration or the machine keeps the kubelet from starting, with the same words, except for
the device file, which it would only complain about.

After `restore` the node waits: nothing is released until `KubeletNode.all_pods_known` says that
every pod which still exists has been admitted again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from numakube.api.checkpoints import cpu_manager_state as cpu
from numakube.api.checkpoints import device_checkpoint as devices
from numakube.api.checkpoints import memory_manager_state as memory
from numakube.errors import KubeletStartError
from numakube.kubelet.admission_outcome import MemoryBlock
from numakube.kubelet.memory_hints import MemoryAmounts, MemoryBooks, NodeMemory, charge
from numakube.values.cpuset import CpuSet, union

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numakube.kubelet.cpu_manager import CpuManager
    from numakube.kubelet.kubelet_model import KubeletNode
    from numakube.kubelet.memory_manager import MemoryManager


@dataclass(frozen=True, slots=True)
class StateFiles:
    """The contents of the files; ``None`` if a file does not exist.

    Attributes:
        allocated: the pods that were admitted, which the model itself neither writes nor needs.
    """

    cpu: bytes | None = None
    memory: bytes | None = None
    devices: bytes | None = None
    allocated: bytes | None = None


def save(node: KubeletNode) -> StateFiles:
    """Return the files that the kubelet would have written by now."""
    minor = node.behaviour.version[1]
    bubbles = node.manages_pod_level_resources
    return StateFiles(
        cpu=cpu.write_cpu_manager_state(
            _cpu_state(node),
            version=cpu.cpu_checkpoint_version(minor, pod_level_managers=bubbles),
        ),
        memory=memory.write_memory_manager_state(
            _memory_state(node),
            version=memory.memory_checkpoint_version(minor, pod_level_managers=bubbles),
        ),
        devices=devices.write_device_manager_state(_device_state(node)),
    )


def states_of(
    node: KubeletNode,
) -> tuple[cpu.CpuManagerState, memory.MemoryManagerState, devices.DeviceManagerState]:
    """Return what the files would say, for readers within the same process."""
    return _cpu_state(node), _memory_state(node), _device_state(node)


def restore(node: KubeletNode, files: StateFiles) -> None:
    """Load *files* into a node that has just been started."""
    if files.cpu is not None:
        _restore_cpus(node, files.cpu)
    if files.memory is not None:
        _restore_memory(node, files.memory)
    if files.devices is not None:
        _restore_devices(node, files.devices)
    node.await_pods()


def _cpu_state(node: KubeletNode) -> cpu.CpuManagerState:
    manager = node.cpus
    if manager is None:
        return cpu.CpuManagerState(policy="none", default_cpus=CpuSet())
    entries = {
        uid: {name: CpuSet(bits) for name, bits in sets.items()}
        for uid, sets in manager.assignments.items()
    }
    resizes = node.settings.gate("InPlacePodVerticalScalingExclusiveCPUs", node.behaviour.version)
    return cpu.CpuManagerState(
        policy="static",
        default_cpus=CpuSet(manager.shared),
        entries=entries,
        # What containers had at admission: no kubelet up to 1.37 changes it afterwards.
        baselines=entries if resizes else {},
        pod_entries={uid: CpuSet(bits) for uid, bits in manager.bubbles.items()},
    )


def _restore_cpus(node: KubeletNode, data: bytes) -> None:
    manager = node.cpus
    policy = "none" if manager is None else "static"
    versions = (4, 3, 2) if node.behaviour.version >= (1, 37) else cpu.ALL_VERSIONS
    state = cpu.read_cpu_manager_state(data, policy=policy, versions=versions)
    if manager is None or not (state.default_cpus or state.entries):
        return
    _check_cpus(manager, state)
    manager.shared = state.default_cpus.mask
    manager.assignments = {
        uid: {name: cpus.mask for name, cpus in sets.items()} for uid, sets in state.entries.items()
    }
    manager.bubbles = {uid: cpus.mask for uid, cpus in state.pod_entries.items()}


def _check_cpus(manager: CpuManager, state: cpu.CpuManagerState) -> None:
    """Refuse a file that does not fit the machine or the reservation."""
    shared, reserved = state.default_cpus, CpuSet(manager.reserved)
    if not shared:
        raise KubeletStartError("default cpuset cannot be empty")
    if manager.options.strict_reservation:
        if both := reserved & shared:
            raise KubeletStartError(
                f'some of strictly reserved cpus: "{both}" are present in defaultCpuSet: "{shared}"'
            )
    elif not reserved <= shared:
        raise KubeletStartError(
            f'not all reserved cpus: "{reserved}" are present in defaultCpuSet: "{shared}"'
        )
    for uid, sets in state.entries.items():
        for name, cpus in sets.items():
            if cpus & shared:
                raise KubeletStartError(
                    f'pod: {uid}, container: {name} cpuset: "{cpus}" overlaps with default cpuset '
                    f'"{shared}"'
                )
    held = (cpus.bits for sets in state.entries.values() for cpus in sets.values())
    known = CpuSet(
        shared.bits | union(held) | union(cpus.bits for cpus in state.pod_entries.values())
    )
    if known.bits != manager.managed:
        raise KubeletStartError(
            f'current set of available CPUs "{CpuSet(manager.managed)}" doesn\'t match with CPUs '
            f'in state "{known}"'
        )


def _memory_state(node: KubeletNode) -> memory.MemoryManagerState:
    manager = node.memory
    if manager is None:
        return memory.MemoryManagerState(policy_name="None")
    return memory.MemoryManagerState(
        policy_name="Static",
        machine_state={
            number: memory.NumaNodeState(
                number_of_assignments=books.assignments,
                memory_map={kind: _written(table) for kind, table in books.tables.items()},
                cells=books.cells,
            )
            for number, books in manager.books.items()
        },
        entries={
            uid: {name: _written_blocks(blocks) for name, blocks in containers.items()}
            for uid, containers in manager.assignments.items()
        },
        pod_entries={
            uid: memory.PodMemoryEntry(memory_blocks=_written_blocks(blocks))
            for uid, blocks in manager.bubbles.items()
        },
    )


def _written(table: MemoryAmounts) -> memory.MemoryTable:
    return memory.MemoryTable(
        total=table.total,
        system_reserved=table.system_reserved,
        allocatable=table.allocatable,
        reserved=table.reserved,
        free=table.free,
    )


def _written_blocks(blocks: Iterable[MemoryBlock]) -> tuple[memory.CheckpointMemoryBlock, ...]:
    return tuple(
        memory.CheckpointMemoryBlock(
            numa_affinity=block.numa_nodes, type=block.type, size=block.size_bytes
        )
        for block in blocks
    )


def _restore_memory(node: KubeletNode, data: bytes) -> None:
    manager = node.memory
    policy = "None" if manager is None else "Static"
    state = memory.read_memory_manager_state(data, policy=policy)
    if manager is None:
        return
    if not state.machine_state:
        if state.entries:
            raise KubeletStartError(
                "[memorymanager] machine state can not be empty when it has memory assignments"
            )
        return
    entries = {
        uid: {name: _read_blocks(blocks) for name, blocks in containers.items()}
        for uid, containers in state.entries.items()
    }
    bubbles = {uid: _read_blocks(one.memory_blocks) for uid, one in state.pod_entries.items()}
    books = {number: _read_books(one) for number, one in state.machine_state.items()}
    _check_memory(manager, books, entries, bubbles)
    manager.books, manager.assignments, manager.bubbles = books, entries, bubbles


def _read_blocks(blocks: Iterable[memory.CheckpointMemoryBlock]) -> tuple[MemoryBlock, ...]:
    return tuple(MemoryBlock(block.numa_affinity, block.type, block.size) for block in blocks)


def _read_books(state: memory.NumaNodeState) -> NodeMemory:
    tables = {
        kind: MemoryAmounts(
            table.total, table.system_reserved, table.allocatable, table.reserved, table.free
        )
        for kind, table in state.memory_map.items()
    }
    return NodeMemory(state.cells, state.number_of_assignments, tables)


def _check_memory(
    manager: MemoryManager,
    books: MemoryBooks,
    entries: Mapping[str, Mapping[str, tuple[MemoryBlock, ...]]],
    bubbles: Mapping[str, tuple[MemoryBlock, ...]],
) -> None:
    """Refuse books that do not follow from the machine and the recorded blocks.

    What is charged to a full node is lost, so sums depend on the order in which the kubelet looks
    at the pods, which is random. Blocks of few nodes go first here: then nothing is lost that can
    be charged to the other nodes of a group.
    """
    expected = manager.books
    groups: dict[int, set[tuple[int, ...]]] = {number: set() for number in expected}
    charged: list[MemoryBlock] = []
    for uid, containers in entries.items():
        held = {"": bubbles[uid]} if uid in bubbles else containers
        for name, blocks in held.items():
            for block in blocks:
                _check_block(expected, block, f"(pod: {uid}, container: {name})")
                charged.append(block)
                for number in block.numa_nodes:
                    groups[number].add(block.numa_nodes)
    for block in sorted(charged, key=lambda block: len(block.numa_nodes)):
        charge(expected, block.numa_nodes, block.type, block.size_bytes)
    same = expected.keys() == books.keys() and all(
        _agree(number, expected, books, groups) for number in expected
    )
    if not same:
        raise KubeletStartError(
            "[memorymanager] the expected machine state is different from the real one"
        )


def _check_block(books: MemoryBooks, block: MemoryBlock, who: str) -> None:
    for number in block.numa_nodes:
        if number not in books:
            raise KubeletStartError(
                f"[memorymanager] {who} the memory assignment uses the NUMA that does not exist"
            )
        if block.type not in books[number].tables:
            raise KubeletStartError(
                f"[memorymanager] {who} the memory assignment uses memory resource that does not "
                "exist"
            )


def _agree(
    number: int,
    expected: MemoryBooks,
    books: MemoryBooks,
    groups: Mapping[int, set[tuple[int, ...]]],
) -> bool:
    """Compare one NUMA node; what is free and reserved only as a sum over its group.

    A single-node hint may be served from a node that is in a group already, so that groups overlap.
    Which of them such a node is then said to be in depends on the order in which the kubelet looks
    at the pods, which is random: any of them will do here.
    """
    one, other = expected[number], books[number]
    if one.assignments != other.assignments or one.tables.keys() != other.tables.keys():
        return False
    if other.assignments and other.cells not in groups[number]:
        return False
    together = _overlapping(number, groups)
    return all(
        _fixed(one.tables[kind]) == _fixed(other.tables[kind])
        and _sums(expected, together, kind) == _sums(books, together, kind)
        for kind in one.tables
    )


def _overlapping(number: int, groups: Mapping[int, set[tuple[int, ...]]]) -> set[int]:
    """Return the nodes that share groups with *number*, directly or through others."""
    together = {number}
    grown = True
    while grown:
        wider = {other for one in together for group in groups[one] for other in group}
        grown = not wider <= together
        together |= wider
    return together


def _fixed(table: MemoryAmounts) -> tuple[int, int, int]:
    return table.total, table.system_reserved, table.allocatable


def _sums(books: MemoryBooks, group: Iterable[int], kind: str) -> tuple[int, int]:
    tables = [books[number].tables[kind] for number in group]
    return sum(table.free for table in tables), sum(table.reserved for table in tables)


def _device_state(node: KubeletNode) -> devices.DeviceManagerState:
    manager = node.devices
    entries = tuple(
        devices.PodDevices(
            pod_uid=uid,
            container_name=name,
            resource_name=resource,
            device_ids=_by_numa_node(node, resource, ids),
        )
        for uid, containers in manager.assignments.items()
        for name, held in containers.items()
        for resource, ids in held.items()
    )
    registered = {name: tuple(sorted(manager.healthy(name))) for name in manager.resources()}
    return devices.DeviceManagerState(
        pod_device_entries=entries or None, registered_devices=registered
    )


def _by_numa_node(
    node: KubeletNode, resource: str, ids: Iterable[str]
) -> dict[int, tuple[str, ...]]:
    result: dict[int, tuple[str, ...]] = {}
    for device in ids:
        for number in node.devices.numa_nodes_of(resource, device) or (devices.NO_TOPOLOGY,):
            result[number] = (*result.get(number, ()), device)
    return result


def _restore_devices(node: KubeletNode, data: bytes) -> None:
    state = devices.read_device_manager_state(data)
    for resource in state.registered_devices or {}:
        node.devices.await_plugin(resource)
    for entry in state.pod_device_entries or ():
        numa: dict[str, set[int]] = {}
        for number, ids in (entry.device_ids or {}).items():
            for device in ids:
                numa.setdefault(device, set()).update({number} - {devices.NO_TOPOLOGY})
        node.devices.restore(entry.pod_uid, entry.container_name, entry.resource_name, numa)
