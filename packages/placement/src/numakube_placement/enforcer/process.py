"""The enforcer as a process: from settings to an exit code.

    code = await run(settings, Surroundings(), stop)

The same function runs it as a program of its own, as a container of the lab, and in tests: what
surrounds it is given.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import click
import structlog

from numakube.api.checkpoints import CPU_STATE
from numakube.apps.host import Access
from numakube.apps.host.common_settings import cluster_of, listen_of
from numakube.apps.host.http_serving import Health, Serving
from numakube.apps.host.process_life import new_registry
from numakube.apps.host.program import Program
from numakube.apps.host.settings_sources import is_enabled, require
from numakube.kube import EventRecorder, Reflector
from numakube.kube.catalog import NODES, PODS
from numakube.kube.connect import connect
from numakube.node.cgroups import CgroupFiles, GroupWatch, detect
from numakube_placement.enforcer.allowed_cpus import MachineReader
from numakube_placement.enforcer.enforce_loop import Enforcer
from numakube_placement.enforcer.enforcer_state_file import OriginalsFile
from numakube_placement.enforcer.group_writing import GroupWriter, Outcome
from numakube_placement.enforcer.metrics import EnforcerMetrics, Reporter
from numakube_placement.enforcer.nri import NriLink, NriPlugin
from numakube_placement.enforcer.settings import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from numakube.api.nodes import Node
    from numakube.api.pod import Pod
    from numakube.apps.host.process_life import Surroundings
    from numakube.apps.host.settings_sources import Values
    from numakube.kube import Client
    from numakube_placement.enforcer.settings import EnforcerSettings

COMPONENT: Final = "numakube-enforcer"
FAILED: Final = 1
_EVENT_SECONDS: Final = 10.0
_END_SECONDS: Final = 5.0

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


def make_executor(settings: EnforcerSettings, around: Surroundings) -> GroupWriter:
    """Return what changes groups.

    Raises:
        ConfigError: there are no groups to change, or no place for state.
    """
    return GroupWriter(
        _groups(settings, around),
        OriginalsFile(around.locate(settings.state_dir)),
        parent=settings.cgroup_parent,
        quota=settings.unset_quota,
        dry_run=settings.dry_run,
    )


async def run(settings: EnforcerSettings, around: Surroundings, stop: asyncio.Event) -> int:
    """Enforce until *stop* is set, or do once what is asked for; return the exit code.

    Raises:
        ConfigError: it cannot even start.
    """
    if settings.restore_only:
        outcome = make_executor(settings, around).restore()
        _print(outcome, around.echo)
        return FAILED if outcome.refused else 0
    config = cluster_of(settings.connection, env=around.env, root=around.root)
    async with connect(config, clock=around.clock, env=around.env, user_agent=COMPONENT) as client:
        process = EnforcerProcess(settings, around, client)
        if settings.once or settings.dry_run:
            return await process.once(stop)
        return await process.run(stop)


class EnforcerProcess:
    """A running enforcer with everything around its loop."""

    def __init__(self, settings: EnforcerSettings, around: Surroundings, client: Client) -> None:
        self._settings = settings
        self._around = around
        self._client = client
        name = settings.node_name or socket.gethostname()
        self._name = name
        self._registry = new_registry("enforcer")
        self._pods: Reflector[Pod] = Reflector(client, PODS, fields=f"spec.nodeName={name}")
        self._node: Reflector[Node] = Reflector(client, NODES, fields=f"metadata.name={name}")
        self._events = EventRecorder(client, component=COMPONENT, instance=name)
        state = around.locate(settings.kubelet_dir) / CPU_STATE
        self._groups = _groups(settings, around)
        self._watch = GroupWatch(self._wake)
        self._kubelet = state.parent
        metrics = EnforcerMetrics(self._registry)
        self.enforcer = Enforcer(
            knowledge=self,
            reader=MachineReader(
                sysfs=around.locate(settings.sysfs), cpu_state=state, memory=settings.memory
            ),
            executor=make_executor(settings, around),
            reporter=Reporter(None if settings.dry_run else self._events),
            metrics=metrics,
            clock=around.clock,
            period=settings.period,
            watched=self._watch_groups,
            wrote=lambda outcome: self._plugin.wrote(outcome),
        )
        self._plugin = NriPlugin(
            self.enforcer, metrics, around.clock, gives_devices=settings.devices
        )
        self._link = NriLink(
            self._plugin,
            metrics,
            around.clock,
            socket=around.locate(settings.nri_socket),
            name=settings.nri_name,
            index=settings.nri_index,
            rng=client.rng,
        )
        self._pods.store.subscribe(lambda _: self._wake())
        self._pods.store.subscribe(lambda _: self._plugin.pods_changed())
        self._node.store.subscribe(lambda _: self._wake())

    def pods(self) -> Sequence[Pod]:
        """Return the node's pods."""
        return list(self._pods.store.values())

    def node_annotations(self) -> Mapping[str, str]:
        """Return the annotations of the node."""
        return next((node.metadata.annotations for node in self._node.store.values()), {})

    async def run(self, stop: asyncio.Event) -> int:
        """Enforce until *stop* is set; then put things back, if that is wanted."""
        _log.info("enforcer_started", node=self._name, version=int(self._groups.version))
        async with AsyncExitStack() as stack:
            await self._serve(stack)
            async with asyncio.TaskGroup() as tasks:
                jobs = [tasks.create_task(job) for job in (*self._jobs(), self._end_with(stop))]
                self._watch.open()
                try:
                    if await self._all_known(stop):
                        if self._settings.nri != "off":
                            jobs.append(tasks.create_task(self._link.run()))
                        await self.enforcer.run(stop)
                finally:
                    self._watch.close()
                    if self._settings.restore:
                        await self.enforcer.restore()
                for job in jobs:
                    job.cancel()
            await self._tell_runtime()
        _log.info("enforcer_ended", node=self._name)
        return 0

    async def once(self, stop: asyncio.Event) -> int:
        """Make one pass, print what it did, and return the exit code."""
        async with asyncio.TaskGroup() as tasks:
            jobs = [tasks.create_task(job) for job in (*self._jobs(), self._end_with(stop))]
            outcome = None
            if await self._all_known(stop):
                outcome = await self.enforcer.step()
                with contextlib.suppress(TimeoutError):
                    async with self._around.clock.timeout(_EVENT_SECONDS):
                        await self._events.flush()
            for job in jobs:
                job.cancel()
        self._watch.close()
        if outcome is None:
            return FAILED
        _print(outcome, self._around.echo)
        return FAILED if outcome.trouble or outcome.refused else 0

    async def _all_known(self, stop: asyncio.Event) -> bool:
        """Wait until all pods are known; tell whether they are."""
        waiting = [asyncio.ensure_future(one) for one in (self._synced(), stop.wait())]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for one in waiting:
            one.cancel()
        return not stop.is_set()

    async def _synced(self) -> None:
        await self._pods.synced.wait()
        await self._node.synced.wait()

    async def _end_with(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self._wake()

    async def _tell_runtime(self) -> None:
        """Let the runtime hear what was put back, if it was there."""
        if not self._settings.restore or self._link.trouble:
            return
        with contextlib.suppress(TimeoutError):
            async with self._around.clock.timeout(_END_SECONDS):
                await self._link.say_farewell()

    def _watch_groups(self, groups: Sequence[str]) -> None:
        self._watch.watch([self._kubelet, *map(self._groups.path, groups)])

    def _wake(self) -> None:
        self.enforcer.wake()

    def _jobs(self) -> list[Coroutine[None, None, None]]:
        return [self._pods.run(), self._node.run(), self._events.run()]

    async def _serve(self, stack: AsyncExitStack) -> None:
        if not self._around.serve:
            return
        health = Health()
        health.ready("pods", lambda: "" if self._pods.synced.is_set() else "not listed yet")
        health.ready("node", lambda: "" if self._node.synced.is_set() else "not listed yet")
        health.ready("groups", lambda: self.enforcer.trouble)
        health.ready("enforced", self.enforcer.unenforced)
        if self._settings.nri == "on":
            health.ready("nri", lambda: self._link.trouble)
        listen = self._around.placed(listen_of(self._settings.serving, locate=self._around.locate))
        access = Access(self._client, host=listen.host)
        serving = Serving(listen, health=health, registry=self._registry, access=access)
        _log.info("serving", url=(await stack.enter_async_context(serving)).url)


def _groups(settings: EnforcerSettings, around: Surroundings) -> CgroupFiles:
    return CgroupFiles(detect(around.locate(settings.cgroup_root)))


def _print(outcome: Outcome, echo: Callable[[str], None]) -> None:
    """Print one line a file: whose it is, what it was, and what it is to be."""
    for change in outcome.changes:
        whose = f"{change.owner.pod} {change.owner.container}" if change.owner.pod else "-"
        before, after = change.before or "(inherit)", change.after or "(inherit)"
        echo(f"{whose}\t{change.group}/{change.file}\t{before} -> {after}")
    for refused in outcome.refused:
        echo(f"refused: {refused.owner.pod or '-'}\t{refused.group}\t{refused.why}")
    if outcome.trouble:
        echo(f"nothing done: {outcome.trouble}")


_NRI_GATE: Final = "EnforcerNRI"


def _read(flags: Values, around: Surroundings) -> EnforcerSettings:
    settings = SETTINGS.read(flags, around)
    if settings.once and settings.restore_only:
        raise click.UsageError("--once and --restore exclude each other.")
    if settings.nri == "on":
        require(_NRI_GATE, "--nri on")
    return settings if is_enabled(_NRI_GATE) else replace(settings, nri="off")


_ABOUT: Final = """\
For nodes whose kubelet aligns nothing. Sets CPUs and memory nodes of control groups, version 1 or
2, keeps other pods off CPUs that a pod has for itself, repairs what others change, and puts
everything back at the end.
"""

PROGRAM: Final = Program(
    name="enforcer",
    about=_ABOUT,
    settings=SETTINGS,
    read=_read,
    run=run,
)
