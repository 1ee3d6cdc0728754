"""The plugin as a process: from settings to an exit code.

    code = await run(values, Surroundings(), stop)

The same function runs it as a program of its own, as a container of the lab, and in tests: what
surrounds it is given.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from numakube.apps.host.common_settings import listen_of
from numakube.apps.host.metrics import new_registry
from numakube.apps.host.serving import Health, Serving
from numakube.apps.sriov.agent import Agent, AgentOptions
from numakube.apps.sriov.discovery import Host
from numakube.apps.sriov.endpoint import KubeletFolders, Way
from numakube.apps.sriov.metrics import SriovMetrics
from numakube.apps.sriov.plugin import Places
from numakube.apps.sriov.reading import read_config_file
from numakube.apps.sriov.survey import SurveyOptions, look
from numakube.node.device_choices import FOLDER
from numakube.node.pci_devlink import Devlink

if TYPE_CHECKING:
    import asyncio

    from prometheus_client import CollectorRegistry

    from numakube.apps.host.settings import Values
    from numakube.apps.host.surroundings import Surroundings
    from numakube.apps.sriov.survey import Survey

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


def host_of(values: Values, around: Surroundings) -> Host:
    """Return where the host describes itself."""
    locate, devlink = around.locate, Devlink()
    return Host(
        sysfs=locate(values["sysfs"]),
        dev=locate(values["dev"]),
        proc=locate(values["proc"]),
        firmware=devlink.firmware,
        rdma_enabled=devlink.is_rdma_enabled,
    )


def options_of(values: Values, around: Surroundings) -> AgentOptions:
    """Return what the settings ask for."""
    locate = around.locate
    places = Places(
        host=host_of(values, around),
        device_info=locate(values["device_info_dir"]),
        choices=locate(values["device_plugins_dir"]) / FOLDER,
        cdi=locate(values["cdi_dir"]) if values["use_cdi"] else None,
    )
    folders = KubeletFolders(
        device_plugins=locate(values["device_plugins_dir"]),
        registry=locate(values["registry_dir"]),
        way=Way(values["registration"]),
    )
    return AgentOptions(
        config_file=_config_file(values["config_file"], around),
        prefix=values["prefix"],
        places=places,
        folders=folders,
        survey=_survey_options(values),
        rescan=values["rescan"],
        # In the lab the host's own devices are nobody's business.
        uevents=around.root == Path("/"),
    )


def _config_file(path: str, around: Surroundings) -> Path:
    """Return where the configuration is, its links not followed: a ConfigMap changes by them."""
    return around.root / path.lstrip("/") if path.startswith("/") else around.locate(path)


def look_once(values: Values, around: Surroundings) -> Survey:
    """Return what would be offered, without a kubelet.

    Raises:
        ConfigError: the configuration makes no sense.
    """
    options = options_of(values, around)
    config = read_config_file(options.config_file, prefix=options.prefix)
    now = around.clock.monotonic()
    return look(config, options.places.host, options.survey, now=now)


async def run(
    values: Values,
    around: Surroundings,
    stop: asyncio.Event,
    *,
    wake: asyncio.Event | None = None,
) -> int:
    """Offer devices until *stop* is set; return the exit code.

    Args:
        values: the settings.
        around: what surrounds the process.
        stop: ends it.
        wake: whoever sets it makes the plugin look at the host at once.

    Raises:
        ConfigError: it cannot even start.
    """
    options = options_of(values, around)
    registry = new_registry("sriov")
    metrics = SriovMetrics(registry)
    agent = Agent(options, clock=around.clock, metrics=metrics, wake=wake)
    way = "registry" if options.folders.uses_registry else "register"
    _log.info("sriov_started", config=str(options.config_file), registration=way)
    async with AsyncExitStack() as stack:
        if around.serve:
            serving = _serving(agent, values, around, registry)
            _log.info("serving", url=(await stack.enter_async_context(serving)).url)
        await agent.run(stop)
    _log.info("sriov_ended")
    return 0


def _serving(
    agent: Agent, values: Values, around: Surroundings, registry: CollectorRegistry
) -> Serving:
    health = Health()
    health.ready("scan", agent.scan_trouble)
    health.ready("kubelet", agent.registration_trouble)
    health.ready("configuration", lambda: agent.config_trouble)
    listen = around.placed(listen_of(values, locate=around.locate))
    return Serving(listen, health=health, registry=registry)


def _survey_options(values: Values) -> SurveyOptions:
    return SurveyOptions(check_link=values["check_link"], forget_after=values["forget_after"])
