"""The admission check as a process: asks again and again, and lets in what fits.

The settings of the admission check.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge

from numakube.apps.host import Access
from numakube.apps.host.common_settings import (
    ConnectionSettings,
    LeaseSettings,
    LogSettings,
    ServingSettings,
    cluster_of,
    listen_of,
    serving_on,
)
from numakube.apps.host.http_serving import Health, Serving
from numakube.apps.host.process_life import Turns, lead_with, new_registry, work_until
from numakube.apps.host.program import Program
from numakube.apps.host.settings_sources import DURATION, SettingsTable, group, setting
from numakube.errors import ServiceUnavailable
from numakube.kube import EventRecorder, LeaderElection
from numakube.kube.connect import connect
from numakube.kube.resource_types import ObjectKey
from numakube_planning.admission_check.kueue_workloads import KueueWorkloads, Times
from numakube_planning.admission_check.waiting_work import Asker, GatedPods, next_to_ask
from numakube_planning.annex import ADMISSION_CHECK

if TYPE_CHECKING:
    import asyncio

    from numakube.apps.host.http_serving import Listen
    from numakube.apps.host.process_life import Surroundings
    from numakube.kube import Client
    from numakube_planning.admission_check.waiting_work import Work, WorkSource


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionCheckSettings:
    """The settings of an admission check."""

    kueue: bool = setting(
        "--kueue/--no-kueue",
        default=True,
        help="Whether to answer for workloads of Kueue, where it is installed.",
    )
    gates: bool = setting(
        "--gates/--no-gates",
        default=True,
        help="Whether to remove the scheduling gate numakube.dev/fits from pods that fit.",
    )
    interval: float = setting(
        "--interval",
        type=DURATION,
        default=5.0,
        help="How often to ask about waiting work.",
    )
    hold: float = setting(
        "--hold",
        type=DURATION,
        default=120.0,
        help="How long room is kept for admitted pods that do not exist yet.",
    )
    patience: float = setting(
        "--patience",
        type=DURATION,
        default=300.0,
        help="How long a workload keeps its quota while it does not fit; 0s: no limit.",
    )
    requeue: float = setting(
        "--requeue-after",
        type=DURATION,
        default=60.0,
        help="How long Kueue keeps such a workload out of its queue.",
    )
    scheduler_url: str = setting(
        "--scheduler-url",
        metavar="URL",
        help="Ask this scheduler instead of the pods with --scheduler-selector.",
    )
    scheduler_selector: str = setting(
        "--scheduler-selector",
        default="app.kubernetes.io/part-of=numakube,app.kubernetes.io/component=scheduler",
        metavar="SELECTOR",
        help="Labels of the scheduler's pods, which are asked through the API server.",
    )
    scheduler_ca: str = setting(
        "--scheduler-ca",
        metavar="FILE",
        help="Authority of the certificate behind --scheduler-url.",
    )
    scheduler_token_file: str = setting(
        "--scheduler-token-file",
        metavar="FILE",
        help="Bearer token for --scheduler-url.",
    )
    lease: LeaseSettings = group(LeaseSettings)
    serving: ServingSettings = serving_on(ADMISSION_CHECK.port)
    connection: ConnectionSettings = group(ConnectionSettings)
    logs: LogSettings = group(LogSettings)


SETTINGS: Final = SettingsTable(AdmissionCheckSettings)


LEASE: Final = "numakube-admission-check"
MOST_AT_ONCE: Final = 20
"""Pieces of waiting work that a scheduler is asked about in a row; it schedules nothing then."""

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class AdmissionCheckMetrics:
    """The metrics of an admission check."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.waiting = Gauge(
            "numakube_admission_check_waiting",
            "Work that waits until it fits: workloads, or groups of pods.",
            ("source",),
            registry=registry,
        )
        self.answers = Counter(
            "numakube_admission_check_answers_total",
            "Answers of the scheduler about waiting work: fits or refused.",
            ("source", "result"),
            registry=registry,
        )
        self.failures = Counter(
            "numakube_admission_check_failures_total",
            "Rounds that ended early because the scheduler or the API server did not answer.",
            registry=registry,
        )


async def run(settings: AdmissionCheckSettings, around: Surroundings, stop: asyncio.Event) -> int:
    """Let work in until *stop* is set; return the exit code."""
    config = cluster_of(settings.connection, env=around.env, root=around.root)
    async with connect(
        config, clock=around.clock, env=around.env, user_agent="numakube-admission-check"
    ) as client:
        process = AdmissionCheckProcess(settings, around, client)
        listen = listen_of(settings.serving, locate=around.locate) if around.serve else None
        return await process.run(stop, None if listen is None else around.placed(listen))


class AdmissionCheckProcess:
    """A running admission check."""

    def __init__(
        self, settings: AdmissionCheckSettings, around: Surroundings, client: Client
    ) -> None:
        self.identity = f"numakube-admission-check_{uuid4()}"
        self.registry = new_registry("admission-check")
        self._settings = settings
        self._client = client
        self._metrics = AdmissionCheckMetrics(self.registry)
        self._recorder = EventRecorder(client, component=LEASE, instance=self.identity)
        self._asker = _asker_of(settings, around, client)
        self._sources = self._make_sources()
        self._asked: dict[str, float] = {}
        self._held: set[str] = set()
        self._turns = Turns(
            self.turn,
            clock=client.clock,
            seconds=settings.interval,
            failures=self._metrics.failures,
            complaint="cannot_ask",
        )

    def _make_sources(self) -> list[WorkSource]:
        settings = self._settings
        found: list[WorkSource] = []
        if settings.kueue:
            times = Times(hold=settings.hold, patience=settings.patience, requeue=settings.requeue)
            found.append(KueueWorkloads(self._client, times))
        if settings.gates:
            found.append(GatedPods(self._client, self._recorder, hold_seconds=settings.hold))
        return found

    async def run(self, stop: asyncio.Event, listen: Listen | None = None) -> int:
        """Let work in until *stop* is set; return the exit code."""
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._asker.aclose)
            if listen is not None:
                await self._serve(stack, listen)
            parts = [reflector for source in self._sources for reflector in source.reflectors()]
            return await work_until(
                stop,
                lead_with(self._election(), self._lead),
                beside=(*parts, self._recorder),
                flush=self._recorder.flush,
                clock=self._client.clock,
            )

    def _election(self) -> LeaderElection | None:
        lease = self._settings.lease
        if not lease.leader_elect:
            return None
        key = ObjectKey(lease.namespace, LEASE)
        return LeaderElection(self._client, key, identity=self.identity)

    async def _lead(self) -> None:
        _log.info("leading", identity=self.identity)
        await self._turns.run()

    async def turn(self) -> None:
        """Ask about work of all sources once, and give back room that is of no use any more.

        Raises:
            NumakubeError: the scheduler or the API server does not answer.
        """
        source_of: dict[str, WorkSource] = {}
        work: dict[str, Work] = {}
        for source in self._sources:
            found = await source.work()
            self._metrics.waiting.labels(source.name).set(sum(not work.admitted for work in found))
            for one in found:
                work[one.hold], source_of[one.hold] = one, source
        for hold in self._held - work.keys():
            await self._asker.release(hold)
            self._held.discard(hold)
        self._asked = {hold: time for hold, time in self._asked.items() if hold in work}
        unanswered: ServiceUnavailable | None = None
        for one in next_to_ask(work.values(), self._asked, MOST_AT_ONCE):
            try:
                await self._ask(one, source_of[one.hold])
            except ServiceUnavailable as error:
                # A question may take too long that others behind it would not.
                unanswered = error
        if unanswered is not None:
            raise unanswered

    async def _ask(self, work: Work, source: WorkSource) -> None:
        # Those that get no answer have had their turn as well.
        self._asked[work.hold] = self._client.clock.monotonic()
        reason = await self._asker.reason_against(work)
        self._metrics.answers.labels(source.name, "refused" if reason else "fits").inc()
        if reason:
            await source.refuse(work, reason)
            return
        if source.gives_back:
            self._held.add(work.hold)
        await source.admit(work)

    async def _serve(self, stack: AsyncExitStack, listen: Listen) -> None:
        health = Health()
        health.ready("scheduler", lambda: self._turns.trouble)
        access = Access(self._client, host=listen.host)
        server = await stack.enter_async_context(
            Serving(listen, health=health, registry=self.registry, access=access)
        )
        _log.info("serving", url=server.url)


def _asker_of(settings: AdmissionCheckSettings, around: Surroundings, client: Client) -> Asker:
    def token() -> str:
        path = settings.scheduler_token_file
        return around.locate(path).read_text(encoding="utf-8").strip() if path else ""

    authority = settings.scheduler_ca
    return Asker(
        client,
        url=settings.scheduler_url,
        selector=settings.scheduler_selector,
        authority=str(around.locate(authority)) if authority else "",
        token=token,
    )


_ABOUT: Final = """\
Answers for Kueue's AdmissionChecks of the controller numakube.dev/admission-check, and removes the
scheduling gate numakube.dev/fits from pods. The room of what was let in is kept for a while.
"""

PROGRAM: Final = Program(
    name="admission-check",
    about=_ABOUT,
    settings=SETTINGS,
    read=SETTINGS.read,
    run=run,
)
