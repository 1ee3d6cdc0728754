"""The scheduler as a process: from options to an exit code.

Caches are kept warm whether it leads or not; only the leader schedules. A leader that cannot renew
its lease in time ends, as kube-scheduler does, and is restarted by what runs it. Pods of
``default-scheduler`` have a guard of their own: see `default_scheduler_guard`.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import numpy as np
import structlog

from numakube.api.codec import decode
from numakube.api.meta import ServerVersion
from numakube.api.scheduler_config import DEFAULT_SCHEDULER, HOLDER_PREFIX
from numakube.apps.cluster_mirror import Mirror
from numakube.apps.debugging.annex_endpoints import (
    AnnexEndpoints,
    DecidingProgram,
    ServingProgram,
)
from numakube.apps.debugging.documents import Speaker
from numakube.apps.debugging.tenant_endpoint import Tenants
from numakube.apps.flight_recording import Recording, recorder_of
from numakube.apps.host.common_settings import cluster_of, listen_of
from numakube.apps.host.endpoint_access import Access
from numakube.apps.host.http_serving import Health, Serving
from numakube.apps.host.process_life import lead_with, new_registry, work_until
from numakube.apps.host.program import Program
from numakube.apps.host.settings_sources import require
from numakube.apps.scheduler.alignment_census import AlignmentCensus
from numakube.apps.scheduler.binders import CLIENT, ApiVolumeActions, DefaultBinder
from numakube.apps.scheduler.binding_cycle import WAITING_PODS, WaitingPods
from numakube.apps.scheduler.decision_events import Outcomes, TopologySourceEvents
from numakube.apps.scheduler.default_scheduler_guard import (
    GUARDED_LEASE,
    DefaultSchedulerGuard,
)
from numakube.apps.scheduler.metrics import MeteredClaimActions, SchedulerMetrics
from numakube.apps.scheduler.scheduler_endpoints import SchedulerEndpoints
from numakube.apps.scheduler.scheduler_parts import PluginServices, Reporting, SchedulerParts
from numakube.apps.scheduler.settings import (
    OF_KUBE_SCHEDULER,
    SETTINGS,
    configuration_of,
    connection_of,
    lease_of,
    request_rate,
    serving_of,
    timing_of,
)
from numakube.apps.scheduler.shards import ShardMembership
from numakube.dra.features import LATEST
from numakube.errors import NumakubeError
from numakube.kube.connect import connect
from numakube.kube.connection.transport import Request
from numakube.kube.event_recorder import EventRecorder
from numakube.kube.leader_election import LeaderElection, ended
from numakube.kube.resource_types import ObjectKey
from numakube.scheduling.assembly import all_plugins, assemble
from numakube.scheduling.framework.cluster_events import OBJECT_KINDS, POD_GROUP_KINDS
from numakube.scheduling.framework.registry import METRICS, Services
from numakube.scheduling.plugins.dynamic_resources.claim_binding import (
    CLAIM_ACTIONS,
    KUBERNETES_MINOR,
)
from numakube.scheduling.plugins.gang_scheduling import GANG_MEMBERS, GangMembers
from numakube.scheduling.plugins.volumes.volume_claims import VOLUME_ACTIONS
from numakube.scheduling.recorder.flight_recorder import FlightRecorder
from numakube.scheduling.scheduling_queue import PodBackoff
from numakube.scheduling.snapshot.pods import PodInfo

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from numakube.api.scheduler_config import KubeSchedulerConfiguration
    from numakube.apps.host.common_settings import ConnectionSettings, LogSettings
    from numakube.apps.host.http_serving import Listen
    from numakube.apps.host.process_life import Surroundings
    from numakube.apps.host.settings_sources import Values
    from numakube.apps.scheduler.settings import SchedulerSettings
    from numakube.kube.client import Client
    from numakube.scheduling.assembly import Engine

_WAITING_EVENTS: Final = 10_000
_EVENT_WRITERS: Final = 16
"""Requests under way in a burst; with 32 bindings were slower on a real API server."""
_MAX_BODY_BYTES: Final = 8 << 20
"""A thousand pods, as they may be in a question whether they fit."""

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerOptions:
    """What a scheduler was told.

    Attributes:
        settings: every setting.
        config: file and flags together.
        connection: how to reach the cluster, by both.
        notes: what of the file is to be written otherwise today.
    """

    settings: SchedulerSettings
    config: KubeSchedulerConfiguration
    connection: ConnectionSettings
    notes: tuple[str, ...] = ()

    @property
    def logs(self) -> LogSettings:
        """What is logged, and how."""
        return self.settings.logs


async def run(options: SchedulerOptions, around: Surroundings, stop: asyncio.Event) -> int:
    """Schedule until *stop* is set; return the exit code.

    Raises:
        ConfigError: it cannot even start.
    """
    for note in options.notes:
        _log.warning("configuration", note=note)
    cluster = cluster_of(options.connection, env=around.env, root=around.root)
    rate, burst = request_rate(options.config.client_connection)
    _log.info("cluster", server=cluster.server, kubeconfig=options.connection.kubeconfig)
    async with connect(
        cluster,
        clock=around.clock,
        env=around.env,
        user_agent="numakube-scheduler",
        rate=rate,
        burst=burst,
    ) as client:
        process = SchedulerProcess(
            options.config,
            client,
            recorder_of(options.settings.recorder),
            minor=await _server_minor(client),
            shard=options.settings.shard,
        )
        listen = (
            listen_of(serving_of(options.settings), locate=around.locate) if around.serve else None
        )
        return await process.run(stop, None if listen is None else around.placed(listen))


class SchedulerProcess:
    """A running scheduler with everything around its loop."""

    def __init__(
        self,
        config: KubeSchedulerConfiguration,
        client: Client,
        recorder: FlightRecorder | None = None,
        *,
        topologies: bool = True,
        guarded: bool = True,
        minor: int | None = None,
        shard: str = "",
    ) -> None:
        """Prepare a scheduler.

        One that has no use for *topologies* need not watch them, and one that plays the cluster's
        kube-scheduler need not be *guarded* from it. *minor* is the minor version of the API
        server's Kubernetes, if it is known. Schedulers that each have a *shard* share the nodes.
        """
        self._config = config
        self._client = client
        self.identity = f"{HOLDER_PREFIX}{uuid4()}"
        self.leading = False
        self.registry: CollectorRegistry = new_registry("scheduler")
        self._metrics = SchedulerMetrics(self.registry)
        self._recorder = EventRecorder(
            client,
            component=config.profiles[0].scheduler_name,
            instance=self.identity,
            capacity=_WAITING_EVENTS,
            writers=_EVENT_WRITERS,
            gives_way=lambda: self.scheduler.is_busy,
        )
        self._guard = self._make_guard() if guarded else None
        volumes, permits = ApiVolumeActions(client), WaitingPods(client.clock)
        self._claims = claims = MeteredClaimActions(
            client,
            self._recorder,
            self._metrics.claims,
            minor=LATEST if minor is None else minor,
        )
        services = _services(client, volumes, permits)
        services.offer(CLAIM_ACTIONS, claims)
        members = GangMembers()
        services.offer(GANG_MEMBERS, members)
        services.offer(METRICS, self.registry)
        if minor is not None:
            services.offer(KUBERNETES_MINOR, minor)
        engine = assemble(config, all_plugins(DefaultBinder.make), services)
        for note in engine.notes:
            _log.warning("configuration", note=note)
        self._outcomes = Outcomes(client, self._recorder, engine.shards)
        self._shard = self._make_shard(engine, shard) if shard else None
        kinds = (*OBJECT_KINDS, *POD_GROUP_KINDS)
        self.mirror: Mirror = (
            self._shard.mirror_of(engine, kinds=kinds, topologies=topologies)
            if self._shard is not None
            else Mirror(client, engine.cluster, engine.cache, kinds=kinds, topologies=topologies)
        )
        recording = Recording(recorder or FlightRecorder(), engine.cluster, client.clock)
        self.parts = SchedulerParts(
            engine,
            self.mirror,
            client,
            Reporting(
                outcomes=self._outcomes,
                events=self._recorder,
                recording=recording,
                metrics=self._metrics,
            ),
            PluginServices(volumes=volumes, claims=claims, permits=permits, members=members),
            dice=np.random.default_rng(client.rng.getrandbits(64)),
            backoff=PodBackoff(config.pod_initial_backoff_seconds, config.pod_max_backoff_seconds),
        )
        self.scheduler = self.parts.loop
        if self._guard is not None and not self._shares_lease:
            self.parts.served.discard(DEFAULT_SCHEDULER)
        gauge = self._metrics.misaligned
        self.census = AlignmentCensus(self.mirror, engine.runtimes, client.clock, gauge)
        self._watch(engine)

    def _make_shard(self, engine: Engine, name: str) -> ShardMembership:
        config = self._config.leader_election
        return ShardMembership(
            self._client,
            engine.shards,
            name=name,
            lease=lease_of(config),
            identity=self.identity,
            timing=timing_of(config),
        )

    def _watch(self, engine: Engine) -> None:
        """Let the metrics see what they show."""
        names = {name for runtime in engine.runtimes.values() for name in runtime.profile.plugins()}
        self._metrics.watch_queue(self.scheduler.queue, sorted(names))
        self._metrics.watch_mirror(self.mirror)
        self._metrics.watch_gangs(self.parts.members, self.parts.gang_view.overlooked)
        self._metrics.held.set_function(lambda: len(self.parts.holds))
        for runtime in engine.runtimes.values():
            runtime.stopwatch = self._metrics.stopwatch
        self._metrics.shard_nodes.set_function(
            lambda: float(sum(map(engine.shards.holds, engine.cluster.nodes())))
        )
        lease = self._config.leader_election.resource_name
        self._metrics.leader.labels(lease).set_function(lambda: float(self.leading))

    async def run(self, stop: asyncio.Event, listen: Listen | None = None) -> int:
        """Schedule until *stop* is set; return the exit code."""
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._claims.abandon)
            if listen is not None:
                await self._serve(stack, listen)
            events = self._source_events()
            parts = (self.mirror, self._outcomes, self._recorder, events, self.census)
            return await work_until(
                stop,
                self._work(),
                beside=parts,
                flush=self._tell_the_rest,
                clock=self._client.clock,
            )

    def _source_events(self) -> TopologySourceEvents:
        election = self._config.leader_election
        return TopologySourceEvents(
            self.mirror,
            self._client.clock,
            self._recorder,
            lease=ObjectKey(election.resource_namespace, election.resource_name),
            leads=lambda: self.leading,
        )

    async def _tell_the_rest(self) -> None:
        """Write claims and events that are still waiting."""
        await self._claims.finish()
        await self._recorder.flush()

    async def _work(self) -> int:
        await self.mirror.synced()
        _log.info("caches_synced", nodes=len(self.mirror.cluster.row_of))
        elects = self._config.leader_election.leader_elect
        return await lead_with(self._election() if elects else None, self._lead)

    async def _lead(self) -> None:
        self.leading = True
        _log.info("leading", identity=self.identity)
        try:
            await self._schedule()
        finally:
            self.leading = False

    async def _schedule(self) -> None:
        """Schedule; pods of the default scheduler only while its lease is ours."""
        work = asyncio.create_task(self.scheduler.run())
        jobs = [work]
        if self._guard is not None and not self._shares_lease:
            jobs.append(asyncio.create_task(self._guard.run(self._take_over)))
        if self._shard is not None:
            jobs.append(asyncio.create_task(self._shard.run(self.parts.queue)))
        try:
            await asyncio.wait(jobs, return_when=asyncio.FIRST_COMPLETED)
        finally:
            # What is being bound is finished before the lease is given back.
            for job in jobs:
                await ended(job)
        for job in jobs:
            if not job.cancelled():
                job.result()

    def _take_over(self) -> None:
        """Take the pods that have waited for the default scheduler."""
        self.parts.served.add(DEFAULT_SCHEDULER)
        for pod in list(self.mirror.pods.store):
            info = PodInfo(pod)
            if (
                info.scheduler_name == DEFAULT_SCHEDULER
                and not info.node_name
                and not info.has_ended
                and self.mirror.has_met(pod)
            ):
                self.parts.listener.pod_waits(info)

    @property
    def _shares_lease(self) -> bool:
        """Whether the scheduler's own lease is kube-scheduler's, so that it waits as a whole."""
        config = self._config.leader_election
        return config.leader_elect and lease_of(config) == GUARDED_LEASE

    def _make_guard(self) -> DefaultSchedulerGuard | None:
        if not self._config.serves_default:
            return None
        timing = timing_of(self._config.leader_election)
        return DefaultSchedulerGuard(
            self._client, self._recorder, identity=self.identity, timing=timing
        )

    def _election(self) -> LeaderElection:
        if self._shard is not None:
            return self._shard.election
        if self._guard is not None and self._shares_lease:
            return self._guard.election
        config = self._config.leader_election
        return LeaderElection(
            self._client, lease_of(config), identity=self.identity, timing=timing_of(config)
        )

    def deciding(self) -> DecidingProgram:
        """Return what it knows, for those who show or explain it."""
        parts = self.parts
        return DecidingProgram(
            mirror=self.mirror,
            engine=parts.engine,
            speaker=Speaker("scheduler", self.identity, lambda: parts.queue.leads),
            recording=self.scheduler.recording,
            config=self._config,
            queue=self.scheduler.queue,
            gang_of=parts.gang_view.document,
            members=parts.members,
            holds=parts.holds,
        )

    async def _serve(self, stack: AsyncExitStack, listen: Listen) -> None:
        health = Health()
        health.ready("caches", self.mirror.missing)
        health.ready("topologies", self.mirror.topology_trouble)
        if self._guard is not None:
            health.ready(DEFAULT_SCHEDULER, self._guard.missing)
        endpoints = SchedulerEndpoints(self.parts, self._config, self._client, self.identity)
        inside = self.deciding()
        added = AnnexEndpoints(ServingProgram(client=self._client, decides=inside))
        access = Access(self._client, host=listen.host)
        serving = Serving(
            listen,
            health=health,
            registry=self.registry,
            access=access,
            max_body_bytes=_MAX_BODY_BYTES,
            routes=[
                *endpoints.routes(access),
                *Tenants(self._client, inside).routes(access),
                *added.routes(access),
            ],
        )
        server = await stack.enter_async_context(serving)
        await stack.enter_async_context(added.served())
        _log.info("serving", url=server.url)


def read_options(flags: Values, around: Surroundings) -> SchedulerOptions:
    """Return what files and flags add up to.

    Raises:
        ConfigError: something makes no sense.
    """
    notes: list[str] = []
    config = configuration_of(flags, around.locate, notes)
    settings = SETTINGS.read(flags, around)
    if settings.shard:
        require("SchedulerShards", "--shard")
    connection = connection_of(settings.connection, config.client_connection, around.locate)
    return SchedulerOptions(
        settings=settings, config=config, connection=connection, notes=tuple(notes)
    )


_ABOUT: Final = """\
Takes every pod that names one of its profiles in spec.schedulerName, and places it as
kube-scheduler would, on a node whose kubelet will align it.
"""

PROGRAM: Final = Program(
    name="scheduler",
    about=_ABOUT,
    settings=SETTINGS,
    read=read_options,
    run=run,
    holds_cluster=True,
    other=OF_KUBE_SCHEDULER,
)


async def _server_minor(client: Client) -> int | None:
    """Return the minor version of the server's Kubernetes, or None if it does not tell."""
    try:
        answer = await client.request(Request(method="GET", path="/version"))
        version = decode(ServerVersion, bytes(answer.body), "version")
    except NumakubeError as error:
        _log.warning("server_version_unknown", error=str(error))
        return None
    digits = version.minor.rstrip("+")
    return int(digits) if digits.isdecimal() else None


def _services(client: Client, volumes: ApiVolumeActions, permits: WaitingPods) -> Services:
    """Return what plugins may use."""
    services = Services()
    services.offer(CLIENT, client)
    services.offer(VOLUME_ACTIONS, volumes)
    services.offer(WAITING_PODS, permits)
    return services
