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
from typing import TYPE_CHECKING, Final

import click
import msgspec
import structlog

from numakube.api.yaml_text import dump_yaml
from numakube.apps.exporter.api_pods import WatchedPods
from numakube.apps.exporter.export_loop import Exporter
from numakube.apps.exporter.exporter_assembly import (
    make_file_watch,
    make_kubelet,
    make_own_pod,
    make_publisher,
    make_reader,
    make_silence,
    make_wakeups,
)
from numakube.apps.exporter.exporter_config_file import configuration_files, read_options
from numakube.apps.exporter.fingerprint_status import StatusFile, StatusRing
from numakube.apps.exporter.metrics import ExporterMetrics
from numakube.apps.exporter.node_object import NodeObject
from numakube.apps.exporter.podresources_endpoint import PodResourcesEndpoint
from numakube.apps.exporter.report import topology_of
from numakube.apps.exporter.scan_wakeups import Trigger, Wakeup
from numakube.apps.exporter.settings import DUMP_AND_EXIT, DUMP_TO_LOG, JSON, SETTINGS
from numakube.apps.host.common_settings import cluster_of
from numakube.apps.host.endpoint_access import Access
from numakube.apps.host.http_serving import Health, Serving
from numakube.apps.host.process_metrics import new_registry
from numakube.apps.host.program import KLOG, OtherFlags, Program
from numakube.errors import ConfigError
from numakube.kube.connect import connect

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from numakube.api.nrt import NodeResourceTopology
    from numakube.apps.exporter.exporter_config_file import ExporterOptions
    from numakube.apps.exporter.node_scan import NodeReader
    from numakube.apps.exporter.report import Report
    from numakube.apps.host.process_life import Surroundings
    from numakube.apps.host.settings_sources import Values
    from numakube.kube.client import Client

FAILED: Final = 1
_PODS_SECONDS: Final = 2.0
_ONE_LOOK: Final = Wakeup(frozenset({Trigger.START}))

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


async def read_once(options: ExporterOptions, around: Surroundings) -> NodeResourceTopology:
    """Return what would be published; with ``--no-kubelet`` from sysfs alone.

    A cluster is asked for what it knows of the node if a kubeconfig is given, and only then.

    Raises:
        KubeletUnavailable: the kubelet does not answer.
        ConfigError: the kubeconfig makes no sense.
    """
    chosen, asks = options.report_options(), not options.settings.run.no_kubelet
    async with AsyncExitStack() as stack:
        reader = await _one_look(options, around, stack)
        inputs = await reader.read()
    if not asks:
        # No kubelet was asked, so that it is not known is no news.
        chosen = replace(chosen, exact=False)
        inputs = replace(inputs, kubelet=replace(inputs.kubelet, why_unknown=""))
    report = topology_of(inputs, chosen, cause=_ONE_LOOK.cause)
    for problem in report.problems:
        _log.warning("odd_fact", kind=str(problem.kind), detail=str(problem))
    return report.topology(options.node_name)


async def _one_look(
    options: ExporterOptions, around: Surroundings, stack: AsyncExitStack
) -> NodeReader:
    """Return a reader that knows what it will; *stack* closes it."""
    client = node = pods = None
    if options.settings.connection.kubeconfig:
        config = cluster_of(options.settings.connection, env=around.env, root=around.root)
        client = await stack.enter_async_context(
            connect(config, clock=around.clock, env=around.env, user_agent="numakube-exporter")
        )
        node = NodeObject(client, options.node_name)
        pods = WatchedPods(client, options.node_name, lambda: None)
        await node.refresh()
        watch = asyncio.create_task(pods.run())
        stack.callback(watch.cancel)
        await _known(pods, around)
    return make_reader(options, around, client=client, node=node, pods=pods)


async def _known(pods: WatchedPods, around: Surroundings) -> None:
    """Wait a little for the pods, so that the first report has their uids."""
    with contextlib.suppress(TimeoutError):
        async with around.clock.timeout(_PODS_SECONDS):
            await pods.known()


async def run(options: ExporterOptions, around: Surroundings, stop: asyncio.Event) -> int:
    """Export until *stop* is set, or do once what is asked for; return the exit code.

    Raises:
        ConfigError: it cannot even start.
    """
    asked = options.settings.run
    if options.notes:
        _log.warning("settings_without_effect", settings="; ".join(options.notes))
    if asked.dump_config:
        _dump(options, asked.dump_config, around)
        if asked.dump_config == DUMP_AND_EXIT:
            return 0
    if asked.dry_run:
        around.echo(_written(await read_once(options, around), asked.output))
        return 0
    config = cluster_of(options.settings.connection, env=around.env, root=around.root)
    async with connect(
        config, clock=around.clock, env=around.env, user_agent="numakube-exporter"
    ) as client:
        return await ExporterProcess(options, around, client).run(stop)


def _dump(options: ExporterOptions, where: str, around: Surroundings) -> None:
    """Write what the exporter was told to where RTE would."""
    text = dump_yaml(_configuration(options))
    if where in ("-", DUMP_AND_EXIT):
        around.echo(text)
    elif where == DUMP_TO_LOG:
        _log.info("configuration", settings=text)
    else:
        try:
            around.locate(where).write_text(text, encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"--dump-config {where}: {error.strerror}") from None


def _configuration(options: ExporterOptions) -> Values:
    """Return every setting but those of this call alone, by name, and what is excluded."""
    settings, excluded = options.settings, options.exclusions
    values = SETTINGS.flat(settings)
    return {
        **{name: value for name, value in values.items() if not hasattr(settings.run, name)},
        "resource_exclude": {node: list(names) for node, names in excluded.resources.items()},
        "pod_exclude": [
            {"namespacePattern": one.namespace, "namePattern": one.name} for one in excluded.pods
        ],
    }


def _written(topology: NodeResourceTopology, form: str) -> str:
    tree = msgspec.to_builtins(topology)
    # As people write objects: what it is comes first.
    tree = {name: tree.pop(name) for name in ("apiVersion", "kind")} | tree
    if form == JSON:
        return msgspec.json.format(msgspec.json.encode(tree)).decode()
    return dump_yaml(tree)


class ExporterProcess:
    """A running exporter with everything around its loop."""

    def __init__(self, options: ExporterOptions, around: Surroundings, client: Client) -> None:
        settings = options.settings
        self._options = options
        self._around = around
        self._wakeups = make_wakeups(settings, around.clock)
        self._watch = make_file_watch(settings, around, self._wakeups)
        self._registry = new_registry("exporter")
        self._metrics = ExporterMetrics(options.node_name, self._registry)
        self._node = NodeObject(client, options.node_name)
        self._client = client
        self._pods = self._watched(client)
        self.exporter = Exporter(
            source=make_reader(
                options,
                around,
                client=client,
                node=self._node,
                pods=self._pods,
                metrics=self._metrics,
            ),
            publisher=make_publisher(settings, client, self._node),
            wakeups=self._wakeups,
            options=options.report_options(),
            clock=around.clock,
            metrics=self._metrics,
            stale_after=settings.publishing.stale_after,
            pod=make_own_pod(settings, client),
            silence=make_silence(settings, self._pods, client),
            on_report=self._keepers(),
        )

    def _watched(self, client: Client) -> WatchedPods | None:
        settings, noted = self._options.settings, Trigger.POD
        if not settings.reading.watch_pods and not settings.content.koordinator:
            return None
        return WatchedPods(client, self._options.node_name, lambda: self._wakeups.note(noted))

    async def run(self, stop: asyncio.Event) -> int:
        """Export until *stop* is set, or once; return the exit code."""
        _log.info("exporter_started", node=self._options.node_name)
        async with AsyncExitStack() as stack:
            await self._serve(stack)
            async with asyncio.TaskGroup() as tasks:
                jobs = [tasks.create_task(job) for job in (*self._jobs(), self._end_with(stop))]
                code = await (
                    self._once() if self._options.settings.publishing.oneshot else self._forever()
                )
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
        return 0 if await self.exporter.step(_ONE_LOOK) else FAILED

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
        content, name, around = (
            self._options.settings.content,
            self._options.node_name,
            self._around,
        )
        if not content.fingerprint:
            return ()
        keepers: list[Callable[[Report], None]] = []
        if path := content.fingerprint_file:
            keepers.append(StatusFile(around.locate(path), name).keep)
        if folder := content.fingerprint_dir:
            ring = StatusRing(around.locate(folder), name, around.clock)
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
        access = Access(self._client, host=listen.host)
        kubelet = make_kubelet(self._options.settings, self._around)
        routes = PodResourcesEndpoint(self._options.node_name, kubelet).routes(access)
        serving = Serving(placed, health=health, registry=self._registry, routes=routes)
        server = await stack.enter_async_context(serving)
        _log.info("serving", url=server.url)


def _read(flags: Values, around: Surroundings) -> ExporterOptions:
    asked = SETTINGS.resolve(env={}, flags=flags).run
    if asked.no_kubelet and not asked.dry_run:
        raise click.UsageError("--no-kubelet goes with --dry-run only.")
    files = configuration_files(asked.config, asked.roots, around.locate)
    return read_options(flags, env=around.env, files=files)


_ABOUT: Final = """\
Reads the kubelet and sysfs, and writes the node's NodeResourceTopology whenever something changes.
Settings come from files, the environment (in brackets) and flags; flags win. ROOT is a folder with
daemon/config.yaml, daemon/config.yaml.d/ and extra/config.yaml.
"""

PROGRAM: Final = Program(
    name="exporter",
    about=_ABOUT,
    settings=SETTINGS,
    read=_read,
    run=run,
    # Of RTE: objects are always patched, and ciphers are those of Python's ssl.
    other=KLOG + OtherFlags(values=("metrics-tls-cipher-suites",), switches=("patch-mode",)),
)
