"""The exporter as a process: its parts, made from its options, until an exit code.

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
from random import Random
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import click
import msgspec
import structlog

from numakube.api.yaml_text import dump_yaml
from numakube.apps.exporter.api_objects import NodeObject, NoPods, WatchedPods
from numakube.apps.exporter.debug_outputs import PodResourcesEndpoint, StatusFile, StatusRing
from numakube.apps.exporter.export_loop import Exporter, OwnPod
from numakube.apps.exporter.exporter_config_file import configuration_files, read_options
from numakube.apps.exporter.kubelet_checkpoints import CHOICES, STATE_FILES, StateFolder
from numakube.apps.exporter.kubelet_config_sources import (
    ApiConfigz,
    CommandLine,
    ConfigFile,
    FirstOf,
    KubeletConfigz,
    NodeConfigz,
    file_of_uri,
)
from numakube.apps.exporter.metrics import ExporterMetrics
from numakube.apps.exporter.node_scan import NoCheckpoints, NodeReader
from numakube.apps.exporter.nrt_writer import Nowhere, ObjectPublisher
from numakube.apps.exporter.numa_hardware import HardwareReader
from numakube.apps.exporter.report import topology_of
from numakube.apps.exporter.scan_wakeups import Trigger, Wakeup, Wakeups
from numakube.apps.exporter.settings import DUMP_AND_EXIT, DUMP_TO_LOG, JSON, SETTINGS
from numakube.apps.host.common_settings import cluster_of
from numakube.apps.host.endpoint_access import Access
from numakube.apps.host.http_serving import Health, Serving
from numakube.apps.host.process_life import new_registry, work_until
from numakube.apps.host.program import KLOG, OtherFlags, Program
from numakube.errors import ConfigError
from numakube.kube.connect import connect
from numakube.node.file_watch import FileWatch
from numakube.node.pci.device_links import DevicePaths
from numakube.node.podresources_client import FakePodResources, PodResourcesClient

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

    from prometheus_client import CollectorRegistry

    from numakube.api.nrt import NodeResourceTopology
    from numakube.apps.exporter.exporter_config_file import ExporterOptions
    from numakube.apps.exporter.kubelet_config_sources import ConfigSource
    from numakube.apps.exporter.node_scan import CheckpointSource, PodResourcesReader
    from numakube.apps.exporter.nrt_writer import Publisher
    from numakube.apps.exporter.report import Report
    from numakube.apps.exporter.report_annotations import AnnotationReader, ReportAnnotations
    from numakube.apps.exporter.settings import ExporterSettings, ReadingSettings
    from numakube.apps.exporter.surprises import Silence
    from numakube.apps.host.process_life import Surroundings
    from numakube.apps.host.settings_sources import Values
    from numakube.kube.client import Client
    from numakube.kube.clock import Clock
    from numakube.node.pci.device_links import Connected


# The exporter's parts, made from its settings.


_CALL_SECONDS: Final = 10.0


def make_reader(
    options: ExporterOptions,
    around: Surroundings,
    *,
    client: Client | None = None,
    node: NodeObject | None = None,
    pods: WatchedPods | None = None,
    metrics: ExporterMetrics | None = None,
    annotations: tuple[AnnotationReader, ...] = (),
) -> NodeReader:
    """Return what reads the node, with what the cluster knows of it if there is one.

    Raises:
        ConfigError: the settings make no sense.
    """
    settings = options.settings
    reading, content = settings.reading, settings.content
    asks = not settings.run.no_kubelet
    return NodeReader(
        hardware=partial(asyncio.to_thread, make_hardware(settings, around).read),
        kubelet=make_kubelet(settings, around) if asks else None,
        config=make_config_source(settings, around, client, node)
        if asks
        else ConfigFile(around.locate(reading.kubelet_config_file)),
        checkpoints=make_checkpoints(settings, around),
        pods=NoPods() if pods is None else pods,
        policy=reading.policy or None,
        scope=reading.scope or None,
        version=None if node is None else lambda: node.kubelet_version,
        reserved_cpus=options.reserved_cpus(),
        exclude_terminal=content.exclude_terminal_pods,
        refresh=content.refresh,
        metrics=metrics,
        annotations=annotations,
        connections=make_connections(reading, around) if content.exact else None,
    )


def make_connections(
    reading: ReadingSettings, around: Surroundings
) -> Callable[[frozenset[str]], Awaitable[Connected]]:
    """Return what tells how devices are connected."""
    # NVIDIA's driver shows the same below the /proc of every container.
    proc = around.locate(reading.procfs or "/proc")
    paths = DevicePaths(around.locate(reading.sysfs), proc)

    async def connected(ids: frozenset[str]) -> Connected:
        return await asyncio.to_thread(paths.read, ids)

    return connected


def make_hardware(settings: ExporterSettings, around: Surroundings) -> HardwareReader:
    """Return what reads the machine."""
    folder = settings.reading.state_dir
    kubelet = around.locate(folder) if folder else None
    return HardwareReader(around.locate(settings.reading.sysfs), kubelet)


def make_wakeups(settings: ExporterSettings, clock: Clock) -> Wakeups:
    """Return when to look."""
    waking = settings.waking
    limit, unit = waking.max_events, waking.time_unit
    periods = (waking.period, settings.publishing.max_silence)
    rate = limit / unit if limit > 0 and unit > 0 else 0.0
    period = min((period for period in periods if period > 0), default=0.0)
    return Wakeups(clock=clock, period=period, rate=rate)


def make_silence(
    settings: ExporterSettings, pods: WatchedPods | None, client: Client
) -> Silence | None:
    """Return what decides about writing; ``None`` if every change is written."""
    seconds = settings.publishing.max_silence
    if seconds <= 0 or pods is None:
        return None
    # Most exporters do without, and without the memory.
    from numakube.apps.exporter.surprises import Silence

    silence = Silence(pods.objects, seconds=seconds, clock=client.clock, random=client.rng)
    pods.subscribe(silence.note)
    return silence


def make_kubelet(settings: ExporterSettings, around: Surroundings) -> PodResourcesReader:
    """Return what asks the kubelet.

    Raises:
        ConfigError: the socket's address makes no sense.
    """
    parts = urlsplit(settings.reading.socket)
    path = around.locate(parts.path)
    match parts.scheme:
        case "" | "unix":
            return PodResourcesClient(path, timeout=_CALL_SECONDS)
        case "fake":
            return FakePodResources(path)
        case scheme:
            raise ConfigError(f'--podresources-socket: protocol "{scheme}" not supported')


def make_config_source(
    settings: ExporterSettings,
    around: Surroundings,
    client: Client | None,
    node: NodeObject | None = None,
) -> FirstOf:
    """Return where the kubelet's configuration is read."""
    reading = settings.reading
    token = around.locate(reading.token_file)
    sources: list[ConfigSource] = []
    if uri := reading.kubelet_config_uri:
        path = file_of_uri(uri)
        sources.append(
            KubeletConfigz(uri, token, clock=around.clock)
            if path is None
            else ConfigFile(around.locate(path))
        )
    elif reading.kubelet_config_file:
        sources.append(ConfigFile(around.locate(reading.kubelet_config_file)))
    if reading.procfs:
        proc, state_dir = around.locate(reading.procfs), reading.state_dir
        sources.append(
            CommandLine(proc, state_dir=state_dir, locate=around.locate, clock=around.clock)
        )
    if node is not None:
        sources.append(NodeConfigz(node, token, clock=around.clock))
    if client is not None:
        sources.append(ApiConfigz(client, settings.publishing.node_name))
    return FirstOf(sources)


def make_checkpoints(settings: ExporterSettings, around: Surroundings) -> CheckpointSource:
    """Return the kubelet's state files."""
    if not settings.reading.state_dir:
        return NoCheckpoints()
    return StateFolder(around.locate(settings.reading.state_dir))


def make_publisher(settings: ExporterSettings, client: Client, node: NodeObject) -> Publisher:
    """Return where reports go."""
    publishing = settings.publishing
    if publishing.no_publish:
        return Nowhere()
    return ObjectPublisher(
        client,
        node,
        name=publishing.node_name,
        owner=publishing.owner,
        resync=publishing.resync,
        timing_period=settings.waking.period if publishing.expose_timing else None,
        max_silence=publishing.max_silence,
        ours=frozenset(
            key for added in _wanted_annotations(settings).values() for key in added.written
        ),
    )


def _wanted_annotations(settings: ExporterSettings) -> Mapping[str, ReportAnnotations]:
    """Return what writes further annotations, by the name of its entry point.

    Raises:
        ConfigError: its annex is not installed.
    """
    content = settings.content
    flags = {
        "koordinator": "--koordinator" if content.koordinator else "",
        "measured": "--measure" if content.measure else "",
    }
    wanted = {name: flag for name, flag in flags.items() if flag}
    if not wanted:
        return {}
    # Most exporters do without, and without the memory.
    from numakube.annexes import Group, added_to, load, points

    for name, flag in wanted.items():
        if name not in points(Group.REPORT_ANNOTATIONS):
            extra = added_to(Group.REPORT_ANNOTATIONS)[name].extra
            raise ConfigError(f"{flag}: pip install 'numakube[{extra}]' brings what it needs")
    return {name: load(Group.REPORT_ANNOTATIONS, name) for name in wanted}


def make_annotations(
    settings: ExporterSettings,
    around: Surroundings,
    *,
    node_name: str,
    node: NodeObject | None = None,
    pods: WatchedPods | None = None,
    client: Client | None = None,
    registry: CollectorRegistry | None = None,
    wake: Callable[[], None] = lambda: None,
) -> tuple[AnnotationReader, ...]:
    """Return what reads that of which further annotations are made; without a cluster, little."""
    from numakube.apps.exporter.report_annotations import NodeSources

    sources = NodeSources(
        sysfs=around.locate(settings.reading.sysfs),
        proc=around.locate(settings.reading.procfs or "/proc"),
        pods=lambda: () if pods is None else tuple(pods.objects()),
        node=lambda: {} if node is None else node.annotations,
        node_name=node_name,
        clock=around.clock,
        rng=Random() if client is None else client.rng,  # noqa: S311 (samples need no secrecy)
        registry=registry,
        wake=wake,
    )
    return tuple(added.reader(sources) for added in _wanted_annotations(settings).values())


def make_own_pod(settings: ExporterSettings, client: Client) -> OwnPod | None:
    """Return the exporter's own pod, if its conditions are to be set and its name is known."""
    own = settings.own_pod
    if not own.conditions or not own.pod_namespace or not own.pod_name:
        return None
    return OwnPod(client, own.pod_namespace, own.pod_name)


def make_file_watch(
    settings: ExporterSettings, around: Surroundings, wakeups: Wakeups
) -> FileWatch:
    """Return what watches everything that changes with the kubelet.

    Raises:
        ConfigError: the notification file cannot be used.
    """
    reading = settings.reading
    triggers: dict[Path, Trigger] = {}
    if folder := reading.state_dir:
        state = around.locate(folder)
        triggers |= dict.fromkeys((state / name for name in (*STATE_FILES, CHOICES)), Trigger.STATE)
    socket = urlsplit(reading.socket)
    if socket.scheme in ("", "unix"):
        triggers[around.locate(socket.path)] = Trigger.SOCKET
    if reading.kubelet_config_file:
        triggers[around.locate(reading.kubelet_config_file)] = Trigger.CONFIGURATION
    if path := settings.waking.notify_file:
        triggers[_notification_file(around.locate(path))] = Trigger.NOTIFICATION
    return FileWatch(triggers, lambda path: wakeups.note(triggers[path]), sleep=around.clock.sleep)


def _notification_file(path: Path) -> Path:
    """Create the file if need be; refuse to overwrite a file with other data."""
    try:
        path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
        if path.exists():
            size, regular = path.stat().st_size, path.is_file()
            if size or not regular:
                raise ConfigError(
                    f'cannot use "{path}": already exists with size={size} '
                    f"isRegular={str(regular).lower()}"
                )
        path.touch()
    except OSError as error:
        raise ConfigError(f"cannot use the notification file {path}: {error.strerror}") from None
    return path


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
    annotations = make_annotations(
        options.settings,
        around,
        node_name=options.node_name,
        node=node,
        pods=pods,
        client=client,
    )
    return make_reader(
        options, around, client=client, node=node, pods=pods, annotations=annotations
    )


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
            {"namespacePattern": pod.namespace, "namePattern": pod.name} for pod in excluded.pods
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
        self._annotations = make_annotations(
            settings,
            around,
            node_name=options.node_name,
            node=self._node,
            pods=self._pods,
            client=client,
            registry=self._registry,
            wake=lambda: self._wakeups.note(Trigger.ANNOTATION),
        )
        self.exporter = Exporter(
            source=make_reader(
                options,
                around,
                client=client,
                node=self._node,
                pods=self._pods,
                metrics=self._metrics,
                annotations=self._annotations,
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
        content = settings.content
        if not (settings.reading.watch_pods or content.koordinator or content.measure):
            return None
        return WatchedPods(client, self._options.node_name, lambda: self._wakeups.note(noted))

    async def run(self, stop: asyncio.Event) -> int:
        """Export until *stop* is set, or once; return the exit code."""
        _log.info("exporter_started", node=self._options.node_name)
        async with AsyncExitStack() as stack:
            await self._serve(stack)
            once = self._options.settings.publishing.oneshot
            pods = () if self._pods is None else (self._pods,)
            code = await work_until(
                stop,
                self._once() if once else self._forever(),
                beside=(self._watch, *pods, *self._annotations),
                clock=self._around.clock,
                end=self._wakeups.close,
            )
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
