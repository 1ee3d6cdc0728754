"""The enforcer as an NRI plugin: what containers are to have, before their first instruction.

A pass is made for every new container, so that others have left its CPUs when it starts. Whatever
goes wrong, the container starts nevertheless: an answer that would take too long is not given, and
the pass that follows the container's group mends it, as where there is no NRI.

The runtime keeps what containers were given and writes it again whenever something else of them
changes, so it is updated at every change of a container that has values of its own.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import structlog

from numakube.api.koordinator import keys
from numakube.apps.enforcer.pod_reading import uid_in_groups
from numakube.errors import RuntimeUnavailable
from numakube.kubelet.pod_demand import CONFIG_SOURCE
from numakube.node.cgroups.group_files import CPUS, MEMS, Version
from numakube.node.cgroups.group_names import container_id_of
from numakube.node.cgroups.write_order import Setting
from numakube.node.nri.nri_objects import STOPPED, Cpu, Update
from numakube.node.nri.nri_plugin import DEFAULT_REQUEST_SECONDS, Event
from numakube.values.cpuset import CpuSet

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numakube.apps.enforcer.enforce_loop import Enforcer
    from numakube.apps.enforcer.group_writing import Change, Outcome
    from numakube.apps.enforcer.metrics import EnforcerMetrics
    from numakube.kube.clock import Clock
    from numakube.node.nri.nri_objects import Container, Sandbox
    from numakube.node.nri.nri_plugin import Runtime, Session

ADJUSTED, NOTHING, UNKNOWN, LATE = "adjusted", "nothing", "unknown", "late"
MOST_SECONDS: Final = 1.0
"""No answer takes longer, and none longer than half of what the runtime waits: it hangs up then."""
_API: Final = "api"
_PERIOD: Final = 100_000
_UNLIMITED: Final = -1

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class NriPlugin:
    """Answers a container runtime.

    Attributes:
        runtime: who asks; ``None`` before that is known.
    """

    def __init__(
        self,
        enforcer: Enforcer,
        metrics: EnforcerMetrics,
        clock: Clock,
        *,
        most_seconds: float = MOST_SECONDS,
    ) -> None:
        """Prepare; no answer takes longer than *most_seconds*."""
        self._enforcer = enforcer
        self._most = most_seconds
        self._metrics = metrics
        self._clock = clock
        self._arrival = asyncio.Event()
        self._given: set[str] = set()
        self._gone: set[str] = set()
        self._pending: dict[str, Cpu] = {}
        self._news = asyncio.Event()
        self._sent = asyncio.Event()
        self._sent.set()
        self.runtime: Runtime | None = None

    def pods_changed(self) -> None:
        """Look again for pods that were not known."""
        self._arrival.set()
        self._arrival = asyncio.Event()

    def configured(self, runtime: Runtime) -> None:
        """Hear who the runtime is."""
        self.runtime = runtime

    async def synchronized(
        self, pods: Sequence[Sandbox], containers: Sequence[Container]
    ) -> Sequence[Update]:
        """Hear what runs; return what it is to have, where that is not so."""
        self._enforcer.announced.begin(pods, containers)
        # What an earlier process has given may be taken back by the pass.
        self._given = {one.id for one in containers if one.cpu.cpus or one.cpu.mems}
        uids = {one.id: one.uid for one in pods}
        try:
            async with self._clock.timeout(self._most_seconds()):
                await self._enforcer.step()
        except TimeoutError:
            _log.warning("nri_late", containers=len(containers))
            return []
        decided = {
            one.id: self._decided(uids.get(one.sandbox_id, ""), one)
            for one in containers
            if one.state != STOPPED
        }
        updates = [
            Update(container_id=one, cpu=cpu) for one, cpu in decided.items() if cpu is not None
        ]
        self._given |= {one.container_id for one in updates}
        return updates

    async def creating(self, pod: Sandbox, container: Container) -> Cpu | None:
        """Return what a container is to have that is about to be made."""
        with self._metrics.nri_seconds.time():
            answer, cpu = await self._confined(pod, container)
        self._metrics.nri_containers.labels(answer).inc()
        say = _log.warning if answer in (UNKNOWN, LATE) else _log.debug
        say("nri_container", pod=pod.name, container=container.name, answer=answer)
        return cpu

    async def updating(self, pod: Sandbox, container: Container, wanted: Cpu) -> Cpu | None:
        """Return what a container is to have instead of what the kubelet has *wanted*."""
        cpu = self._decided(pod.uid, container)
        if cpu is not None and cpu.quota is not None and wanted.quota is not None:
            await self._enforcer.declare(container.id, Setting(quota=self._quota_text(wanted)))
        return cpu

    def happened(self, event: Event, pod: Sandbox, container: Container | None) -> None:
        """Hear of something."""
        announced = self._enforcer.announced
        if event is Event.RUN_POD_SANDBOX:
            announced.add_pod(pod)
        elif event is Event.REMOVE_POD_SANDBOX:
            announced.remove_pod(pod.uid)
        elif event is Event.REMOVE_CONTAINER and container is not None:
            announced.remove_container(pod.uid, container.id)
            self._given.discard(container.id)
            self._gone.add(container.id)
        self._enforcer.wake()

    def wrote(self, outcome: Outcome) -> None:
        """Note for the runtime what a pass has changed of containers that it has values of."""
        for change in outcome.changes:
            identity = container_id_of(change.group.rpartition("/")[2])
            if identity in self._given:
                known = self._pending.get(identity, Cpu())
                self._pending[identity] = _with(known, change, self._enforcer.executor.version)
        if self._pending:
            self._sent.clear()
            self._news.set()

    async def tell(self, session: Session) -> None:
        """Tell the runtime of changes, for as long as it is there."""
        while True:
            await self._news.wait()
            self._news.clear()
            updates = [Update(container_id=one, cpu=cpu) for one, cpu in self._pending.items()]
            self._pending.clear()
            await self._send(session, updates)
            if not self._pending:
                self._sent.set()

    async def all_told(self) -> None:
        """Wait until the runtime knows of all changes."""
        await self._sent.wait()

    async def _send(self, session: Session, updates: Sequence[Update]) -> None:
        try:
            failed = await session.update(updates)
        except RuntimeUnavailable as error:
            # The groups are right already; the runtime hears of it when it is back.
            _log.warning("nri_updates_lost", containers=len(updates), error=str(error))
            failed = [one.container_id for one in updates]
        self._metrics.nri_updates.labels("failed").inc(len(failed))
        self._metrics.nri_updates.labels("done").inc(len(updates) - len(failed))

    async def _confined(self, pod: Sandbox, container: Container) -> tuple[str, Cpu | None]:
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
        self._given.add(container.id)
        return ADJUSTED, _cpu(setting)

    async def _known(self, pod: Sandbox, seconds: float) -> bool:
        """Wait for the API to tell of a pod, unless the sandbox says enough; tell whether it did.

        Pods that the kubelet has from elsewhere may never be there.
        """
        if (
            keys.RESOURCE_STATUS in pod.annotations
            or pod.annotations.get(CONFIG_SOURCE, _API) != _API
        ):
            return True
        try:
            async with self._clock.timeout(seconds):
                while pod.uid not in map(uid_in_groups, self._enforcer.knowledge.pods()):
                    await self._arrival.wait()
        except TimeoutError:
            return False
        return True

    def _decided(self, uid: str, container: Container) -> Cpu | None:
        setting = self._enforcer.decided(uid, container.name)
        return None if setting is None else _cpu(setting)

    def _most_seconds(self) -> float:
        waits = DEFAULT_REQUEST_SECONDS if self.runtime is None else self.runtime.request_seconds
        return min(self._most, waits / 2)

    def _wanted(self, cpu: Cpu) -> Setting:
        """Return what the kubelet wants for a container, as its group would have it."""
        return Setting(
            cpus=CpuSet.parse(cpu.cpus).bits,
            mems=CpuSet.parse(cpu.mems).bits,
            quota=self._quota_text(cpu),
        )

    def _quota_text(self, cpu: Cpu) -> str:
        limited = cpu.quota is not None and cpu.quota > 0
        if self._enforcer.executor.version is Version.V1:
            return str(cpu.quota) if limited else Version.V1.unlimited
        return f"{cpu.quota if limited else Version.V2.unlimited} {cpu.period or _PERIOD}"


def _cpu(setting: Setting) -> Cpu:
    """Return what a container is given; a quota is only ever lifted."""
    return Cpu(
        cpus=str(CpuSet(setting.cpus or 0)),
        mems=str(CpuSet(setting.mems or 0)),
        quota=None if setting.quota is None else _UNLIMITED,
    )


def _with(cpu: Cpu, change: Change, version: Version) -> Cpu:
    """Return *cpu* with a file that was written; a set that was emptied cannot be told."""
    if change.file == CPUS:
        return replace(cpu, cpus=change.after)
    if change.file == MEMS:
        return replace(cpu, mems=change.after)
    first, *period = change.after.split()
    quota = _UNLIMITED if first == version.unlimited else int(first)
    return replace(cpu, quota=quota, period=int(period[0]) if period else cpu.period)
