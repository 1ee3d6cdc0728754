"""The plugin as a process: its settings, and what runs from them to an exit code.

    code = await run(settings, Surroundings(), stop)

The same function runs it as a program of its own, as a container of the lab, and in tests: what
surrounds it is given.

Settings that the SR-IOV network device plugin has too have its names. Its log flags are taken and
mean nothing, except for the level: our log goes to standard error.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import structlog

from numakube.apps.host import (
    DURATION,
    KLOG,
    Health,
    LogSettings,
    Program,
    Serving,
    ServingSettings,
    SettingsTable,
    group,
    listen_of,
    new_registry,
    serving_on,
    setting,
)
from numakube.node.device_plugin import plugin_protocol, plugin_registration
from numakube.node.device_plugin.device_choices import FOLDER
from numakube.node.host_files import INFO_FOLDER
from numakube.node.pci.device_files import CDI_FOLDER
from numakube.node.pci.device_links import DevicePaths
from numakube.node.pci.host_scan import SurveyOptions, look
from numakube.node.pci.netlink import Devlink
from numakube.node.pci.pci_discovery import Host
from numakube.node.pci.pool_config import DEFAULT_PREFIX, read_config_file
from numakube_sriov.annex import ANNEX
from numakube_sriov.dry_run_output import JSON, TABLE, YAML, printed
from numakube_sriov.metrics import SriovMetrics
from numakube_sriov.pool_plugin import KubeletDevices, Places
from numakube_sriov.pool_registration import KubeletFolders, Way
from numakube_sriov.sriov_loop import Agent, AgentOptions

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from numakube.apps.host import Surroundings, Values
    from numakube.node.pci.host_scan import Survey


_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


DEFAULT_CONFIG: Final = "/etc/pcidp/config.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class SriovSettings:
    """The settings of a device plugin."""

    dry_run: bool = setting(
        "--dry-run", default=False, help="Print what would be offered, and exit."
    )
    explain: bool = setting(
        "--explain", default=False, help="With --dry-run: say why devices are not offered."
    )
    output: str = setting(
        "-o --output",
        type=click.Choice((TABLE, JSON, YAML)),
        default=TABLE,
        help="Output format of a dry run.",
    )
    config_file: str = setting(
        "--config-file",
        default=DEFAULT_CONFIG,
        env="SRIOV_CONFIG_FILE",
        metavar="FILE",
        help="Pools to offer, in JSON, or in YAML if the name says so; read again when it changes.",
    )
    prefix: str = setting(
        "--resource-prefix",
        default=DEFAULT_PREFIX,
        env="SRIOV_RESOURCE_PREFIX",
        metavar="PREFIX",
        help="Prefix of the names of resources whose pool does not set one.",
    )
    use_cdi: bool = setting(
        "--use-cdi/--no-use-cdi",
        default=False,
        env="SRIOV_USE_CDI",
        help="Pass device files through the Container Device Interface.",
    )
    check_link: bool = setting(
        "--check-link/--no-check-link",
        default=True,
        env="SRIOV_CHECK_LINK",
        help="Treat devices whose physical function has no link as unhealthy.",
    )
    rescan: float = setting(
        "--rescan-interval",
        type=DURATION,
        default=10.0,
        env="SRIOV_RESCAN_INTERVAL",
        help="How often to scan the host; SIGHUP starts a scan immediately.",
    )
    forget_after: float = setting(
        "--forget-after",
        type=DURATION,
        default=300.0,
        env="SRIOV_FORGET_AFTER",
        help="Drop a device that has been gone for this time; until then it is unhealthy.",
    )
    registration: str = setting(
        "--registration",
        type=click.Choice([str(way) for way in Way]),
        default=str(Way.AUTO),
        env="SRIOV_REGISTRATION",
        help="Register by call, or let the kubelet find sockets in its registry, if that exists.",
    )
    device_plugins_dir: str = setting(
        "--device-plugins-dir",
        default=plugin_protocol.DEFAULT_DIRECTORY,
        metavar="DIR",
        help="The kubelet's folder of device plugins.",
    )
    pod_resources_socket: str = setting(
        "--podresources-socket",
        default=f"{Path(plugin_protocol.DEFAULT_DIRECTORY).parent}/pod-resources/kubelet.sock",
        metavar="FILE",
        help="Ask the kubelet there which other devices a pod has, to give it near ones; empty: do"
        " not ask.",
    )
    registry_dir: str = setting(
        "--plugins-registry-dir",
        default=plugin_registration.DEFAULT_DIRECTORY,
        metavar="DIR",
        help="The kubelet's registry of plugins.",
    )
    device_info_dir: str = setting(
        "--device-info-dir",
        default=INFO_FOLDER,
        metavar="DIR",
        help="Where CNI plugins look for device-info files.",
    )
    cdi_dir: str = setting(
        "--cdi-dir",
        default=CDI_FOLDER,
        metavar="DIR",
        help="Where runtimes look for CDI specifications.",
    )
    sysfs: str = setting(
        "--sysfs",
        default="/sys",
        metavar="DIR",
        help="Where the host's devices are described.",
    )
    dev: str = setting(
        "--dev",
        default="/dev",
        metavar="DIR",
        help="The host's device files; only read.",
    )
    proc: str = setting(
        "--proc",
        default="/proc",
        metavar="DIR",
        help="Where the host's routes are; devices with its default route are not offered.",
    )
    serving: ServingSettings = serving_on(ANNEX.programs[0].port)
    logs: LogSettings = group(
        LogSettings,
        log_level={
            "flag": "-v --log-level",
            "help": "Minimum level of events to log; upstream's numbers are accepted too.",
        },
    )


SETTINGS: Final = SettingsTable(SriovSettings)


def host_of(settings: SriovSettings, around: Surroundings) -> Host:
    """Return where the host describes itself."""
    locate, devlink = around.locate, Devlink()
    return Host(
        sysfs=locate(settings.sysfs),
        dev=locate(settings.dev),
        proc=locate(settings.proc),
        firmware=devlink.firmware,
        rdma_enabled=devlink.is_rdma_enabled,
    )


def options_of(settings: SriovSettings, around: Surroundings) -> AgentOptions:
    """Return what the settings ask for."""
    locate = around.locate
    host = host_of(settings, around)
    places = Places(
        host=host,
        device_info=locate(settings.device_info_dir),
        choices=locate(settings.device_plugins_dir) / FOLDER,
        cdi=locate(settings.cdi_dir) if settings.use_cdi else None,
        pods=_pod_devices(settings, around, host),
    )
    folders = KubeletFolders(
        device_plugins=locate(settings.device_plugins_dir),
        registry=locate(settings.registry_dir),
        way=Way(settings.registration),
    )
    return AgentOptions(
        config_file=_config_file(settings.config_file, around),
        prefix=settings.prefix,
        places=places,
        folders=folders,
        survey=_survey_options(settings),
        rescan=settings.rescan,
        # In the lab the host's own devices do not count.
        uevents=around.root == Path("/"),
    )


def _pod_devices(
    settings: SriovSettings, around: Surroundings, host: Host
) -> KubeletDevices | None:
    """Return what tells of other devices of pods; ``None`` where no kubelet has its socket."""
    socket = around.locate(settings.pod_resources_socket)
    if not settings.pod_resources_socket or not socket.parent.is_dir():
        return None
    # Only here: a dry run needs nothing of it.
    from numakube.node.podresources_client import PodResourcesClient

    return KubeletDevices(
        PodResourcesClient(socket),
        around.locate(settings.device_plugins_dir),
        DevicePaths(host.sysfs, host.proc),
    )


def _config_file(path: str, around: Surroundings) -> Path:
    """Return where the configuration is, its links not followed: a ConfigMap changes by them."""
    return around.root / path.lstrip("/") if path.startswith("/") else around.locate(path)


def look_once(settings: SriovSettings, around: Surroundings) -> Survey:
    """Return what would be offered, without a kubelet.

    Raises:
        ConfigError: the configuration makes no sense.
    """
    options = options_of(settings, around)
    config = read_config_file(options.config_file, prefix=options.prefix)
    now = around.clock.monotonic()
    return look(config, options.places.host, options.survey, now=now)


async def run(settings: SriovSettings, around: Surroundings, stop: asyncio.Event) -> int:
    """Offer devices until *stop* is set, or print what would be offered; return the exit code.

    Raises:
        ConfigError: it cannot even start.
    """
    if settings.dry_run:
        around.echo(printed(look_once(settings, around), settings.output, explain=settings.explain))
        return 0
    wake = asyncio.Event()
    around.on_hangup(wake.set)
    options = options_of(settings, around)
    registry = new_registry("sriov")
    metrics = SriovMetrics(registry)
    agent = Agent(options, clock=around.clock, metrics=metrics, wake=wake)
    way = "registry" if options.folders.uses_registry else "register"
    _log.info("sriov_started", config=str(options.config_file), registration=way)
    async with AsyncExitStack() as stack:
        if around.serve:
            serving = _serving(agent, settings, around, registry)
            _log.info("serving", url=(await stack.enter_async_context(serving)).url)
        await agent.run(stop)
    _log.info("sriov_ended")
    return 0


def _serving(
    agent: Agent, settings: SriovSettings, around: Surroundings, registry: CollectorRegistry
) -> Serving:
    health = Health()
    health.ready("scan", agent.scan_trouble)
    health.ready("kubelet", agent.registration_trouble)
    health.ready("configuration", lambda: agent.config_trouble)
    listen = around.placed(listen_of(settings.serving, locate=around.locate))
    return Serving(listen, health=health, registry=registry)


def _survey_options(settings: SriovSettings) -> SurveyOptions:
    return SurveyOptions(check_link=settings.check_link, forget_after=settings.forget_after)


def _read(flags: Values, around: Surroundings) -> SriovSettings:
    settings = SETTINGS.read(flags, around)
    if settings.explain and not settings.dry_run:
        raise click.UsageError("--explain goes with --dry-run only.")
    return settings


_ABOUT: Final = """\
SR-IOV virtual functions, mostly; the configuration and the flags are those of the SR-IOV network
device plugin. Every device has its NUMA node, so that the kubelet and schedulers can align pods
with it.
"""

PROGRAM: Final = Program(
    name="sriov",
    about=_ABOUT,
    settings=SETTINGS,
    read=_read,
    run=run,
    other=KLOG,
)
