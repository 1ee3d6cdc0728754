"""One scan of a node: everything that a report is made of, read again.

What the kubelet gives out is asked at every scan, so that devices which register late, a changed
policy and a restarted kubelet are all seen without special care. Answers that are not true yet
(`numakube.apps.exporter.kubelet_checkpoints`) are no answers.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, TypeVar

from numakube.apps.exporter.api_objects import NoPods, PodBook
from numakube.apps.exporter.kubelet_checkpoints import (
    Checkpoints,
    admitted_pods,
    admitted_uids,
    cpus_not_loaded,
    group_trouble,
    held_uids,
    is_half_written,
    managers_down,
    pods_not_loaded,
    start_trouble,
    state_trouble,
    with_api_uids,
    without_dropped_devices,
)
from numakube.apps.exporter.kubelet_config_sources import FirstOf
from numakube.apps.exporter.numa_hardware import Hardware
from numakube.errors import KubeletNotReady, KubeletUnavailable, KubeletWillNotStart
from numakube.node.pci.device_links import UNKNOWN, Connected
from numakube.node.podresources_client import AllocatableResources, Memory
from numakube.topology import nrt_names
from numakube.values.cpuset import CpuSet
from numakube.values.resources import MEMORY

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from numakube.api.kubelet_config import KubeletConfiguration
    from numakube.apps.exporter.kubelet_config_sources import ConfigSource
    from numakube.apps.exporter.metrics import ExporterMetrics
    from numakube.apps.exporter.report_annotations import AnnotationInputs, AnnotationReader
    from numakube.node.podresources_client import PodResources


# Everything that one scan reads.


PodName: TypeAlias = tuple[str, str]
"""Namespace and name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletFacts:
    """What is known of the kubelet's configuration; ``None`` is unknown and is not published.

    Attributes:
        topology_policy: as the kubelet spells it; wins over *config*.
        topology_scope: likewise.
        config: the whole configuration with the kubelet's defaults filled in.
        cpu_policy: the CPU Manager's policy as its state file says; *config* wins over it.
        memory_policy: likewise the Memory Manager's.
        version: such as ``v1.35.7``.
        why_unknown: why there is no *config*, if it was looked for.
        state_trouble: why its state files will keep it from starting again, if so.
    """

    topology_policy: str | None = None
    topology_scope: str | None = None
    config: KubeletConfiguration | None = None
    cpu_policy: str | None = None
    memory_policy: str | None = None
    version: str | None = None
    why_unknown: str = ""
    state_trouble: str = ""

    @property
    def running_cpu_policy(self) -> str | None:
        """The CPU Manager's policy that is in force: a file may be edited before a restart."""
        known = self.config.cpu_manager_policy if self.config else None
        return known if self.cpu_policy is None else self.cpu_policy

    @property
    def running_memory_policy(self) -> str | None:
        """Likewise the Memory Manager's."""
        known = self.config.memory_manager_policy if self.config else None
        return known if self.memory_policy is None else self.memory_policy

    @property
    def policy(self) -> str | None:
        """The Topology Manager's policy."""
        known = self.config.topology_manager_policy if self.config else None
        return known if self.topology_policy is None else self.topology_policy

    @property
    def scope(self) -> str | None:
        """The Topology Manager's scope."""
        known = self.config.topology_manager_scope if self.config else None
        return known if self.topology_scope is None else self.topology_scope


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeInputs:
    """What one scan read.

    Attributes:
        hardware: from sysfs.
        allocatable: the kubelet's answer to GetAllocatableResources.
        pods: its answer to List, in its order, without pods that are being admitted.
        uids: the uids of listed pods, as far as they are known.
        terminal: listed pods that are done: they neither count nor are fingerprinted.
        annotations: what further annotations are made of, those that are wanted.
        connected: how the devices are connected, as far as that is known.
    """

    hardware: Hardware = field(default_factory=Hardware)
    allocatable: AllocatableResources = field(default_factory=AllocatableResources)
    pods: tuple[PodResources, ...] = ()
    kubelet: KubeletFacts = field(default_factory=KubeletFacts)
    checkpoints: Checkpoints = field(default_factory=Checkpoints)
    uids: Mapping[PodName, str] = field(default_factory=lambda: MappingProxyType({}))
    terminal: frozenset[PodName] = frozenset()
    annotations: tuple[AnnotationInputs, ...] = ()
    connected: Connected = UNKNOWN


T = TypeVar("T")

_NOTHING: Final = Checkpoints()
# A kubelet that admits pods one after the other writes all the time; something has to be reported.
_ATTEMPTS: Final = 3
# It needs no more than a few milliseconds from one write to the next.
_WRITE_SECONDS: Final = 0.005
_MOST_LOOKS: Final = 20


class NodeSource(Protocol):
    """Where scans come from."""

    async def read(self) -> NodeInputs:
        """Return what the node is and holds now.

        Raises:
            KubeletUnavailable: the kubelet does not answer, or not truly yet.
        """
        ...


class CheckpointSource(Protocol):
    """Where the kubelet's state is kept."""

    def read(self) -> Checkpoints:
        """Return the state: the same object for as long as it has not changed."""
        ...


class PodResourcesReader(Protocol):
    """A kubelet's PodResources."""

    def incarnation(self) -> object:
        """Return what tells this kubelet's process from the next."""
        ...

    async def list_pods(self) -> tuple[PodResources, ...]:
        """Return what every active pod holds."""
        ...

    async def allocatable(self) -> AllocatableResources:
        """Return what the node could give out if it were empty."""
        ...


def whole_machine(hardware: Hardware) -> AllocatableResources:
    """Return everything a machine has, as if a kubelet kept nothing for itself."""
    memory = [
        Memory(kind, size, (zone.id,))
        for zone in hardware.zones
        for kind, size in ((MEMORY, zone.memory_bytes), *(zone.hugepages or {}).items())
        if size
    ]
    cpus = tuple(cpu for zone in hardware.zones for cpu in zone.cpus)
    return AllocatableResources(cpu_ids=cpus, memory=tuple(memory))


@dataclass(frozen=True, slots=True)
class _Answers:
    """What the kubelet says and has written.

    Attributes:
        admitted: uids of pods that it had admitted before it was asked.
    """

    allocatable: AllocatableResources
    pods: tuple[PodResources, ...]
    checkpoints: Checkpoints
    admitted: frozenset[str]


class NoCheckpoints:
    """State files that are not to be read."""

    def read(self) -> Checkpoints:
        """Return nothing."""
        return _NOTHING


@dataclass(slots=True, kw_only=True)
class NodeReader:
    """Reads a node.

    Attributes:
        hardware: reads the machine.
        kubelet: the kubelet; ``None`` if it is not to be asked.
        config: the kubelet's configuration.
        checkpoints: the kubelet's state files.
        pods: what the API knows of the pods.
        policy: the Topology Manager's policy, if the user says so.
        scope: likewise its scope.
        version: tells the kubelet's version, if it is known.
        reserved_cpus: CPUs that no pod gets, besides those that the kubelet reserves.
        exclude_terminal: leave out pods that are done.
        refresh: ask for allocatable resources every time.
        metrics: counts failures.
        annotations: read what further annotations are made of, those that are wanted.
        connections: tells how the devices with given ids are connected, if that is wanted.
    """

    hardware: Callable[[], Awaitable[Hardware]]
    kubelet: PodResourcesReader | None
    config: ConfigSource
    checkpoints: CheckpointSource = field(default_factory=NoCheckpoints)
    pods: PodBook = field(default_factory=NoPods)
    policy: str | None = None
    scope: str | None = None
    version: Callable[[], str | None] | None = None
    reserved_cpus: CpuSet = field(default_factory=CpuSet)
    exclude_terminal: bool = True
    refresh: bool = True
    metrics: ExporterMetrics | None = None
    annotations: tuple[AnnotationReader, ...] = ()
    connections: Callable[[frozenset[str]], Awaitable[Connected]] | None = None
    _allocatable: AllocatableResources | None = None
    # The process that was asked last, and whether it has been seen to have all its pods.
    _incarnation: object = None
    _loaded: bool = False
    # Whether state files and configuration have been seen to agree: a difference is news then.
    _agreed: bool = False

    async def read(self) -> NodeInputs:
        """Return what the node is and holds now.

        Raises:
            KubeletUnavailable: the kubelet does not answer, or not truly yet.
        """
        hardware = await self.hardware()
        try:
            answers = await self._consistent(hardware)
        except KubeletNotReady:
            raise
        except KubeletUnavailable:
            await self._require_usable_state(hardware)
            raise
        checkpoints = with_api_uids(answers.checkpoints, self.pods.aliases())
        kubelet = await self._facts(checkpoints)
        self._require_ready(answers, kubelet)
        names = [(pod.namespace, pod.name) for pod in answers.pods]
        uids = await self.pods.uids(names, held_uids(checkpoints))
        pods = admitted_pods(answers.pods, uids, answers.admitted)
        known = {uids[name]: pod for pod in pods if (name := (pod.namespace, pod.name)) in uids}
        return NodeInputs(
            hardware=hardware,
            allocatable=self._without_reserved(answers.allocatable),
            pods=pods,
            kubelet=kubelet,
            checkpoints=without_dropped_devices(checkpoints, known),
            uids=uids,
            terminal=self.pods.terminal() if self.exclude_terminal else frozenset(),
            annotations=tuple(reader.read() for reader in self.annotations),
            connected=await self._connected(answers),
        )

    async def _connected(self, answers: _Answers) -> Connected:
        """Return how the devices are connected that can be given out or are held."""
        if self.connections is None:
            return UNKNOWN
        entries = chain(
            answers.allocatable.devices,
            (
                entry
                for pod in answers.pods
                for container in pod.containers
                for entry in container.devices
            ),
        )
        return await self.connections(frozenset(id_ for entry in entries for id_ in entry.ids))

    async def _facts(self, checkpoints: Checkpoints) -> KubeletFacts:
        """Return what is known of the kubelet's configuration, or why it is not."""
        facts = await self._known(checkpoints)
        trouble = state_trouble(facts)
        self._agreed = self._agreed or not trouble
        told = trouble if self._agreed else ""
        facts = replace(facts, state_trouble=told or group_trouble(checkpoints.memory))
        if self._agreed or not isinstance(self.config, FirstOf):
            return facts
        # The file is not the whole truth: flags win over it.
        return replace(facts, config=await self.config.running() or facts.config)

    async def _require_usable_state(self, hardware: Hardware) -> None:
        """Look whether the kubelet, which is away, can start again.

        Raises:
            KubeletWillNotStart: it cannot, for its state files.
        """
        checkpoints = self.checkpoints.read()
        facts = await self._known(checkpoints)
        trouble = (
            state_trouble(facts)
            or group_trouble(checkpoints.memory)
            or start_trouble(facts, hardware.machine, checkpoints.files)
        )
        if trouble:
            raise KubeletWillNotStart(nrt_names.WILL_NOT_START + trouble)

    async def _known(self, checkpoints: Checkpoints) -> KubeletFacts:
        config = await self.config.read()
        return KubeletFacts(
            topology_policy=self.policy,
            topology_scope=self.scope,
            config=config,
            why_unknown="" if config is not None else self.config.missing(),
            cpu_policy=checkpoints.cpu.policy if checkpoints.cpu else None,
            memory_policy=checkpoints.memory.policy_name if checkpoints.memory else None,
            version=self.version() if self.version is not None else None,
        )

    async def _consistent(self, hardware: Hardware) -> _Answers:
        """Return what the kubelet says and has written, of the same moment if it will hold still.

        If not, the last file that it writes leads to another scan.
        """
        before = self.checkpoints.read()
        for _ in range(_ATTEMPTS):
            admitted = admitted_uids(before, self.pods.aliases()) | self.pods.started()
            allocatable, pods = await self._ask(hardware)
            after = await self._written(allocatable)
            if after is before:
                break
            before = after
        return _Answers(allocatable, pods, after, admitted)

    async def _written(self, allocatable: AllocatableResources) -> Checkpoints:
        """Return the state files, of a moment between admissions if one comes soon."""
        cpus = allocatable.cpu_ids if self.kubelet is not None else ()
        for _ in range(_MOST_LOOKS):
            checkpoints = self.checkpoints.read()
            if not is_half_written(checkpoints, cpus):
                break
            await asyncio.sleep(_WRITE_SECONDS)
        return checkpoints

    def _require_ready(self, answers: _Answers, kubelet: KubeletFacts) -> None:
        """Make sure that the kubelet has started its managers and loaded its pods.

        Raises:
            KubeletNotReady: it has not yet.
        """
        if self.kubelet is None:
            return
        trouble = managers_down(kubelet, answers.allocatable)
        if not trouble and not self._loaded:
            expected = self.pods.expected(answers.admitted)
            trouble = (
                cpus_not_loaded(answers.checkpoints.cpu, answers.pods)
                if expected is None
                else pods_not_loaded(expected, answers.pods)
            )
        if trouble:
            self._allocatable = None
            raise KubeletNotReady(f"the kubelet is not ready: {trouble}")
        self._loaded = True

    async def _ask(
        self, hardware: Hardware
    ) -> tuple[AllocatableResources, tuple[PodResources, ...]]:
        """Return what the kubelet says; forget what is known of it if it says nothing.

        Raises:
            KubeletUnavailable: it does not answer, or is another one in the end than at first.
        """
        kubelet = self.kubelet
        if kubelet is None:
            return whole_machine(hardware), ()
        self._meet(kubelet.incarnation())
        try:
            pods = await self._counted("list", kubelet.list_pods())
            if self.refresh or self._allocatable is None:
                asked = kubelet.allocatable()
                self._allocatable = await self._counted("get_allocatable_resources", asked)
            if kubelet.incarnation() != self._incarnation:
                raise KubeletNotReady("the kubelet is not ready: it has restarted meanwhile")
        except KubeletUnavailable:
            self._loaded, self._incarnation = False, None
            raise
        return self._allocatable, pods

    def _meet(self, incarnation: object) -> None:
        """Forget what is known of the kubelet if this is another one: it has restarted."""
        if incarnation != self._incarnation:
            self._incarnation, self._loaded = incarnation, False
            # It may have another configuration and other devices.
            self._allocatable = None
            self.config.refresh()

    def _without_reserved(self, allocatable: AllocatableResources) -> AllocatableResources:
        if not self.reserved_cpus:
            return allocatable
        kept = tuple(cpu for cpu in allocatable.cpu_ids if cpu not in self.reserved_cpus)
        return replace(allocatable, cpu_ids=kept)

    async def _counted(self, function: str, call: Awaitable[T]) -> T:
        try:
            return await call
        except KubeletUnavailable:
            if self.metrics is not None:
                self.metrics.call_failures.labels(self.metrics.node, function).inc()
            raise
