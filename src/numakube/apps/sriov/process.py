"""The plugin as a process: from settings to an exit code.

    code = await run(settings, Surroundings(), stop)

The same function runs it as a program of its own, as a container of the lab, and in tests: what
surrounds it is given.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import structlog

from numakube.apps.host.common_settings import listen_of
from numakube.apps.host.http_serving import Health, Serving
from numakube.apps.host.process_metrics import new_registry
from numakube.apps.host.program import KLOG, Program
from numakube.apps.sriov.dry_run_output import printed
from numakube.apps.sriov.host_scan import SurveyOptions, look
from numakube.apps.sriov.metrics import SriovMetrics
from numakube.apps.sriov.pci_discovery import Host
from numakube.apps.sriov.pod_devices import PodDevices
from numakube.apps.sriov.pool_plugin import Places
from numakube.apps.sriov.pool_registration import KubeletFolders, Way
from numakube.apps.sriov.read_config import read_config_file
from numakube.apps.sriov.settings import SETTINGS
from numakube.apps.sriov.sriov_loop import Agent, AgentOptions
from numakube.node.device_plugin.device_choices import FOLDER
from numakube.node.pci.device_links import DevicePaths
from numakube.node.pci.devlink import Devlink

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from numakube.apps.host.process_life import Surroundings
    from numakube.apps.host.settings_sources import Values
    from numakube.apps.sriov.host_scan import Survey
    from numakube.apps.sriov.settings import SriovSettings

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


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


def _pod_devices(settings: SriovSettings, around: Surroundings, host: Host) -> PodDevices | None:
    """Return what tells of other devices of pods; ``None`` where no kubelet has its socket."""
    socket = around.locate(settings.pod_resources_socket)
    if not settings.pod_resources_socket or not socket.parent.is_dir():
        return None
    # Only here: a dry run needs nothing of it.
    from numakube.node.podresources_client import PodResourcesClient

    return PodDevices(
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
