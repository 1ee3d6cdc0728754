"""What a kubelet has given out, by its own state files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from numakube.apps.exporter.kubelet_checkpoints import Checkpoints, read_checkpoints
from numakube.kubelet.state_files import StateFiles
from numakube.node.podresources_client import PodResources
from numakube.values.cpuset import CpuSet

Block: TypeAlias = tuple[tuple[int, ...], str, int]
"""NUMA nodes, type and bytes of a block of memory."""
NodeMemory: TypeAlias = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Held:
    """What one pod holds, finished init containers included."""

    cpus: CpuSet
    memory: tuple[Block, ...]
    devices: Mapping[str, frozenset[str]]

    def less_than(self, other: Held) -> bool:
        """Tell whether anything of *other* is missing here."""
        return (
            bool(other.cpus.bits & ~self.cpus.bits)
            or sum(size for *_, size in self.memory) < sum(size for *_, size in other.memory)
            or any(
                len(self.devices.get(name, ())) < len(ids) for name, ids in other.devices.items()
            )
        )


@dataclass(frozen=True, slots=True)
class Truth:
    """The books of a kubelet.

    Attributes:
        held: what each pod holds by uid; pods that are gone may be among them.
        shared: the shared pool of CPUs; ``None`` without the static CPU policy.
        free: bytes left by NUMA node and type; empty without the Static memory policy.
        cells: the group of each NUMA node.
        registered: ids of healthy devices by resource, ascending.
    """

    held: Mapping[str, Held]
    shared: CpuSet | None
    free: Mapping[int, NodeMemory]
    cells: Mapping[int, tuple[int, ...]]
    registered: Mapping[str, tuple[str, ...]]

    def of(self, uid: str) -> Held:
        """Return what the pod with that uid holds."""
        return self.held.get(uid, Held(CpuSet(), (), {}))

    @property
    def groups_overlap(self) -> bool:
        """Whether pods use a NUMA node in different groups.

        The kubelet says of such a node that it is in the group of the pod that came last; a kubelet
        that starts works that out from its pods in random order, and gives up if it differs.
        """
        groups: dict[int, set[tuple[int, ...]]] = {}
        for held in self.held.values():
            for nodes, *_ in held.memory:
                for number in nodes:
                    groups.setdefault(number, set()).add(nodes)
        return any(len(some) > 1 for some in groups.values())


def truth_of(files: StateFiles) -> Truth:
    """Return what *files* say."""
    state = read_checkpoints(files)
    assert not state.problems, state.problems
    cpus = state.cpu.by_pod if state.cpu is not None else {}
    memory = _blocks(state)
    devices = _devices(state)
    static = state.cpu is not None and state.cpu.policy == "static"
    books = state.memory.machine_state if state.memory is not None else {}
    registered = state.devices.registered_devices if state.devices is not None else {}
    return Truth(
        held={
            uid: Held(CpuSet(cpus.get(uid, 0)), memory.get(uid, ()), devices.get(uid, {}))
            for uid in (*cpus, *memory, *devices)
        },
        shared=state.cpu.default_cpus if static and state.cpu is not None else None,
        free={
            number: {kind: table.free for kind, table in one.memory_map.items()}
            for number, one in books.items()
        },
        cells={number: one.cells for number, one in books.items()},
        registered={name: tuple(sorted(ids)) for name, ids in (registered or {}).items()},
    )


def _blocks(state: Checkpoints) -> dict[str, tuple[Block, ...]]:
    if state.memory is None:
        return {}
    return {
        uid: tuple(
            sorted(
                (block.numa_affinity, block.type, block.size)
                for blocks in containers.values()
                for block in blocks
            )
        )
        for uid, containers in state.memory.entries.items()
    }


def _devices(state: Checkpoints) -> dict[str, dict[str, frozenset[str]]]:
    held: dict[str, dict[str, frozenset[str]]] = {}
    entries = state.devices.pod_device_entries if state.devices is not None else ()
    for entry in entries or ():
        ids = frozenset(one for some in (entry.device_ids or {}).values() for one in some)
        mine = held.setdefault(entry.pod_uid, {})
        mine[entry.resource_name] = mine.get(entry.resource_name, frozenset()) | ids
    return held


def listing_differences(
    listing: Iterable[PodResources], truth: Truth, names: Mapping[tuple[str, str], str]
) -> list[str]:
    """Say where PodResources lists something that the state files do not have.

    Args:
        listing: what PodResources answers.
        truth: what the state files say.
        names: uids of the pods that live, by namespace and name.
    """
    wrong = []
    listed = {(pod.namespace, pod.name): pod for pod in listing}
    wrong += [f"PodResources does not list {name}" for name in names if name not in listed]
    for name, pod in listed.items():
        if name in names:
            held = truth.of(names[name])
            cpus = CpuSet.of(cpu for container in pod.containers for cpu in container.cpu_ids)
            if cpus.bits & ~held.cpus.bits:
                wrong.append(f"PodResources: {name} has CPUs {cpus}, state file {held.cpus}")
    return wrong
