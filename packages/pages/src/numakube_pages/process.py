"""The dashboard as a process of its own: reads a cluster or a bundle, writes nothing."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import click
import structlog

from numakube.apps import read_cluster
from numakube.apps.dra_mirror import CLAIMS, SLICES, TAINT_RULES
from numakube.apps.host import Access
from numakube.apps.host.common_settings import (
    ConnectionSettings,
    LogSettings,
    ServingSettings,
    cluster_of,
    listen_of,
    serving_on,
)
from numakube.apps.host.http_serving import Health, Serving
from numakube.apps.host.process_life import new_registry
from numakube.apps.host.program import Program
from numakube.apps.host.settings_sources import SettingsTable, group, setting
from numakube.errors import ConfigError
from numakube.insight import facts_of
from numakube.insight.collected import RESOURCE_CLAIMS
from numakube.kube import Store
from numakube.kube.connect import connect
from numakube.values.hosts import is_loopback
from numakube_pages.annex import DASHBOARD
from numakube_pages.dashboard import PREFIX, Dashboard
from numakube_pages.page_access import Gate
from numakube_pages.page_source import Reflection, Source
from numakube_pages.scheduler_view import Recorded

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path
    from typing import TypeAlias

    from numakube.apps.host import Surroundings
    from numakube.apps.host.http_serving import Listen
    from numakube.insight import ClusterFacts, Collected
    from numakube.kube import Client, Clock
    from numakube_pages.history_view import History

    _Opened: TypeAlias = tuple[Dashboard, Health, Access | None]


_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class DashboardSettings:
    """The settings of a dashboard."""

    bundle: str = setting(
        "--from",
        metavar="FILE",
        help="Show this bundle (of `kubectl numa bundle`) instead of a live cluster.",
    )
    port: int | None = setting(
        "--port",
        type=click.IntRange(0, 65535),
        default=None,
        help="Port on this machine: short for --bind-address 127.0.0.1:PORT.",
    )
    prometheus: str = setting(
        "--prometheus",
        metavar="URL|NAMESPACE/SERVICE[:PORT]",
        env="NUMAKUBE_PROMETHEUS",
        help="Where metrics are kept, for the page of history: an address, or a Service, asked"
        " through the API server.",
    )
    prometheus_ca: str = setting(
        "--prometheus-ca", metavar="FILE", help="Authority of the certificate behind a URL."
    )
    prometheus_token_file: str = setting(
        "--prometheus-token-file", metavar="FILE", help="Bearer token for a URL."
    )
    title: str = setting(
        "--title",
        default="numakube",
        help="Title of the pages, such as the name of the cluster.",
    )
    serving: ServingSettings = serving_on(DASHBOARD.port, served="the pages, health and metrics")
    connection: ConnectionSettings = group(ConnectionSettings)
    logs: LogSettings = group(LogSettings)


SETTINGS: Final = SettingsTable(DashboardSettings)


async def run(settings: DashboardSettings, around: Surroundings, stop: asyncio.Event) -> int:
    """Serve until *stop* is set, and print the address; return the exit code.

    Raises:
        ConfigError: it cannot even start.
    """
    listen = around.placed(listen_of(_with_port(settings), locate=around.locate))
    opened = _recorded if settings.bundle else _live
    async with AsyncExitStack() as stack:
        dashboard, health, access = await stack.enter_async_context(
            opened(settings, around, listen)
        )
        serving = Serving(
            listen,
            health=health,
            registry=new_registry("dashboard"),
            access=access,
            routes=dashboard.routes(at_root=True),
        )
        server = await stack.enter_async_context(serving)
        stack.callback(dashboard.close)
        _log.info("serving", url=server.url)
        around.echo(f"dashboard   {server.url}{PREFIX}")
        await stop.wait()
    return 0


@asynccontextmanager
async def _live(
    settings: DashboardSettings, around: Surroundings, listen: Listen
) -> AsyncIterator[_Opened]:
    config = cluster_of(settings.connection, env=around.env, root=around.root)
    async with (
        connect(
            config, clock=around.clock, env=around.env, user_agent="numakube-dashboard"
        ) as client,
        _history(settings, around, client) as history,
        asyncio.TaskGroup() as tasks,
    ):
        reflection = Reflection(client)
        access = Access(client, host=listen.host)
        gate = Gate(around.clock, host=listen.host, path=PREFIX, access=access)
        health = Health()
        health.ready("caches", reflection.not_ready)
        work = tasks.create_task(reflection.run())
        dashboard = Dashboard(reflection.source, gate=gate, title=settings.title, history=history)
        yield dashboard, health, access
        work.cancel()


@asynccontextmanager
async def _history(
    settings: DashboardSettings, around: Surroundings, client: Client
) -> AsyncIterator[History | None]:
    if not settings.prometheus:
        yield None
        return
    from numakube_pages.history_view import History
    from numakube_planning.history.cluster_report import ClusterReport, cluster_report, ends_of
    from numakube_planning.history.prometheus import Login, prometheus_at

    token = ""
    if settings.prometheus_token_file:
        token = (
            _read(around.locate(settings.prometheus_token_file), "--prometheus-token-file")
            .decode()
            .strip()
        )
    login = Login(authority=settings.prometheus_ca, token=token)
    async with prometheus_at(settings.prometheus, login, lambda: nullcontext(client)) as prometheus:

        async def recorded(days: int) -> ClusterReport:
            return await cluster_report(prometheus, ends_of(around.clock.now().timestamp(), days))

        yield History(recorded, around.clock)


@asynccontextmanager
async def _recorded(
    settings: DashboardSettings, around: Surroundings, listen: Listen
) -> AsyncIterator[_Opened]:
    if settings.prometheus:
        raise ConfigError("--prometheus tells of a live cluster, not of a bundle given by --from")
    if not is_loopback(listen.host):
        raise ConfigError(
            f"--from with --bind-address {listen.host}: without a cluster "
            "access cannot be checked, so a bundle is shown on this machine only"
        )
    facts = facts_of(_collected(around.locate(settings.bundle)))
    gate = Gate(around.clock, host=listen.host, path=PREFIX)
    source = source_of_facts(facts, around.clock)
    yield Dashboard(source, gate=gate, title=settings.title), Health(), None


def source_of_facts(facts: ClusterFacts, clock: Clock) -> Source:
    """Return a source that shows *facts* and never changes."""
    inside = Recorded(facts) if facts.schedulers else None
    devices: dict[str, Store[Any]] = {field: Store() for field in (SLICES, CLAIMS, TAINT_RULES)}
    source = Source(
        nodes=Store(),
        pods=Store(),
        topologies=Store(),
        clock=clock,
        devices=devices,
        devices_known=lambda: facts.missing(RESOURCE_CLAIMS) is None,
        inside=inside,
        facts=facts,
    )
    for field, store in devices.items():
        store.replace(getattr(facts.objects, field).values())
    for node in facts.nodes.values():
        source.nodes.put(node)
    for topology in facts.topologies.values():
        source.topologies.put(topology)
    for pod in facts.pods:
        source.pods.put(pod)
    return source


def _collected(path: Path) -> Collected:
    return read_cluster(_read(path, "--from"), str(path))


def _read(path: Path, flag: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{flag} {path}: {error.strerror}") from None


def _with_port(settings: DashboardSettings) -> ServingSettings:
    if settings.port is None:
        return settings.serving
    return replace(settings.serving, bind_address=f"127.0.0.1:{settings.port}")


_ABOUT: Final = """\
Open the address that it prints. Only this machine can reach it, unless --bind-address says
otherwise; then it needs a certificate, and readers need a token.
"""

PROGRAM: Final = Program(
    name="dashboard",
    about=_ABOUT,
    settings=SETTINGS,
    read=SETTINGS.read,
    run=run,
)
