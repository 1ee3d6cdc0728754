"""The kubelet's checkpoint files: read when they have changed, and what they add to PodResources.

PodResources lists what regular containers and sidecars hold. Init containers that are done keep
their CPUs, memory and devices until the pod goes, as far as no other container of the pod has taken
them over, and only the checkpoints say so. They also say how a memory block that spans NUMA nodes
lies on them, which depends on what came and went before.

Checkpoints know pods by uid, and they forget a pod late: at the next admission. So a pod that is
not listed any more counts as gone, whatever they say.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

import msgspec

from numakube.api.checkpoints import (
    CPU_STATE,
    DEVICE_STATE,
    MEMORY_STATE,
    peek_allocated_pods,
    peek_cpu_manager_state,
    peek_device_manager_state,
    peek_memory_manager_state,
)
from numakube.apps.exporter.report_problems import Problem, Trouble
from numakube.errors import CorruptCheckpoint
from numakube.kubelet.admission_outcome import MemoryBlock
from numakube.kubelet.memory.memory_tables import MemoryBooks, MemoryTable, NodeMemory, release
from numakube.kubelet.state_files import StateFiles
from numakube.node.bounded_files import read_regular_file
from numakube.node.device_plugin.device_choices import FOLDER, read_choices
from numakube.node.podresources_client import ContainerResources, Devices, Memory
from numakube.values.cpuset import CpuSet, union

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from numakube.api.checkpoints import (
        CpuManagerState,
        DeviceManagerState,
        MemoryManagerState,
        NumaNodeState,
        PodDevices,
    )
    from numakube.node.device_plugin.device_choices import PluginChoice
    from numakube.node.podresources_client import PodResources

_State = TypeVar("_State")
_NOTHING: Final = ContainerResources(name="")

CHOICES: Final = f"device-plugins/{FOLDER}"
ALLOCATED_STATE: Final = "allocated_pods_state"
STATE_FILES: Final = (ALLOCATED_STATE, CPU_STATE, MEMORY_STATE, DEVICE_STATE)
"""In the order in which they are read: the kubelet writes the first one last, so that a pod in
it holds all that the others say."""

_Look: TypeAlias = tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoints:
    """The kubelet's state files; ``None`` for one that does not exist or could not be read.

    Attributes:
        allocated: the uids of the pods that the kubelet has admitted, and perhaps of some that are
            gone; empty if it does not keep them.
        choices: how device plugins of ours choose, by resource.
        files: the files themselves.
    """

    cpu: CpuManagerState | None = None
    memory: MemoryManagerState | None = None
    devices: DeviceManagerState | None = None
    allocated: frozenset[str] = frozenset()
    choices: Mapping[str, PluginChoice] = field(default_factory=lambda: MappingProxyType({}))
    problems: tuple[Problem, ...] = ()
    files: StateFiles = field(default_factory=StateFiles)


def read_checkpoints(
    files: StateFiles, choices: Mapping[str, PluginChoice] | None = None
) -> Checkpoints:
    """Return what *files* tell; one that is damaged is as good as none, and a problem."""
    problems: list[Problem] = []
    return Checkpoints(
        cpu=_try(peek_cpu_manager_state, files.cpu, problems),
        memory=_try(peek_memory_manager_state, files.memory, problems),
        devices=_try(peek_device_manager_state, files.devices, problems),
        allocated=_try(peek_allocated_pods, files.allocated, problems) or frozenset(),
        choices=choices or {},
        problems=tuple(problems),
        files=files,
    )


def _try(
    read: Callable[[bytes], _State], data: bytes | None, problems: list[Problem]
) -> _State | None:
    if data is None:
        return None
    try:
        return read(data)
    except CorruptCheckpoint as error:
        problems.append(Problem(Trouble.BAD_CHECKPOINT, f"{error}; going on without this file"))
        return None


def without_dropped_devices(
    checkpoints: Checkpoints, pods: Mapping[str, PodResources]
) -> Checkpoints:
    """Return *checkpoints* without devices that the kubelet has taken from *pods* (by uid).

    A kubelet that is asked for its pods drops the devices of those that are not active at that
    moment, and does not write it down (Kubernetes 1.35, ``UpdateAllocatedDevices`` in
    ``pkg/kubelet/cm/devicemanager/manager.go``). A pod that it rejects after its own start is
    listed again while its containers end: without devices, which the file still has.
    """
    state = checkpoints.devices
    entries = (state and state.pod_device_entries) or ()
    bare = {
        uid: {one.name for one in pod.containers}
        for uid, pod in pods.items()
        if not any(one.devices for one in pod.containers)
    }
    dropped = {one.pod_uid for one in entries if one.container_name in bare.get(one.pod_uid, ())}
    if state is None or not dropped:
        return checkpoints
    kept = tuple(one for one in entries if one.pod_uid not in dropped)
    return replace(
        checkpoints, devices=msgspec.structs.replace(state, pod_device_entries=kept or None)
    )


class HiddenUse:
    """What listed pods hold in containers that are not listed."""

    def __init__(self, checkpoints: Checkpoints) -> None:
        self._checkpoints = checkpoints
        self._devices: dict[str, list[PodDevices]] = {}
        for entry in (checkpoints.devices and checkpoints.devices.pod_device_entries) or ():
            self._devices.setdefault(entry.pod_uid, []).append(entry)

    def of(self, pod: PodResources, uid: str) -> ContainerResources:
        """Return what *pod* holds beyond its listed containers, as if in a container of its own."""
        names = {container.name for container in pod.containers}
        if names.issuperset(self._containers(uid)):
            return _NOTHING
        return ContainerResources(
            name="",
            cpu_ids=tuple(sorted(self._cpus(pod, uid, names))),
            memory=() if pod.memory else tuple(self._memory(uid, names)),
            devices=tuple(self._held_devices(pod, uid, names)),
        )

    def _containers(self, uid: str) -> Iterator[str]:
        """Yield the containers of a pod that hold something."""
        if self._checkpoints.cpu is not None:
            yield from self._checkpoints.cpu.entries.get(uid, ())
        if self._checkpoints.memory is not None:
            yield from self._checkpoints.memory.entries.get(uid, ())
        for entry in self._devices.get(uid, ()):
            yield entry.container_name

    def _cpus(self, pod: PodResources, uid: str, names: set[str]) -> set[int]:
        if self._checkpoints.cpu is None:
            return set()
        entries = self._checkpoints.cpu.entries.get(uid, {})
        hidden = {cpu for name, cpus in entries.items() if name not in names for cpu in cpus}
        return hidden.difference(pod.cpu_ids, *(one.cpu_ids for one in pod.containers))

    def _memory(self, uid: str, names: set[str]) -> Iterator[Memory]:
        if self._checkpoints.memory is None:
            return
        for name, blocks in self._checkpoints.memory.entries.get(uid, {}).items():
            if name not in names:
                for block in blocks:
                    yield Memory(block.type, block.size, block.numa_affinity)

    def _held_devices(self, pod: PodResources, uid: str, names: set[str]) -> Iterator[Devices]:
        # A later init container may have the devices of an earlier one.
        listed = {
            (entry.resource, id_)
            for container in pod.containers
            for entry in container.devices
            for id_ in entry.ids
        }
        hidden: dict[tuple[str, int], set[str]] = {}
        for entry in self._devices.get(uid, ()):
            if entry.container_name not in names:
                for numa, ids in (entry.device_ids or {}).items():
                    hidden.setdefault((entry.resource_name, numa), set()).update(ids)
        for (resource, numa), devices in hidden.items():
            unlisted = tuple(sorted(id_ for id_ in devices if (resource, id_) not in listed))
            if unlisted:
                yield Devices(resource, unlisted, (numa,) if numa >= 0 else ())


def memory_books(checkpoints: Checkpoints, pods: Mapping[str, PodResources]) -> MemoryBooks | None:
    """Return the Memory Manager's books with nothing but *pods* (by uid) in them.

    Nothing if there are no books, or if they are from another moment than the listed pods.
    """
    state = checkpoints.memory
    if state is None or not state.machine_state:
        return None
    if not all(_agrees(state, uid, pod) for uid, pod in pods.items()):
        return None
    books = {number: _node_memory(one) for number, one in state.machine_state.items()}
    for uid, blocks in blocks_by_pod(state):
        if any(numa not in books for block in blocks for numa in block.numa_nodes):
            return None
        if uid not in pods:
            release(books, blocks)
    return books


def blocks_by_pod(state: MemoryManagerState) -> Iterator[tuple[str, list[MemoryBlock]]]:
    """Yield what each pod gives back when it goes, in the order of the file."""
    for uid in dict.fromkeys((*state.entries, *state.pod_entries)):
        whole = state.pod_entries.get(uid)
        parts = state.entries.get(uid, {}).values() if whole is None else (whole.memory_blocks,)
        blocks = [block for part in parts for block in part]
        yield uid, [MemoryBlock(one.numa_affinity, one.type, one.size) for one in blocks]


def is_half_written(checkpoints: Checkpoints, allocatable_cpus: Iterable[int]) -> bool:
    """Tell whether the kubelet is between two writes by which it gives something out.

    It takes CPUs off the shared pool, or memory off a NUMA node, and names the container next. What
    is in neither place for that moment belongs to a pod that is being admitted.
    """
    return _lacks_cpus(checkpoints.cpu, allocatable_cpus) or _lacks_blocks(checkpoints.memory)


def _lacks_cpus(state: CpuManagerState | None, allocatable_cpus: Iterable[int]) -> bool:
    if state is None or not state.default_cpus:
        return False
    held = (cpus.bits for sets in state.entries.values() for cpus in sets.values())
    known = state.default_cpus.bits | union(
        (*held, *(one.bits for one in state.pod_entries.values()))
    )
    return bool(CpuSet.of(allocatable_cpus).bits & ~known)


def _lacks_blocks(state: MemoryManagerState | None) -> bool:
    if state is None:
        return False
    amounts: Counter[str] = Counter()
    for node in state.machine_state.values():
        amounts.update({kind: table.reserved for kind, table in node.memory_map.items()})
    for _, blocks in blocks_by_pod(state):
        for block in blocks:
            amounts[block.type] -= block.size_bytes
    return any(amounts.values())


def _agrees(state: MemoryManagerState, uid: str, pod: PodResources) -> bool:
    saved = state.entries.get(uid, {})
    return all(
        {(block.type, block.size, block.numa_affinity) for block in saved.get(one.name, ())}
        == {(block.type, block.size_bytes, block.numa_nodes) for block in one.memory}
        for one in pod.containers
    )


def _node_memory(state: NumaNodeState) -> NodeMemory:
    return NodeMemory(
        state.cells,
        state.number_of_assignments,
        {
            kind: MemoryTable(
                total=table.total,
                system_reserved=table.system_reserved,
                allocatable=table.allocatable,
                reserved=table.reserved,
                free=table.free,
            )
            for kind, table in state.memory_map.items()
        },
    )


class StateFolder:
    """A kubelet's folder with its checkpoint files."""

    def __init__(self, folder: Path) -> None:
        self._paths = tuple(folder / name for name in STATE_FILES)
        self._choices = folder / CHOICES
        self._seen: tuple[tuple[_Look | None, ...], Mapping[str, PluginChoice]] | None = None
        self._known = Checkpoints()

    def read(self) -> Checkpoints:
        """Return what the files say now; those that cannot be read are not there."""
        choices = read_choices(self._choices)
        seen = tuple(_look(path) for path in self._paths), choices
        if seen != self._seen:
            allocated, cpu, memory, devices = (_content(path) for path in self._paths)
            files = StateFiles(cpu=cpu, memory=memory, devices=devices, allocated=allocated)
            self._known = read_checkpoints(files, choices)
            self._seen = seen
        return self._known


def _look(path: Path) -> _Look | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _content(path: Path) -> bytes | None:
    try:
        return read_regular_file(path)
    except OSError:
        return None
