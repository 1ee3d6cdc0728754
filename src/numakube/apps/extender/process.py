"""The extender as a process: from options to an exit code.

Every replica answers every call; none leads. What a replica knows comes from the API server, so
it can be started, stopped and moved at any time. It is ready once nodes, pods and topologies have
been listed.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import structlog

from numakube.apps.cluster_mirror import Mirror
from numakube.apps.debugging.annex_endpoints import AnnexEndpoints, DecidingProgram, ServingProgram
from numakube.apps.debugging.documents import Speaker
from numakube.apps.debugging.loglevel_endpoint import Levels
from numakube.apps.debugging.state_endpoints import Attempts, Caches, Resync, node_of
from numakube.apps.extender.bind_pods import Claims, PodBinding
from numakube.apps.extender.extender_engine import AllottingEngine, allotting_plugin, fit_engine
from numakube.apps.extender.filter_nodes import Judge, VirtualNodes, config_map_reflector
from numakube.apps.extender.metrics import ExtenderMetrics
from numakube.apps.extender.pending_binds import HOLD_SECONDS, PendingPods
from numakube.apps.extender.settings import NAMESPACE, SETTINGS, numa_settings_of, placement_args_of
from numakube.apps.extender.verb_endpoints import KEEP_ALIVE_SECONDS, MAX_BODY_BYTES, VerbEndpoints
from numakube.apps.extender.verbs import Verbs
from numakube.apps.extender.wake_pods import Waking
from numakube.apps.flight_recording import Recording, recorder_of
from numakube.apps.host.common_settings import cluster_of, listen_of
from numakube.apps.host.endpoint_access import Access
from numakube.apps.host.http_serving import READ_SECONDS, Health, Listen, Serving, parse_address
from numakube.apps.host.process_life import Every, new_registry, work_until
from numakube.apps.host.program import Program
from numakube.errors import ConfigError
from numakube.kube.connect import connect
from numakube.scheduling.framework.cluster_events import OBJECT_KINDS
from numakube.scheduling.numa.topology_match import make_cache, make_engine
from numakube.scheduling.numa.topology_match_args import read_args
from numakube.scheduling.recorder.flight_recorder import FlightRecorder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from aiohttp import web
    from prometheus_client import CollectorRegistry

    from numakube.apps.extender.settings import ExtenderSettings
    from numakube.apps.host.process_life import Surroundings
    from numakube.kube.client import Client
    from numakube.scheduling.numa.topology_match_args import Settings as NumaSettings


# The debugging endpoints of the extender: all that a program with a mirror and a recorder has.


class Debugging:
    """The endpoints."""

    def __init__(
        self,
        client: Client,
        mirror: Mirror,
        recording: Recording,
        speaker: Speaker,
    ) -> None:
        caches = Caches(mirror, recording, speaker, client.clock)
        self._parts = (
            Attempts(recording, speaker, lambda key: node_of(mirror, key)),
            caches,
            Resync(client, mirror, caches, speaker),
            Levels(speaker, client.clock),
        )

    def routes(self, access: Access) -> list[web.RouteDef]:
        """Return the routes, open only to those who may."""
        return [route for part in self._parts for route in part.routes(access)]


TIDY_SECONDS: Final = 0.5
_KINDS: Final = tuple(
    kind for kind in OBJECT_KINDS if kind.field in ("disruption_budgets", "devices")
)

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtenderOptions:
    """What an extender was told.

    Attributes:
        numa: how nodes are judged and pods accounted for.
        placement: arguments of the plugin that places pods where no kubelet aligns them.
        claims: whether binds go through the leases of nodes.
        namespace: of these leases.
        hold_seconds: how long room is kept for a pod until it is bound.
        read_seconds: how long a request may take to arrive.
        token: returns what callers must show; ``None`` if nothing.
        health: where health, metrics and debugging endpoints are served besides.
        recorder: keeps the last attempts of each pod.
    """

    numa: NumaSettings
    placement: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    claims: bool = True
    namespace: str = NAMESPACE
    hold_seconds: float = HOLD_SECONDS
    max_body_bytes: int = MAX_BODY_BYTES
    read_seconds: float = READ_SECONDS
    token: Callable[[], str] | None = None
    health: Listen | None = None
    recorder: FlightRecorder = field(default_factory=FlightRecorder)

    @classmethod
    def default(cls, *, claims: bool = True) -> ExtenderOptions:
        """Return the options of an extender that was told nothing."""
        return cls(numa=read_args({}), claims=claims)


def options_of(settings: ExtenderSettings, around: Surroundings) -> ExtenderOptions:
    """Return what the settings add up to.

    Raises:
        ConfigError: something makes no sense.
    """
    path = settings.token_file
    return ExtenderOptions(
        numa=numa_settings_of(settings.args_file, around.locate),
        placement=placement_args_of(settings.placement_args_file, around.locate),
        claims=settings.claims,
        namespace=settings.namespace,
        hold_seconds=settings.hold_seconds,
        max_body_bytes=settings.max_body_bytes,
        token=_token_in(around.locate(path)) if path else None,
        health=_health_at(settings.health_address),
        recorder=recorder_of(settings.recorder),
    )


async def run(settings: ExtenderSettings, around: Surroundings, stop: asyncio.Event) -> int:
    """Answer until *stop* is set; return the exit code.

    Raises:
        ConfigError: it cannot even start.
    """
    options = options_of(settings, around)
    cluster = cluster_of(settings.connection, env=around.env, root=around.root)
    async with connect(
        cluster, clock=around.clock, env=around.env, user_agent="numakube-extender", rate=0
    ) as client:
        process = ExtenderProcess(options, client)
        listen = _listen_of(settings, options, around) if around.serve else None
        return await process.run(stop, None if listen is None else around.placed(listen))


class ExtenderProcess:
    """A running extender.

    Attributes:
        url: where it serves, once it does.
        engine: says whether pods would fit; what is known of the cluster is kept here.
    """

    def __init__(self, options: ExtenderOptions, client: Client) -> None:
        self._options = options
        self._client = client
        self.registry: CollectorRegistry = new_registry("extender")
        self.metrics = ExtenderMetrics(self.registry)
        self.identity = f"numakube-extender_{uuid4()}"
        # Whatever comes through kube-scheduler is announced by its bind call; all else is foreign.
        cache = make_cache(options.numa.cache, frozenset())
        self.engine = fit_engine(options.numa, cache)
        self.mirror = Mirror(client, self.engine.cluster, cache, kinds=_KINDS, namespaces=False)
        plugin = allotting_plugin(options.placement, self.mirror.cluster)
        engine = AllottingEngine(self.mirror.cluster, make_engine(options.numa), plugin)
        judge = Judge(self.mirror.cluster, engine, self.engine.nominations)
        holds = PendingPods(seconds=options.hold_seconds)
        self.claims = self._claims() if options.claims else None
        self.recording = Recording(options.recorder, self.mirror.cluster, client.clock)
        self._booking = PodBinding(client, self.mirror, judge, self.claims, self.recording)
        self.waking = Waking(client, judge, holds, self.metrics)
        virtual = VirtualNodes(judge, options.numa)
        self._node_groups = config_map_reflector(client, options.namespace)
        self._node_groups.store.subscribe(virtual.described)
        self.verbs = Verbs(
            clock=client.clock,
            mirror=self.mirror,
            judge=judge,
            virtual=virtual,
            holds=holds,
            booking=self._booking,
            claims=self.claims,
            waking=self.waking,
            metrics=self.metrics,
            recording=self.recording,
        )
        self.mirror.listener = self.verbs
        self.metrics.node_states.cluster = self.mirror.cluster
        self.url = ""
        self.serving = asyncio.Event()

    async def run(self, stop: asyncio.Event, listen: Listen | None = None) -> int:
        """Answer until *stop* is set; bindings under way are finished first."""
        async with AsyncExitStack() as stack:
            if listen is not None:
                await self._serve(stack, listen)
            clock = self._client.clock
            return await work_until(
                stop,
                self._answer(stop),
                beside=(
                    self.mirror,
                    self._node_groups,
                    self.waking,
                    Every(self.verbs.tidy, TIDY_SECONDS, clock),
                    Every(self._resync, self._options.numa.cache.resync_seconds, clock),
                ),
                clock=clock,
                end=lambda: None,
            )

    async def _answer(self, stop: asyncio.Event) -> int:
        # The server answers; what is left to do at the end is the bindings under way.
        await stop.wait()
        await self._booking.finished()
        return 0

    def _claims(self) -> Claims:
        return Claims(
            self._client,
            self.mirror,
            namespace=self._options.namespace,
            identity=self.identity,
        )

    async def _serve(self, stack: AsyncExitStack, listen: Listen) -> None:
        health = Health()
        health.ready("caches", self.mirror.missing)
        health.ready("topologies", self.mirror.topology_trouble)
        endpoints = VerbEndpoints(
            self.verbs,
            self.metrics,
            self._client.clock,
            not_ready=self.mirror.missing,
            token=self._options.token,
            read_seconds=self._options.read_seconds,
        )
        speaker = Speaker("extender", self.identity, _always)
        debugging = Debugging(self._client, self.mirror, self.recording, speaker)
        inside = DecidingProgram(
            mirror=self.mirror, engine=self.engine, speaker=speaker, recording=self.recording
        )
        added = AnnexEndpoints(ServingProgram(client=self._client, decides=inside))
        access = Access(self._client, host=listen.host)
        serving = Serving(
            listen,
            health=health,
            registry=self.registry,
            access=access,
            routes=[*endpoints.routes(), *added.routes(access), *debugging.routes(access)],
            posts=endpoints.posts(),
            max_body_bytes=self._options.max_body_bytes,
            keep_alive_seconds=KEEP_ALIVE_SECONDS,
        )
        if self._options.health is not None:
            # Where no client certificate is needed, which the API server's proxy does not have.
            also = replace(self._options.health, elsewhere=listen.elsewhere)
            tools = Access(self._client, host=also.host)
            routes = [*debugging.routes(tools), *added.routes_for_tools(tools)]
            beside = Serving(also, health=health, registry=self.registry, routes=routes)
            await stack.enter_async_context(beside)
        server = await stack.enter_async_context(serving)
        await stack.enter_async_context(added.served())
        self.url = server.url
        self.serving.set()
        _log.info("serving", url=server.url)

    def _resync(self) -> None:
        self.mirror.apply(self.mirror.cache.resync(self._client.clock.monotonic()))


def _listen_of(
    settings: ExtenderSettings, options: ExtenderOptions, around: Surroundings
) -> Listen:
    """Return where to serve.

    Raises:
        ConfigError: every client could call, and no setting allows that.
    """
    listen = listen_of(settings.serving, locate=around.locate)
    if not listen.knows_callers and options.token is None:
        raise ConfigError(
            f"every client of {listen.host}:{listen.port} could bind pods and have room kept: give "
            "--tls-client-ca-file or --token-file, or allow that with --insecure-serving"
        )
    return listen


def _always() -> bool:
    """Tell that it works: no extender leads another."""
    return True


def _health_at(address: str) -> Listen | None:
    if not address:
        return None
    host, port = parse_address(address)
    return Listen(host=host, port=port, plain=True)


def _token_in(path: Path) -> Callable[[], str]:
    """Return what reads the token, again each time, so that it can be changed."""

    def read() -> str:
        try:
            token = path.read_text(encoding="utf-8").strip()
        except OSError as error:
            raise ConfigError(f"--token-file {path}: {error.strerror}") from None
        if not token:
            raise ConfigError(f"--token-file {path}: it is empty")
        return token

    read()
    return read


_ABOUT: Final = """\
Keeps a mirror of nodes, pods and NodeResourceTopologies, and answers filter, prioritize, preempt
and bind of the scheduler-extender protocol.
"""

PROGRAM: Final = Program(
    name="extender",
    about=_ABOUT,
    settings=SETTINGS,
    read=SETTINGS.read,
    run=run,
    holds_cluster=True,
)
