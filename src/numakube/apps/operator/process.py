"""The operator as a process: finds out where it is, watches, and works while it leads."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import structlog

from numakube.apps.host.common_settings import cluster_of, listen_of
from numakube.apps.host.endpoint_access import Access
from numakube.apps.host.http_serving import Health, Serving
from numakube.apps.host.process_life import lead_with, new_registry, work_until
from numakube.apps.host.program import Program
from numakube.apps.host.settings_sources import active_text
from numakube.apps.left_reports import clear_reports
from numakube.apps.operator.controller import (
    MACHINE_CONFIG_POOLS,
    Controller,
    ExporterView,
    SchedulerView,
    Watched,
)
from numakube.apps.operator.exporters_plan import Setup
from numakube.apps.operator.metrics import OperatorMetrics
from numakube.apps.operator.plan_executor import Executor
from numakube.apps.operator.scheduler_plan import SchedulerSetup, digests_of
from numakube.apps.operator.settings import SETTINGS
from numakube.errors import ApiError, ConfigError
from numakube.kube.catalog import PODS
from numakube.kube.connect import connect
from numakube.kube.event_recorder import EventRecorder
from numakube.kube.leader_election import LeaderElection
from numakube.kube.reflector import wait_synced
from numakube.kube.resource_types import ObjectKey
from numakube.kube.workqueue import WorkQueue, run_workers
from numakube.manifests.operator import LEASE
from numakube.manifests.release_image import IMAGE

if TYPE_CHECKING:
    import asyncio

    from numakube.apps.host.http_serving import Listen
    from numakube.apps.host.process_life import Surroundings
    from numakube.apps.operator.settings import OperatorSettings
    from numakube.kube.client import Client

_OPENSHIFT: Final = "openshift"
_CLEARING_SECONDS: Final = 2.0
_CLEARING_LOOKS: Final = 30
_LONGEST_RETRY_SECONDS: Final = 30.0
_CONTROLLERS: Final = {"exporters": "numaresourcesoperator", "scheduler": "numaresourcesscheduler"}

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


async def run(settings: OperatorSettings, around: Surroundings, stop: asyncio.Event) -> int:
    """Operate until *stop* is set; return the exit code.

    Raises:
        ConfigError: it cannot even start.
    """
    ports = _ports(settings.api_ports)
    cluster = cluster_of(settings.connection, env=around.env, root=around.root)
    async with connect(
        cluster, clock=around.clock, env=around.env, user_agent="numakube-operator"
    ) as client:
        image, pull_policy = await _own_image(client, settings)
        openshift = await _is_openshift(client, settings)
        _log.info("found", image=image, openshift=openshift, namespace=settings.namespace)
        process = OperatorProcess(
            client,
            Setup(
                namespace=settings.namespace,
                image=image,
                pull_policy=pull_policy,
                feature_gates=active_text(),
                custom_image=not settings.exporter_image_restriction,
                api_ports=ports,
            ),
            SchedulerSetup(
                namespace=settings.namespace,
                pull_policy=pull_policy,
                feature_gates=active_text(),
                trusted=_trusted(settings),
                api_ports=ports,
            ),
            openshift=openshift,
            leader_elect=settings.leader_elect,
        )
        listen = listen_of(settings.serving, locate=around.locate) if around.serve else None
        return await process.run(stop, None if listen is None else around.placed(listen))


def _ports(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(word) for word in text.split(","))
    except ValueError:
        raise ConfigError(f"--api-server-ports: {text!r} is no list of ports") from None


def _trusted(settings: OperatorSettings) -> frozenset[str] | None:
    if not settings.scheduler_image_validation:
        return None
    return digests_of(settings.scheduler_image_digests)


async def _own_image(client: Client, settings: OperatorSettings) -> tuple[str, str]:
    """Return image and pull policy of exporters: as told, or the operator's own."""
    if settings.image_exporter:
        return settings.image_exporter, "IfNotPresent"
    if settings.pod_name:
        try:
            pod = await client.get(PODS.raw, settings.pod_name, namespace=settings.namespace)
            container = pod["spec"]["containers"][0]
            return container["image"], container.get("imagePullPolicy", "IfNotPresent")
        except (ApiError, KeyError, IndexError) as error:
            _log.warning("own_image_unknown", pod=settings.pod_name, error=str(error))
    return IMAGE, "IfNotPresent"


async def _is_openshift(client: Client, settings: OperatorSettings) -> bool:
    if settings.platform:
        return settings.platform == _OPENSHIFT
    try:
        await client.list(MACHINE_CONFIG_POOLS, page_size=1)
    except ApiError:
        return False
    return True


class OperatorProcess:
    """A running operator."""

    def __init__(
        self,
        client: Client,
        setup: Setup,
        scheduler_setup: SchedulerSetup,
        *,
        openshift: bool = False,
        leader_elect: bool = True,
    ) -> None:
        self.identity = f"numakube-operator_{uuid4()}"
        self.registry = new_registry("operator")
        self.watched = Watched(client, setup.namespace, openshift=openshift)
        self._client = client
        self._lease = ObjectKey(setup.namespace, LEASE)
        self._leader_elect = leader_elect
        self._recorder = EventRecorder(
            client, component="numakube-operator", instance=self.identity
        )
        metrics = OperatorMetrics(self.registry)
        executor = Executor(client, self.watched.live)
        common = (client, executor, self._recorder, metrics)
        self._exporters = Controller(ExporterView(self.watched, setup), *common)
        self._scheduler = Controller(SchedulerView(self.watched, scheduler_setup), *common)
        self._queue: WorkQueue[tuple[str, str]] = WorkQueue(
            clock=client.clock,
            cap=_LONGEST_RETRY_SECONDS,
            on_add=lambda key: metrics.added(_CONTROLLERS[key[0]]),
        )
        # The objects that were there, and how often to look after exporters without one.
        self._operators: set[str] = set()
        self._looks_left = 0
        self.watched.on_change(self._all_again)

    async def run(self, stop: asyncio.Event, listen: Listen | None = None) -> int:
        """Operate until *stop* is set; return the exit code."""
        async with AsyncExitStack() as stack:
            if listen is not None:
                await self._serve(stack, listen)
            return await work_until(
                stop,
                self._work(),
                beside=(*self.watched.reflectors(), self._recorder),
                flush=self._recorder.flush,
                clock=self._client.clock,
            )

    async def _work(self) -> int:
        await wait_synced(*self.watched.reflectors())
        election = LeaderElection(self._client, self._lease, identity=self.identity)
        return await lead_with(election if self._leader_elect else None, self._lead)

    async def _lead(self) -> None:
        _log.info("leading", identity=self.identity)
        self._all_again()
        await run_workers(self._queue, self._reconcile)

    async def _reconcile(self, key: tuple[str, str]) -> float | None:
        kind, name = key
        if kind == "exporters" and ObjectKey("", name) not in self.watched.operators.store:
            return await self._clear_reports()
        controller = self._exporters if kind == "exporters" else self._scheduler
        return await controller.reconcile(name)

    async def _clear_reports(self) -> float | None:
        """Take off the reports what exporters have left whose object was deleted.

        Their pods end a moment later; what has not ended by then is no business of ours.
        """
        done = await clear_reports(self._client, self._lease.namespace)
        for node in done.cleared:
            _log.info("report_cleared", node=node)
        self._looks_left -= 1
        return _CLEARING_SECONDS if done.kept and self._looks_left > 0 else None

    def _all_again(self) -> None:
        names = {one.metadata.name for one in self.watched.operators.store.values()}
        if self._operators - names:
            self._looks_left = _CLEARING_LOOKS
        for name in (*names, *(self._operators - names)):
            self._queue.add(("exporters", name))
        self._operators = names
        for other in self.watched.schedulers.store.values():
            self._queue.add(("scheduler", other.metadata.name))

    async def _serve(self, stack: AsyncExitStack, listen: Listen) -> None:
        health = Health()
        health.ready("caches", self.watched.missing)
        access = Access(self._client, host=listen.host)
        server = await stack.enter_async_context(
            Serving(listen, health=health, registry=self.registry, access=access)
        )
        _log.info("serving", url=server.url)


_ABOUT: Final = """\
NUMAResourcesOperator names the nodes that get exporters, NUMAResourcesScheduler describes the
scheduler. Both are kept as they should be, and say in their conditions how things stand.
"""

PROGRAM: Final = Program(
    name="operator",
    about=_ABOUT,
    settings=SETTINGS,
    read=SETTINGS.read,
    run=run,
)
