"""Exact data: the kubelet's state in full, so that a scheduler can replay its next decision.

It is put together from PodResources (who holds what), the state files (what is hidden, the shared
pool, the memory books), the configuration and sysfs. Exact or not at all: if one source is missing
or was read at another moment than the rest, there is no report, only the reason. The next
scan has another chance.

All listed pods count that are not done, whatever the options exclude from zones and fingerprints.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from numakube.apps.exporter.kubelet_checkpoints import HiddenUse, memory_books
from numakube.errors import ConfigError, InvalidValue, KubeletStartError
from numakube.kubelet.admission_outcome import MemoryBlock
from numakube.kubelet.kubelet_versions import behaviour_of
from numakube.kubelet.manager_settings import modelled, settings_of, unmodelled_option
from numakube.kubelet.memory_hints import empty_books
from numakube.kubelet.preferred_allocation import Preference
from numakube.topology.exact_report import (
    DeviceChoice,
    DeviceTable,
    ExactReport,
    Holding,
    MemoryCell,
    choice_of,
    defect_of,
    uid_hash,
)
from numakube.topology.report_notation import as_the_kubelet_sees_it
from numakube.values.cpuset import CpuSet

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numakube.api.checkpoints import DeviceManagerState
    from numakube.apps.exporter.node_scan import NodeInputs
    from numakube.kubelet.machine import Machine
    from numakube.kubelet.manager_settings import KubeletSettings
    from numakube.kubelet.memory_hints import MemoryBooks
    from numakube.node.podresources_client import Devices, PodResources

STATIC_CPUS: Final = "static"
STATIC_MEMORY: Final = "Static"
NONE: Final = CpuSet()

Places: TypeAlias = dict[str, dict[str, frozenset[int]]]
"""NUMA nodes of devices by resource and id."""


@dataclass(frozen=True, slots=True)
class Inexact:
    """Why there is no exact data.

    Attributes:
        contradictory: whether the sources are of different moments, so that the next look may do.
    """

    reason: str
    contradictory: bool = False


class _Unknown(Exception):
    """Carries the reason out of the steps of one report; never leaves this module."""

    contradictory = False


class _Contradiction(_Unknown):
    """The sources are of different moments."""

    contradictory = True


def exact_report(inputs: NodeInputs) -> ExactReport | Inexact:
    """Return the kubelet's state, or why it is not known for certain."""
    try:
        report = _Sources(inputs).report()
    except _Unknown as unknown:
        return Inexact(str(unknown), unknown.contradictory)
    cpus = CpuSet.of(cpu for zone in inputs.hardware.zones for cpu in zone.cpus)
    defect = defect_of(report, cpus=cpus.bits)
    if defect is None:
        return report
    return Inexact(f"the sources contradict each other: {defect}", contradictory=True)


class _Sources:
    """What one report is made of, checked against each other."""

    def __init__(self, inputs: NodeInputs) -> None:
        self.inputs = inputs
        self.machine = _machine(inputs)
        self.settings = _settings(inputs, self.machine)
        self.pods = dict(_active(inputs))
        hidden = HiddenUse(inputs.checkpoints)
        self.parts = {uid: (*pod.containers, hidden.of(pod, uid)) for uid, pod in self.pods.items()}

    def report(self) -> ExactReport:
        """Put the report together."""
        tables, positions = self._devices()
        return ExactReport(
            machine=as_the_kubelet_sees_it(self.machine),
            settings=self.settings,
            kubernetes=_release(self.inputs.kubelet.version),
            shared_cpus=self._shared_cpus(),
            memory=_cells(self._memory_books()),
            devices=tables,
            pods={uid_hash(uid): self._holding(uid, positions) for uid in self.pods},
            tree=self.inputs.connected.tree,
        )

    def _shared_cpus(self) -> CpuSet | None:
        """Return the shared pool of the next admission: pods that are gone have left their CPUs."""
        if self.settings.cpu_policy != STATIC_CPUS:
            return None
        state = self.inputs.checkpoints.cpu
        if state is None or state.policy != STATIC_CPUS:
            raise _Unknown("there is no cpu_manager_state of the static policy")
        for uid, pod in self.pods.items():
            saved = state.entries.get(uid, {})
            for container in pod.containers:
                held = saved.get(container.name, NONE)
                _require_same("cpu_manager_state", pod, same=held == CpuSet.of(container.cpu_ids))
        shared = state.default_cpus
        for uid in (state.entries.keys() | state.pod_entries.keys()) - self.pods.keys():
            for cpus in (*state.entries.get(uid, {}).values(), state.pod_entries.get(uid, NONE)):
                shared |= cpus
        return shared

    def _memory_books(self) -> MemoryBooks:
        if self.settings.memory_policy != STATIC_MEMORY:
            return {}
        books = memory_books(self.inputs.checkpoints, self.pods)
        if books is None:
            raise _Contradiction(
                "there is no memory_manager_state that agrees with the listed pods"
            )
        fresh = empty_books(self.machine, self.settings.reserved_memory)
        if _sizes(books) != _sizes(fresh):
            raise _Unknown(
                "memory_manager_state has other sizes than sysfs and the configuration tell: "
                "the kubelet has not been restarted since they changed"
            )
        return books

    def _devices(self) -> tuple[dict[str, DeviceTable], dict[str, dict[str, int]]]:
        """Return the devices by resource, and each device's position among them."""
        healthy = _places(self.inputs.allocatable.devices)
        held = _places(
            entry for parts in self.parts.values() for part in parts for entry in part.devices
        )
        state = self.inputs.checkpoints.devices
        if state is None and (healthy or held):
            raise _Unknown("there is no kubelet_internal_checkpoint to tell all devices in use")
        self._check_devices(state)
        resources = (
            healthy.keys() | held.keys() | ((state and state.registered_devices) or {}).keys()
        )
        tables, positions = {}, {}
        for resource in sorted(resources):
            good = healthy.get(resource, {})
            known = {**held.get(resource, {}), **good}
            order = sorted(known)
            positions[resource] = {id_: index for index, id_ in enumerate(order)}
            tables[resource] = DeviceTable(
                tuple(_in_order(known[id_]) for id_ in order),
                tuple(index for index, id_ in enumerate(order) if id_ not in good),
                self._choice(resource, positions[resource]),
                self._functions(order),
            )
        return tables, positions

    def _functions(self, order: Iterable[str]) -> tuple[str, ...]:
        known = self.inputs.connected.functions
        functions = tuple(known.get(id_, "") for id_ in order)
        return functions if any(functions) else ()

    def _choice(self, resource: str, positions: Mapping[str, int]) -> DeviceChoice | None:
        told = self.inputs.checkpoints.choices.get(resource)
        if told is None:
            return None
        return choice_of(Preference(told.policy), told.groups, positions, near=told.near)

    def _check_devices(self, state: DeviceManagerState | None) -> None:
        saved: dict[tuple[str, str], set[tuple[str, str]]] = {}
        for entry in (state and state.pod_device_entries) or ():
            ids = {
                (entry.resource_name, id_)
                for some in (entry.device_ids or {}).values()
                for id_ in some
            }
            saved.setdefault((entry.pod_uid, entry.container_name), set()).update(ids)
        for uid, pod in self.pods.items():
            for container in pod.containers:
                listed = {(entry.resource, id_) for entry in container.devices for id_ in entry.ids}
                same = saved.get((uid, container.name), set()) == listed
                _require_same("kubelet_internal_checkpoint", pod, same=same)

    def _holding(self, uid: str, positions: Mapping[str, Mapping[str, int]]) -> Holding:
        parts = self.parts[uid]
        held = _places(entry for part in parts for entry in part.devices)
        return Holding(
            cpus=CpuSet.of(
                (*self.pods[uid].cpu_ids, *(cpu for part in parts for cpu in part.cpu_ids))
            ),
            memory=tuple(self._blocks(uid)),
            devices={
                resource: tuple(sorted(positions[resource][id_] for id_ in held[resource]))
                for resource in sorted(held)
            },
        )

    def _blocks(self, uid: str) -> Iterator[MemoryBlock]:
        if self.settings.memory_policy != STATIC_MEMORY:
            return
        whole = self.pods[uid].memory
        for block in whole or (block for part in self.parts[uid] for block in part.memory):
            yield MemoryBlock(block.numa_nodes, block.type, block.size_bytes)


def _machine(inputs: NodeInputs) -> Machine:
    if inputs.hardware.machine is None:
        raise _Unknown("sysfs does not describe the CPUs")
    return inputs.hardware.machine


def _settings(inputs: NodeInputs, machine: Machine) -> KubeletSettings:
    kubelet = inputs.kubelet
    if kubelet.config is None:
        raise _Unknown("the kubelet's configuration is not known")
    # What was given by hand wins, here as in the attributes.
    config = msgspec.structs.replace(
        kubelet.config,
        topology_manager_policy=kubelet.policy or "",
        topology_manager_scope=kubelet.scope or "",
    )
    try:
        settings = modelled(settings_of(config, machine))
    except (KubeletStartError, InvalidValue) as error:
        raise _Unknown(f"no kubelet starts with this configuration: {error}") from None
    release = _release(kubelet.version)
    option = unmodelled_option(settings, behaviour_of(release))
    if option:
        raise _Unknown(
            f"the kubelet has the option {option}, which the model, of Kubernetes {release}, does "
            "not know"
        )
    return settings


def _active(inputs: NodeInputs) -> Iterator[tuple[str, PodResources]]:
    """Yield the pods that count, by uid."""
    seen = set()
    for pod in inputs.pods:
        name = pod.namespace, pod.name
        if name in inputs.terminal:
            continue
        if name in seen:
            raise _Unknown(f"there are two pods {pod.namespace}/{pod.name}")
        seen.add(name)
        for cpu in (
            *pod.cpu_ids,
            *(cpu for container in pod.containers for cpu in container.cpu_ids),
        ):
            if inputs.hardware.numa_of(cpu) is None:
                raise _Unknown(
                    f"pod {pod.namespace}/{pod.name} holds CPU {cpu}, which is not there"
                )
        uid = inputs.uids.get(name)
        if uid is None:
            raise _Unknown(f"the uid of pod {pod.namespace}/{pod.name} is not known")
        yield uid, pod


def _release(version: str | None) -> str:
    if version is None:
        raise _Unknown("the kubelet's version is not known")
    try:
        major, minor = behaviour_of(version).version
    except ConfigError as error:
        raise _Unknown(str(error)) from None
    return f"{major}.{minor}"


def _require_same(file: str, pod: PodResources, *, same: bool) -> None:
    if not same:
        raise _Contradiction(
            f"{file} and the kubelet's list disagree on pod {pod.namespace}/{pod.name}: "
            "they are of different moments"
        )


def _places(entries: Iterable[Devices]) -> Places:
    """Return where each device is; the kubelet lists one on several NUMA nodes several times."""
    found: Places = {}
    for entry in entries:
        devices = found.setdefault(entry.resource, {})
        numa_nodes = _known_nodes(entry.numa_nodes)
        for id_ in entry.ids:
            before = devices.get(id_)
            devices[id_] = numa_nodes if before is None else before | numa_nodes
    return found


@lru_cache(maxsize=256)
def _in_order(numa_nodes: frozenset[int]) -> tuple[int, ...]:
    return tuple(sorted(numa_nodes))


@lru_cache(maxsize=256)
def _known_nodes(numa_nodes: tuple[int, ...]) -> frozenset[int]:
    return frozenset(numa for numa in numa_nodes if numa >= 0)


def _cells(books: MemoryBooks) -> dict[int, MemoryCell]:
    """Return the books of the NUMA nodes in use."""
    cells = {}
    for numa, memory in books.items():
        reserved = {kind: table.reserved for kind, table in memory.tables.items() if table.reserved}
        if memory.assignments or reserved or memory.cells != (numa,):
            cells[numa] = MemoryCell(memory.cells, memory.assignments, reserved)
    return cells


def _sizes(books: MemoryBooks) -> dict[int, dict[str, int]]:
    return {
        numa: {kind: table.allocatable for kind, table in memory.tables.items()}
        for numa, memory in books.items()
    }
