"""The kubelet's checkpoint files: what they add to PodResources, and whether that is true yet.

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
from numakube.apps.exporter.report_options import Problem, Trouble
from numakube.errors import CorruptCheckpoint, KubeletStartError, NumakubeError
from numakube.kubelet.admission_outcome import MemoryBlock
from numakube.kubelet.memory_hints import MemoryAmounts, MemoryBooks, NodeMemory, release
from numakube.kubelet.state_files import StateFiles
from numakube.node.bounded_files import read_regular_file
from numakube.node.device_plugin.device_choices import FOLDER, read_choices
from numakube.node.podresources_client import ContainerResources, Devices, Memory
from numakube.values.cpuset import CpuSet, union

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from numakube.api.checkpoints import (
        CpuManagerState,
        DeviceManagerState,
        MemoryManagerState,
        NumaNodeState,
        PodDevices,
    )
    from numakube.apps.exporter.node_scan import KubeletFacts, PodName
    from numakube.kubelet.machine import Machine
    from numakube.node.device_plugin.device_choices import PluginChoice
    from numakube.node.podresources_client import AllocatableResources, PodResources


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
        uid: {container.name for container in pod.containers}
        for uid, pod in pods.items()
        if not any(container.devices for container in pod.containers)
    }
    dropped = {
        entry.pod_uid for entry in entries if entry.container_name in bare.get(entry.pod_uid, ())
    }
    if state is None or not dropped:
        return checkpoints
    kept = tuple(entry for entry in entries if entry.pod_uid not in dropped)
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
        return hidden.difference(pod.cpu_ids, *(container.cpu_ids for container in pod.containers))

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
        yield uid, [MemoryBlock(block.numa_affinity, block.type, block.size) for block in blocks]


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
        (*held, *(entry.bits for entry in state.pod_entries.values()))
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
        {(block.type, block.size, block.numa_affinity) for block in saved.get(container.name, ())}
        == {(block.type, block.size_bytes, block.numa_nodes) for block in container.memory}
        for container in pod.containers
    )


def _node_memory(state: NumaNodeState) -> NodeMemory:
    return NodeMemory(
        state.cells,
        state.number_of_assignments,
        {
            kind: MemoryAmounts(
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


# Static pods have two uids: the kubelet's own, and that of their image in the API.
#
# State files use the kubelet's, all others the API's. Here state files are converted to the API's,
# so that a report names static pods as schedulers know them.


V = TypeVar("V")


def held_uids(checkpoints: Checkpoints) -> frozenset[str]:
    """Return the uids of all pods that the kubelet's state files know."""
    found: set[str] = set()
    if checkpoints.cpu is not None:
        found |= {*checkpoints.cpu.entries, *checkpoints.cpu.pod_entries}
    if checkpoints.memory is not None:
        found |= {*checkpoints.memory.entries, *checkpoints.memory.pod_entries}
    if checkpoints.devices is not None:
        found |= {entry.pod_uid for entry in checkpoints.devices.pod_device_entries or ()}
    return frozenset(found)


def admitted_uids(checkpoints: Checkpoints, aliases: Mapping[str, str]) -> frozenset[str]:
    """Return the API's uids of the pods that the kubelet has admitted, as far as it says so."""
    return frozenset(aliases.get(uid, uid) for uid in checkpoints.allocated)


def with_api_uids(checkpoints: Checkpoints, aliases: Mapping[str, str]) -> Checkpoints:
    """Return *checkpoints* with the API's uids in place of the kubelet's own of static pods."""
    if not aliases.keys() & held_uids(checkpoints):
        return checkpoints
    cpu, memory, devices = checkpoints.cpu, checkpoints.memory, checkpoints.devices
    return replace(
        checkpoints,
        cpu=None if cpu is None else _cpu(cpu, aliases),
        memory=None if memory is None else _memory(memory, aliases),
        devices=None if devices is None else _devices(devices, aliases),
    )


def _cpu(state: CpuManagerState, aliases: Mapping[str, str]) -> CpuManagerState:
    return replace(
        state,
        entries=_renamed(state.entries, aliases),
        pod_entries=_renamed(state.pod_entries, aliases),
        baselines=_renamed(state.baselines, aliases),
    )


def _memory(state: MemoryManagerState, aliases: Mapping[str, str]) -> MemoryManagerState:
    return msgspec.structs.replace(
        state,
        entries=_renamed(state.entries, aliases),
        pod_entries=_renamed(state.pod_entries, aliases),
    )


def _devices(state: DeviceManagerState, aliases: Mapping[str, str]) -> DeviceManagerState:
    entries = tuple(
        msgspec.structs.replace(entry, pod_uid=aliases.get(entry.pod_uid, entry.pod_uid))
        for entry in state.pod_device_entries or ()
    )
    return msgspec.structs.replace(state, pod_device_entries=entries)


def _renamed(entries: Mapping[str, V], aliases: Mapping[str, str]) -> dict[str, V]:
    return {aliases.get(uid, uid): value for uid, value in entries.items()}


# Whether the kubelet's answers are true: that it has loaded its state, and who counts already.
#
# A kubelet serves PodResources from its first moment on. After a start it answers with no CPUs
# until its managers have started, and without pods until it has heard of them from the API server:
# a report made of that would call everything free while pods run. And it lists a new pod before its
# managers have given it anything: a report made of that would say that the pod holds nothing.
#
# What tells is the order in which the kubelet writes (Kubernetes 1.35, ``HandlePodAdditions`` in
# ``pkg/kubelet/kubelet.go`` and ``AddPod`` in ``pkg/kubelet/allocation/allocation_manager.go``):
#
# 1. the pod is listed;
# 2. managers allocate container by container and write their state files;
# 3. the pod is put into ``allocated_pods_state`` (since 1.33);
# 4. its status gets a start time.
#
# So a pod that was seen in 3 or 4 *before* the list was asked for holds all it will ever hold.


_MOST_NAMED: Final = 3
_UNLESS: Final = " (unless flags of the kubelet say otherwise)"


def admitted_pods(
    pods: Sequence[PodResources], uids: Mapping[PodName, str], admitted: Collection[str]
) -> tuple[PodResources, ...]:
    """Return the *pods* that are not being admitted at this moment.

    Args:
        pods: as the kubelet lists them.
        uids: of the pods that the API knows; the others are taken as they are listed.
        admitted: uids of pods that had been admitted before the list was asked for.
    """
    arriving = {name for name, uid in uids.items() if uid not in admitted}
    return tuple(pod for pod in pods if (pod.namespace, pod.name) not in arriving)


def managers_down(kubelet: KubeletFacts, allocatable: AllocatableResources) -> str:
    """Return which manager has not started yet; an empty text if they all have."""
    if kubelet.running_cpu_policy == "static" and not allocatable.cpu_ids:
        return "its CPU Manager has not started yet"
    if kubelet.running_memory_policy == "Static" and not allocatable.memory:
        return "its Memory Manager has not started yet"
    return ""


def state_trouble(kubelet: KubeletFacts) -> str:
    """Return which state files were written under another policy than the configured one.

    A kubelet that finds such a file when it starts gives up (Kubernetes 1.35, ``restoreState`` of
    both managers).
    """
    config = kubelet.config
    if config is None:
        return ""
    policies = (
        (CPU_STATE, kubelet.cpu_policy, config.cpu_manager_policy),
        (MEMORY_STATE, kubelet.memory_policy, config.memory_manager_policy),
    )
    differing = [
        f"{file} was written under the policy {was}, and the configuration says {wanted}"
        for file, was, wanted in policies
        if was is not None and was != wanted
    ]
    return "; ".join(differing) + _UNLESS if differing else ""


def group_trouble(state: MemoryManagerState | None) -> str:
    """Return which NUMA nodes are said to be in a group that no pod uses.

    A pod may get memory of a single NUMA node that is in a group already. The kubelet says of the
    node then that it is alone, and goes on saying so when that pod has gone. A kubelet that starts
    works groups out from its pods, and gives up where they differ (Kubernetes 1.35,
    ``validateState`` in ``pkg/kubelet/cm/memorymanager/policy_static.go``).
    """
    if state is None:
        return ""
    used: dict[int, set[tuple[int, ...]]] = {}
    for _, blocks in blocks_by_pod(state):
        for block in blocks:
            for number in block.numa_nodes:
                used.setdefault(number, set()).add(block.numa_nodes)
    odd = [
        f"NUMA node {number} in group {CpuSet.of(node.cells)}, while pods use its memory in group "
        + " and ".join(str(CpuSet.of(group)) for group in sorted(used[number]))
        for number, node in state.machine_state.items()
        if number in used and node.cells not in used[number]
    ]
    if not odd:
        return ""
    return f"{MEMORY_STATE} has {'; '.join(odd)}: until they have ended, no kubelet starts from it"


def start_trouble(kubelet: KubeletFacts, machine: Machine | None, files: StateFiles) -> str:
    """Return why a kubelet would not start from *files*, in its own words; empty if it would."""
    if kubelet.config is None or machine is None or kubelet.version is None:
        return ""
    # While the kubelet is there, an exporter does without the model and its memory.
    from numakube.kubelet.kubelet_model import KubeletNode
    from numakube.kubelet.kubelet_versions import NEWEST, behaviour_of, release_of
    from numakube.kubelet.manager_settings import modelled, settings_of, unmodelled_option
    from numakube.kubelet.state_files import restore

    try:
        settings = modelled(settings_of(kubelet.config, machine))
        newer = release_of(kubelet.version) > NEWEST
        if newer and unmodelled_option(settings, behaviour_of(kubelet.version)):
            return ""  # it has options that are unknown here, and starts with them
        restore(KubeletNode(machine, settings, kubernetes=kubelet.version), files)
    except (KubeletStartError, CorruptCheckpoint) as error:
        return f"{error}{_UNLESS}"
    except NumakubeError:
        return ""
    return ""


def pods_not_loaded(expected: Collection[PodName], pods: Sequence[PodResources]) -> str:
    """Return which pods the kubelet has admitted some time and does not list yet."""
    missing = sorted(set(expected) - {(pod.namespace, pod.name) for pod in pods})
    if not missing:
        return ""
    named = ", ".join("/".join(name) for name in missing[:_MOST_NAMED])
    more = f" and {len(missing) - _MOST_NAMED} more" if len(missing) > _MOST_NAMED else ""
    return f"it has not loaded its pods yet: {named}{more}"


def cpus_not_loaded(state: CpuManagerState | None, pods: Sequence[PodResources]) -> str:
    """Return whether pods hold CPUs that the kubelet does not list, for want of the API's word.

    A kubelet that has loaded its pods drops entries of pods that are gone within its reconcile
    period (ten seconds); one that has not keeps them all.
    """
    listed = {
        (container.name, frozenset(container.cpu_ids))
        for pod in pods
        for container in pod.containers
    }
    entries = state.entries if state is not None else {}
    missing = sum(
        not any((name, frozenset(cpus)) in listed for name, cpus in containers.items())
        for containers in entries.values()
    )
    return f"it does not list {missing} pods of its cpu_manager_state" if missing else ""
