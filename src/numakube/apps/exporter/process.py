"""The exporter as a process: from options to an exit code.

    code = await run(options, Surroundings(), stop)

The same function runs it as a program of its own, as a container of the lab, and in tests: what
surrounds it is given.
"""

from __future__ import annotations

import asyncio
import contextlib
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

import structlog

from numakube.apps.exporter.building import (
    make_checkpoints,
    make_config_source,
    make_dial,
    make_file_watch,
    make_koordinator_source,
    make_own_pod,
    make_publisher,
    make_wakeups,
)
from numakube.apps.exporter.exporter import Exporter
from numakube.apps.exporter.fingerprint_status import StatusFile, StatusRing
from numakube.apps.exporter.kubelet_config import ConfigFile
from numakube.apps.exporter.metrics import ExporterMetrics
from numakube.apps.exporter.node_object import NodeObject
from numakube.apps.exporter.pod_book import NoPods, WatchedPods
from numakube.apps.exporter.report import topology_of
from numakube.apps.exporter.sources import NodeReader
from numakube.apps.exporter.sysfs import HardwareReader
from numakube.apps.exporter.wakeups import Trigger, Wakeup
from numakube.apps.host.common_settings import cluster_of
from numakube.apps.host.metrics import new_registry
from numakube.apps.host.serving import Health, Serving
from numakube.kube.connect import connect

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from numakube.api.nrt import NodeResourceTopology
    from numakube.apps.exporter.configuration import ExporterOptions
    from numakube.apps.exporter.report import Report
    from numakube.apps.host.surroundings import Surroundings
    from numakube.kube.client import Client

FAILED: Final = 1
_PODS_SECONDS: Final = 2.0
_ONE_LOOK: Final = Wakeup(frozenset({Trigger.START}))

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


async def read_once(
    options: ExporterOptions, around: Surroundings, *, kubelet: bool = True
) -> NodeResourceTopology:
    """Return what would be published; without *kubelet*, from sysfs alone.

    A cluster is asked for what it knows of the node if a kubeconfig is given, and only then.

    Raises:
        KubeletUnavailable: the kubelet does not answer.
        ConfigError: the kubeconfig makes no sense.
    """
    chosen = options.report_options()
    async with AsyncExitStack() as stack:
        reader = await _one_look(options, around, stack, asks=bool(options["kubeconfig"]))
        if not kubelet:
            reader.dial = None
            reader.config = ConfigFile(around.locate(options["kubelet_config_file"]))
            chosen = replace(chosen, exact=False)
        inputs = await reader.read()
    if not kubelet:
        # Nobody was asked, so that it is not known is no news.
        inputs = replace(inputs, kubelet=replace(inputs.kubelet, why_unknown=""))
    report = topology_of(inputs, chosen, cause=_ONE_LOOK.cause)
    for problem in report.problems:
        _log.warning("odd_fact", kind=str(problem.kind), detail=str(problem))
    return report.topology(options.node_name)


async def _one_look(
    options: ExporterOptions, around: Surroundings, stack: AsyncExitStack, *, asks: bool
) -> NodeReader:
    """Return a reader that knows what it will; *stack* closes it."""
    client = node = pods = None
    if asks:
        config = cluster_of(options.values, env=around.env, root=around.root)
        client = await stack.enter_async_context(
            connect(config, clock=around.clock, env=around.env, user_agent="numakube-exporter")
        )
        node = NodeObject(client, options.node_name)
        pods = WatchedPods(client, options.node_name, lambda: None)
        await node.refresh()
        watch = asyncio.create_task(pods.run())
        stack.callback(watch.cancel)
        await _known(pods, around)
    reader = _reader(options, around, client=client, node=node)
    stack.push_async_callback(reader.aclose)
    if node is not None and pods is not None:
        reader.version, reader.pods = (lambda: node.kubelet_version), pods
    if options["koordinator"]:
        reader.koordinator = make_koordinator_source(options, around, node, pods)
    return reader


async def _known(pods: WatchedPods, around: Surroundings) -> None:
    """Wait a little for the pods, so that the first report has their uids."""
    with contextlib.suppress(TimeoutError):
        async with around.clock.timeout(_PODS_SECONDS):
            await pods.known()


async def run(options: ExporterOptions, around: Surroundings, stop: asyncio.Event) -> int:
    """Export until *stop* is set, or once; return the exit code.

    Raises:
        ConfigError: it cannot even start.
    """
    config = cluster_of(options.values, env=around.env, root=around.root)
    async with connect(
        config, clock=around.clock, env=around.env, user_agent="numakube-exporter"
    ) as client:
        return await ExporterProcess(options, around, client).run(stop)


class ExporterProcess:
    """A running exporter with everything around its loop."""

    def __init__(self, options: ExporterOptions, around: Surroundings, client: Client) -> None:
        self._options = options
        self._around = around
        self._wakeups = make_wakeups(options, around.clock)
        self._watch = make_file_watch(options, around, self._wakeups)
        self._registry = new_registry("exporter")
        self._metrics = ExporterMetrics(options.node_name, self._registry)
        self._node = node = NodeObject(client, options.node_name)
        reader = _reader(options, around, client=client, node=node)
        reader.metrics = self._metrics
        reader.version = lambda: node.kubelet_version
        self._pods: WatchedPods | None = None
        if options["watch_pods"] or options["koordinator"]:
            noted = Trigger.POD
            self._pods = WatchedPods(client, options.node_name, lambda: self._wakeups.note(noted))
            reader.pods = self._pods
        if options["koordinator"]:
            reader.koordinator = make_koordinator_source(options, around, node, self._pods)
        self.exporter = Exporter(
            source=reader,
            publisher=make_publisher(options, client, node),
            wakeups=self._wakeups,
            options=options.report_options(),
            clock=around.clock,
            metrics=self._metrics,
            stale_after=options["stale_after"],
            pod=make_own_pod(options, client),
            on_report=self._keepers(),
        )

    async def run(self, stop: asyncio.Event) -> int:
        """Export until *stop* is set, or once; return the exit code."""
        _log.info("exporter_started", node=self._options.node_name)
        async with AsyncExitStack() as stack:
            await self._serve(stack)
            async with asyncio.TaskGroup() as tasks:
                jobs = [tasks.create_task(job) for job in (*self._jobs(), self._end_with(stop))]
                code = await (self._once() if self._options["oneshot"] else self._forever())
                for job in jobs:
                    job.cancel()
        _log.info("exporter_ended", node=self._options.node_name)
        return code

    async def _forever(self) -> int:
        await self._know_pods()
        await self.exporter.run()
        return 0

    async def _know_pods(self) -> None:
        """Learn of Node and pods, so that the first report has version and uids."""
        await self._node.refresh()
        if self._pods is not None:
            await _known(self._pods, self._around)

    async def _once(self) -> int:
        await self._know_pods()
        try:
            done = await self.exporter.step(_ONE_LOOK)
        finally:
            await self.exporter.source.aclose()
        return 0 if done else FAILED

    async def _end_with(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self._wakeups.close()

    def _jobs(self) -> list[Coroutine[None, None, None]]:
        jobs = [self._watch.run()]
        if self._pods is not None:
            jobs.append(self._pods.run())
        return jobs

    def _keepers(self) -> tuple[Callable[[Report], None], ...]:
        """Return what keeps the pods behind fingerprints."""
        options, around = self._options, self._around
        if not options["fingerprint"]:
            return ()
        keepers: list[Callable[[Report], None]] = []
        if path := options["fingerprint_file"]:
            keepers.append(StatusFile(around.locate(path), options.node_name).keep)
        if folder := options["fingerprint_dir"]:
            ring = StatusRing(around.locate(folder), options.node_name, around.clock)
            keepers.append(ring.keep)
        return tuple(keepers)

    async def _serve(self, stack: AsyncExitStack) -> None:
        listen = self._options.listen(self._around.locate) if self._around.serve else None
        if listen is None:
            return
        health = Health()
        health.ready("kubelet", lambda: self.exporter.kubelet_trouble)
        health.ready("object", lambda: self.exporter.publish_trouble)
        placed = self._around.placed(listen)
        serving = Serving(placed, health=health, registry=self._registry)
        server = await stack.enter_async_context(serving)
        _log.info("serving", url=server.url)


def _reader(
    options: ExporterOptions,
    around: Surroundings,
    *,
    client: Client | None,
    node: NodeObject | None,
) -> NodeReader:
    return NodeReader(
        hardware=partial(asyncio.to_thread, HardwareReader(around.locate(options["sysfs"])).read),
        dial=make_dial(options, around),
        config=make_config_source(options, around, client, node),
        checkpoints=make_checkpoints(options, around),
        pods=NoPods(),
        policy=options["policy"] or None,
        scope=options["scope"] or None,
        reserved_cpus=options.reserved_cpus(),
        exclude_terminal=options["exclude_terminal_pods"],
        refresh=options["refresh"],
    )
