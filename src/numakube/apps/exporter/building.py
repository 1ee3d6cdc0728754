"""The exporter's parts, made from its options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from numakube.apps.exporter.kubelet_checkpoints import CHOICES, STATE_FILES, StateFolder
from numakube.apps.exporter.kubelet_config import (
    ApiConfigz,
    ConfigFile,
    FirstOf,
    KubeletConfigz,
    NodeConfigz,
    file_of_uri,
)
from numakube.apps.exporter.kubelet_process import CommandLine
from numakube.apps.exporter.nrt_writer import Nowhere, ObjectPublisher
from numakube.apps.exporter.pod_conditions import OwnPod
from numakube.apps.exporter.sources import NoCheckpoints
from numakube.apps.exporter.wakeups import Trigger, Wakeups
from numakube.errors import ConfigError
from numakube.node.fake_podresources import FakePodResources
from numakube.node.file_watch import FileWatch
from numakube.node.podresources import PodResourcesClient

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numakube.apps.exporter.configuration import ExporterOptions
    from numakube.apps.exporter.koordinator import KoordinatorInputs
    from numakube.apps.exporter.kubelet_config import ConfigSource
    from numakube.apps.exporter.node_object import NodeObject
    from numakube.apps.exporter.nrt_writer import Publisher
    from numakube.apps.exporter.pod_book import WatchedPods
    from numakube.apps.exporter.sources import CheckpointSource, PodResourcesReader
    from numakube.apps.host.surroundings import Surroundings
    from numakube.kube.client import Client
    from numakube.kube.clock import Clock

_CALL_SECONDS: Final = 10.0


def make_wakeups(options: ExporterOptions, clock: Clock) -> Wakeups:
    """Return when to look."""
    limit, unit = options["max_events"], options["time_unit"]
    rate = limit / unit if limit > 0 and unit > 0 else 0.0
    return Wakeups(clock=clock, period=options["period"], rate=rate)


def make_dial(options: ExporterOptions, around: Surroundings) -> Callable[[], PodResourcesReader]:
    """Return what connects to the kubelet.

    Raises:
        ConfigError: the socket's address makes no sense.
    """
    parts = urlsplit(options["socket"])
    path = around.locate(parts.path)
    match parts.scheme:
        case "" | "unix":
            return lambda: PodResourcesClient(path, timeout=_CALL_SECONDS)
        case "fake":
            return lambda: FakePodResources(path)
        case scheme:
            raise ConfigError(f'--podresources-socket: protocol "{scheme}" not supported')


def make_config_source(
    options: ExporterOptions,
    around: Surroundings,
    client: Client | None,
    node: NodeObject | None = None,
) -> FirstOf:
    """Return where the kubelet's configuration is read."""
    token = around.locate(options["token_file"])
    sources: list[ConfigSource] = []
    if uri := options["kubelet_config_uri"]:
        path = file_of_uri(uri)
        sources.append(
            KubeletConfigz(uri, token, clock=around.clock)
            if path is None
            else ConfigFile(around.locate(path))
        )
    elif options["kubelet_config_file"]:
        sources.append(ConfigFile(around.locate(options["kubelet_config_file"])))
    if options["procfs"]:
        proc, state_dir = around.locate(options["procfs"]), options["state_dir"]
        sources.append(
            CommandLine(proc, state_dir=state_dir, locate=around.locate, clock=around.clock)
        )
    if node is not None:
        sources.append(NodeConfigz(node, token, clock=around.clock))
    if client is not None:
        sources.append(ApiConfigz(client, options.node_name))
    return FirstOf(sources)


def make_checkpoints(options: ExporterOptions, around: Surroundings) -> CheckpointSource:
    """Return the kubelet's state files."""
    if not options["state_dir"]:
        return NoCheckpoints()
    return StateFolder(around.locate(options["state_dir"]))


def make_publisher(options: ExporterOptions, client: Client, node: NodeObject) -> Publisher:
    """Return where reports go."""
    if options["no_publish"]:
        return Nowhere()
    return ObjectPublisher(
        client,
        node,
        name=options.node_name,
        owner=options["owner"],
        resync=options["resync"],
        timing_period=options["period"] if options["expose_timing"] else None,
        ours=_koordinator_keys() if options["koordinator"] else frozenset(),
    )


def _koordinator_keys() -> frozenset[str]:
    from numakube.apps.exporter.koordinator import WRITTEN

    return WRITTEN


def make_koordinator_source(
    options: ExporterOptions,
    around: Surroundings,
    node: NodeObject | None = None,
    pods: WatchedPods | None = None,
) -> Callable[[], KoordinatorInputs]:
    """Return what reads what koordlet's annotations need; without a cluster that is little."""
    from numakube.apps.exporter.koordinator import KoordinatorInputs, read_cpu_info

    cpu_info = read_cpu_info(around.locate(options["sysfs"]), around.locate("/proc"))
    return lambda: KoordinatorInputs(
        pods=() if pods is None else pods.objects(),
        node={} if node is None else node.annotations,
        cpu_info=cpu_info,
    )


def make_own_pod(options: ExporterOptions, client: Client) -> OwnPod | None:
    """Return the exporter's own pod, if its conditions are to be set and its name is known."""
    namespace, name = options["pod_namespace"], options["pod_name"]
    if not options["conditions"] or not namespace or not name:
        return None
    return OwnPod(client, namespace, name)


def make_file_watch(options: ExporterOptions, around: Surroundings, wakeups: Wakeups) -> FileWatch:
    """Return what watches everything that changes with the kubelet.

    Raises:
        ConfigError: the notification file cannot be used.
    """
    triggers: dict[Path, Trigger] = {}
    if folder := options["state_dir"]:
        state = around.locate(folder)
        triggers |= dict.fromkeys((state / name for name in (*STATE_FILES, CHOICES)), Trigger.STATE)
    socket = urlsplit(options["socket"])
    if socket.scheme in ("", "unix"):
        triggers[around.locate(socket.path)] = Trigger.SOCKET
    if options["kubelet_config_file"]:
        triggers[around.locate(options["kubelet_config_file"])] = Trigger.CONFIGURATION
    if options["notify_file"]:
        triggers[_notification_file(around.locate(options["notify_file"]))] = Trigger.NOTIFICATION
    return FileWatch(triggers, lambda path: wakeups.note(triggers[path]), clock=around.clock)


def _notification_file(path: Path) -> Path:
    """Make the file if need be; refuse to take somebody's data for it."""
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
