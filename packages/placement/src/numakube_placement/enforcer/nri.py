"""The enforcer as an NRI plugin: what containers are to have, before their first instruction.

A pass is made for every new container, so that others have left its CPUs when it starts. Whatever
goes wrong, the container starts nevertheless: an answer that would take too long is not given, and
the pass that follows the container's group mends it, as where there is no NRI.

The runtime keeps what containers were given, and writes it again whenever something else of them
changes. Groups are written directly; what the runtime should know of them rides on the next answer
to whatever it asks, since it must not be called (`numakube.node.nri.nri_plugin` says why). Until
then no harm is done: when the kubelet changes a container, the runtime asks first.

Without a connection with the runtime, containers are set right after they have started; nothing
else depends on it. Runtimes fail open: they start containers without asking while a plugin is away.
So a lost connection is made again within half a second, and the containers that the runtime tells
of then are set right.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import structlog

from numakube.api.koordinator import keys
from numakube.api.pod import API, CONFIG_SOURCE, by_kubelet_uid
from numakube.errors import RuntimeUnavailable
from numakube.kube.clock import Backoff
from numakube.node.cgroups import CPUS, MEMS, GroupSetting, Version, container_id_of
from numakube.node.nri import (
    STOPPED,
    ConnectedRuntime,
    ContainerAdjustment,
    CpuLimits,
    NriEvent,
    Session,
    Update,
)
from numakube.values.cpuset import CpuSet
from numakube_placement.enforcer.device_variables import variables_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from random import Random

    from numakube.kube.clock import Clock
    from numakube.node.nri import NriContainer, Sandbox
    from numakube_placement.enforcer.enforce_loop import Enforcer
    from numakube_placement.enforcer.group_writing import Outcome, WrittenFile
    from numakube_placement.enforcer.metrics import EnforcerMetrics


ADJUSTED, NOTHING, UNKNOWN, LATE = "adjusted", "nothing", "unknown", "late"
MOST_SECONDS: Final = 1.0
"""No answer takes longer, and none longer than half of what the runtime waits: it hangs up then."""
MOST_RIDING: Final = 16
"""So many updates go with one answer; the runtime makes them one by one, and its caller waits."""
_PERIOD: Final = 100_000
_UNLIMITED: Final = -1

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class NriPlugin:
    """Answers a container runtime.

    Attributes:
        runtime: who asks; without a name before that is known.
    """

    def __init__(
        self,
        enforcer: Enforcer,
        metrics: EnforcerMetrics,
        clock: Clock,
        *,
        most_seconds: float = MOST_SECONDS,
        gives_devices: bool = False,
    ) -> None:
        """Prepare.

        Args:
            enforcer: knows what containers are to have.
            metrics: counts answers.
            clock: limits how long they take.
            most_seconds: no answer takes longer.
            gives_devices: whether containers get variables for the devices allotted to them.
        """
        self._gives_devices = gives_devices
        self._enforcer = enforcer
        self._most = most_seconds
        self._metrics = metrics
        self._clock = clock
        self._arrival = asyncio.Event()
        # What containers have, of those that the runtime knows values of; and of which of them it
        # knows old ones, longest first.
        self._held: dict[str, CpuLimits] = {}
        self._owed: dict[str, None] = {}
        self._gone: set[str] = set()
        self.runtime = ConnectedRuntime(name="", version="")

    def pods_changed(self) -> None:
        """Look again for pods that were not known."""
        self._arrival.set()
        self._arrival = asyncio.Event()

    def configured(self, runtime: ConnectedRuntime) -> None:
        """Hear who the runtime is."""
        self.runtime = runtime

    async def synchronized(
        self, pods: Sequence[Sandbox], containers: Sequence[NriContainer]
    ) -> Sequence[Update]:
        """Hear what runs; return what it is to have, where the runtime has something else."""
        self._enforcer.announced.begin(pods, containers)
        running = {
            container.id: container for container in containers if container.state != STOPPED
        }
        # What an earlier process has given may be taken back by the pass.
        self._held = {
            identity: self._held.get(identity, one.cpu)
            for identity, one in running.items()
            if identity in self._held or one.cpu.cpus or one.cpu.mems
        }
        try:
            async with self._clock.timeout(self._most_seconds()):
                await self._enforcer.step()
        except TimeoutError:
            _log.warning("nri_late", containers=len(containers))
            return []
        uids = {pod.id: pod.uid for pod in pods}
        for identity, one in running.items():
            if (cpu := self._decided(uids.get(one.sandbox_id, ""), one)) is not None:
                self._held[identity] = cpu
        stale = [one for one, cpu in self._held.items() if not _has(running[one].cpu, cpu)]
        self._owed.clear()
        return self._updates(stale)

    async def creating(self, pod: Sandbox, container: NriContainer) -> ContainerAdjustment:
        """Return what a container is to have that is about to be made."""
        with self._metrics.nri_seconds.time():
            answer, cpu = await self._confined(pod, container)
        self._metrics.nri_containers.labels(answer).inc()
        say = _log.warning if answer in (UNKNOWN, LATE) else _log.debug
        say("nri_container", pod=pod.name, container=container.name, answer=answer)
        env = variables_of(pod.annotations, container.name) if self._gives_devices else {}
        return ContainerAdjustment(cpu=cpu, env=env, others=self._riding(container.id))

    async def updating(
        self, pod: Sandbox, container: NriContainer, wanted: CpuLimits
    ) -> ContainerAdjustment:
        """Return what a container is to have instead of what the kubelet has *wanted*."""
        cpu = self._decided(pod.uid, container)
        if cpu is None:
            cpu = self._released(container.id, wanted)
            return ContainerAdjustment(cpu=cpu, others=self._riding(container.id))
        self._held[container.id] = cpu
        if cpu.quota is not None and wanted.quota is not None:
            setting = GroupSetting(quota=self._quota_text(wanted))
            # If a pass takes long, this is still written after it, but the answer is not kept.
            with contextlib.suppress(TimeoutError):
                async with self._clock.timeout(self._most_seconds()):
                    await self._enforcer.declare(container.id, setting)
        return ContainerAdjustment(cpu=cpu, others=self._riding(container.id))

    async def stopping(self, pod: Sandbox, container: NriContainer) -> Sequence[Update]:
        """Return what the runtime does not know yet of other containers."""
        self._enforcer.wake()
        return self._riding(container.id)

    def happened(self, event: NriEvent, pod: Sandbox, container: NriContainer | None) -> None:
        """Hear of something."""
        announced = self._enforcer.announced
        if event is NriEvent.RUN_POD_SANDBOX:
            announced.add_pod(pod)
        elif event is NriEvent.REMOVE_POD_SANDBOX:
            announced.remove_pod(pod.uid)
        elif event is NriEvent.REMOVE_CONTAINER and container is not None:
            announced.remove_container(pod.uid, container.id)
            self._owed.pop(container.id, None)
            if self._held.pop(container.id, None) is not None:
                self._gone.add(container.id)
        self._enforcer.wake()

    def wrote(self, outcome: Outcome) -> None:
        """Note for the runtime what a pass has changed of containers that it has values of."""
        for change in outcome.changes:
            identity = container_id_of(change.group.rpartition("/")[2])
            if identity in self._held:
                known = self._held[identity]
                self._held[identity] = _with(known, change, self._enforcer.executor.version)
                self._owed[identity] = None

    def _riding(self, asked: str) -> list[Update]:
        """Return what goes with an answer about a container, of other containers alone.

        A second word about the same one counts as a quarrel of two plugins, and fails.
        """
        self._owed.pop(asked, None)
        return self._updates(list(self._owed)[:MOST_RIDING])

    def _updates(self, identities: Sequence[str]) -> list[Update]:
        for identity in identities:
            self._owed.pop(identity, None)
        self._metrics.nri_updates.inc(len(identities))
        return [Update(container_id=identity, cpu=self._held[identity]) for identity in identities]

    def _released(self, identity: str, wanted: CpuLimits) -> CpuLimits | None:
        """Return what a container has that is not ours any more, where the kubelet says nothing."""
        held = self._held.get(identity)
        if held is None:
            return None
        return CpuLimits(
            cpus="" if wanted.cpus else held.cpus,
            mems="" if wanted.mems else held.mems,
            quota=held.quota if wanted.quota is None else None,
            period=held.period if wanted.quota is None else None,
        )

    async def _confined(
        self, pod: Sandbox, container: NriContainer
    ) -> tuple[str, CpuLimits | None]:
        announced = self._enforcer.announced
        announced.add_pod(pod)
        announced.add_container(pod.uid, container)
        most = self._most_seconds()
        try:
            async with self._clock.timeout(most):
                known = await self._known(pod, most / 2)
                setting = await self._enforcer.confine(pod.uid, container.name)
                if setting is None:
                    return (NOTHING if known else UNKNOWN), None
                gone, self._gone = self._gone, set()
                wanted = self._wanted(container.cpu)
                await self._enforcer.declare(container.id, wanted, gone=gone)
        except TimeoutError:
            return LATE, None
        self._held[container.id] = cpu = _cpu(setting)
        return ADJUSTED, cpu

    async def _known(self, pod: Sandbox, seconds: float) -> bool:
        """Wait for the API to tell of a pod, unless the sandbox says enough; tell whether it did.

        Pods that the kubelet has from elsewhere may never be there.
        """
        if (
            keys.RESOURCE_STATUS in pod.annotations
            or pod.annotations.get(CONFIG_SOURCE, API) != API
        ):
            return True
        try:
            async with self._clock.timeout(seconds):
                while pod.uid not in by_kubelet_uid(self._enforcer.knowledge.pods()):
                    await self._arrival.wait()
        except TimeoutError:
            return False
        return True

    def _decided(self, uid: str, container: NriContainer) -> CpuLimits | None:
        setting = self._enforcer.decided(uid, container.name)
        return None if setting is None else _cpu(setting)

    def _most_seconds(self) -> float:
        return min(self._most, self.runtime.request_seconds / 2)

    def _wanted(self, cpu: CpuLimits) -> GroupSetting:
        """Return what the kubelet wants for a container, as its group would have it."""
        return GroupSetting(
            cpus=CpuSet.parse(cpu.cpus).bits,
            mems=CpuSet.parse(cpu.mems).bits,
            quota=self._quota_text(cpu),
        )

    def _quota_text(self, cpu: CpuLimits) -> str:
        limited = cpu.quota is not None and cpu.quota > 0
        if self._enforcer.executor.version is Version.V1:
            return str(cpu.quota) if limited else Version.V1.unlimited
        return f"{cpu.quota if limited else Version.V2.unlimited} {cpu.period or _PERIOD}"


def _cpu(setting: GroupSetting) -> CpuLimits:
    """Return what a container is given; a quota is only ever lifted."""
    return CpuLimits(
        cpus=str(CpuSet(setting.cpus or 0)),
        mems=str(CpuSet(setting.mems or 0)),
        quota=None if setting.quota is None else _UNLIMITED,
    )


def _has(has: CpuLimits, wanted: CpuLimits) -> bool:
    """Tell whether a container has all that is wanted for it."""
    sets = ((has.cpus, wanted.cpus), (has.mems, wanted.mems))
    same = all(not want or CpuSet.parse(have) == CpuSet.parse(want) for have, want in sets)
    return same and wanted.quota in (None, has.quota)


def _with(cpu: CpuLimits, change: WrittenFile, version: Version) -> CpuLimits:
    """Return *cpu* with a file that was written; a set that was emptied cannot be told."""
    if change.file == CPUS:
        return replace(cpu, cpus=change.after)
    if change.file == MEMS:
        return replace(cpu, mems=change.after)
    first, *period = change.after.split()
    quota = _UNLIMITED if first == version.unlimited else int(first)
    return replace(cpu, quota=quota, period=int(period[0]) if period else cpu.period)


RETRY_SECONDS: Final = 0.5
_LONGEST_SECONDS: Final = 15.0
"""Between sessions that a runtime ends before it has told what runs: each costs it some work."""


class NriLink:
    """Keeps a plugin connected.

    Attributes:
        trouble: why the runtime does not ask; the empty text while it does.
    """

    def __init__(
        self,
        plugin: NriPlugin,
        metrics: EnforcerMetrics,
        clock: Clock,
        *,
        socket: Path,
        name: str,
        index: str,
        rng: Random,
    ) -> None:
        self._plugin = plugin
        self._metrics = metrics
        self._clock = clock
        self._socket = socket
        self._name = name
        self._index = index
        self._backoff = Backoff(base=RETRY_SECONDS, cap=_LONGEST_SECONDS, rng=rng)
        self.trouble = "not connected yet"

    async def run(self) -> None:
        """Connect, and connect again, until cancelled."""
        while True:
            session = None
            try:
                session = await self._open()
                await self._take_part(session)
                why = "the runtime has closed the connection"
            except RuntimeUnavailable as error:
                why = str(error)
            self._lost(f"{self._socket}: {why}")
            refused = session is not None and not session.started.is_set()
            await self._clock.sleep(self._backoff.next() if refused else RETRY_SECONDS)

    async def say_farewell(self) -> None:
        """Let the runtime hear once more, in answer to what runs, what containers have."""
        with contextlib.suppress(RuntimeUnavailable):
            session = await self._open()
            task = asyncio.ensure_future(session.run())
            started = asyncio.ensure_future(session.started.wait())
            try:
                await asyncio.wait((task, started), return_when=asyncio.FIRST_COMPLETED)
                await session.answered()
            finally:
                for one in (task, started):
                    one.cancel()
                await asyncio.gather(task, started, return_exceptions=True)

    async def _open(self) -> Session:
        """Return a session; nothing is said in it yet.

        Raises:
            RuntimeUnavailable: nobody answers at the socket.
        """
        try:
            reader, writer = await asyncio.open_unix_connection(self._socket)
        except OSError as error:
            raise RuntimeUnavailable(error.strerror or str(error)) from None
        return Session(reader, writer, self._plugin, name=self._name, index=self._index)

    async def _take_part(self, session: Session) -> None:
        """Be a plugin for as long as the runtime is there."""
        connected = asyncio.ensure_future(self._connected(session))
        try:
            await session.run()
        finally:
            connected.cancel()
            await asyncio.gather(connected, return_exceptions=True)
            self._metrics.nri_connected.set(0)

    async def _connected(self, session: Session) -> None:
        await session.started.wait()
        self._backoff.reset()
        self.trouble = ""
        self._metrics.nri_connected.set(1)
        runtime = self._plugin.runtime
        _log.info(
            "nri_connected",
            runtime=runtime.name,
            version=runtime.version,
            way="containers are set before they start",
        )

    def _lost(self, why: str) -> None:
        if why != self.trouble:
            way = "containers are set right after they have started"
            _log.warning("nri_away", why=why, way=way)
        self.trouble = why
