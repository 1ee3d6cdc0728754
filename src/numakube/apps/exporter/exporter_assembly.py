"""The exporter's parts, made from its settings."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from numakube.apps.exporter.api_pods import NoPods
from numakube.apps.exporter.kubelet_checkpoints import CHOICES, STATE_FILES, StateFolder
from numakube.apps.exporter.kubelet_config_sources import (
    ApiConfigz,
    ConfigFile,
    FirstOf,
    KubeletConfigz,
    NodeConfigz,
    file_of_uri,
)
from numakube.apps.exporter.kubelet_process import CommandLine
from numakube.apps.exporter.node_scan import NoCheckpoints, NodeReader
from numakube.apps.exporter.nrt_writer import Nowhere, ObjectPublisher
from numakube.apps.exporter.numa_hardware import HardwareReader
from numakube.apps.exporter.pod_conditions import OwnPod
from numakube.apps.exporter.scan_wakeups import Trigger, Wakeups
from numakube.errors import ConfigError
from numakube.node.file_watch import FileWatch
from numakube.node.pci.device_links import DevicePaths
from numakube.node.podresources_client import FakePodResources, PodResourcesClient

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from numakube.apps.exporter.api_pods import WatchedPods
    from numakube.apps.exporter.exporter_config_file import ExporterOptions
    from numakube.apps.exporter.koordlet_annotations import KoordinatorInputs
    from numakube.apps.exporter.kubelet_config_sources import ConfigSource
    from numakube.apps.exporter.metrics import ExporterMetrics
    from numakube.apps.exporter.node_object import NodeObject
    from numakube.apps.exporter.node_scan import CheckpointSource, PodResourcesReader
    from numakube.apps.exporter.nrt_writer import Publisher
    from numakube.apps.exporter.settings import ExporterSettings, ReadingSettings
    from numakube.apps.exporter.surprises import Silence
    from numakube.apps.host.process_life import Surroundings
    from numakube.kube.client import Client
    from numakube.kube.clock import Clock
    from numakube.node.pci.device_links import Connected

_CALL_SECONDS: Final = 10.0


def make_reader(
    options: ExporterOptions,
    around: Surroundings,
    *,
    client: Client | None = None,
    node: NodeObject | None = None,
    pods: WatchedPods | None = None,
    metrics: ExporterMetrics | None = None,
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
        koordinator=make_koordinator_source(settings, around, node, pods)
        if content.koordinator
        else None,
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
    period = min((one for one in periods if one > 0), default=0.0)
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
        ours=_koordinator_keys() if settings.content.koordinator else frozenset(),
    )


def _koordinator_keys() -> frozenset[str]:
    from numakube.apps.exporter.koordlet_annotations import WRITTEN

    return WRITTEN


def make_koordinator_source(
    settings: ExporterSettings,
    around: Surroundings,
    node: NodeObject | None = None,
    pods: WatchedPods | None = None,
) -> Callable[[], KoordinatorInputs]:
    """Return what reads what koordlet's annotations need; without a cluster that is little."""
    from numakube.apps.exporter.koordlet_annotations import KoordinatorInputs, read_cpu_info

    cpu_info = read_cpu_info(around.locate(settings.reading.sysfs), around.locate("/proc"))
    return lambda: KoordinatorInputs(
        pods=() if pods is None else pods.objects(),
        node={} if node is None else node.annotations,
        cpu_info=cpu_info,
    )


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
    return FileWatch(triggers, lambda path: wakeups.note(triggers[path]), clock=around.clock)


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
