"""The rebalancer as a process: looks for something to win, and moves a few pods for it.

The settings of the rebalancer.

The rebalancer as a process: looks for something to win, and moves a few pods for it.

When reality departs from a plan, it says why in an event of the pod in question and in its log, and
moves nothing for a while.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import click
import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge

from numakube.apps.gathering import SCHEDULING, gather
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
from numakube.apps.host.settings_sources import DURATION, SettingsTable, group, require, setting
from numakube.insight import facts_of
from numakube.insight.collected import SCHEDULER_CONFIG
from numakube.kube import EventRecorder, LeaderElection, reference_to
from numakube.kube.catalog import PODS
from numakube.kube.connect import connect
from numakube.kube.resource_types import ObjectKey
from numakube_planning.annex import REBALANCER
from numakube_planning.rebalancer.goals import HourlyBudget, Restraint, chosen, quiet_hours
from numakube_planning.rebalancer.pod_moving import Mover, PlanFollower

if TYPE_CHECKING:
    from numakube.api.pod import Pod
    from numakube.apps.host.http_serving import Listen
    from numakube.apps.host.process_life import Surroundings
    from numakube.insight import ClusterFacts
    from numakube.kube import Client
    from numakube_planning.defrag.defrag_plan import Move, MovePlan
    from numakube_planning.rebalancer.goals import Goal


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalancerSettings:
    """What a rebalancer can be told."""

    waiting: bool = setting(
        "--waiting/--no-waiting",
        default=True,
        help="Whether to make room for pods and gangs that fit nowhere.",
    )
    stranded: bool = setting(
        "--stranded/--no-stranded",
        default=True,
        help="Whether to make stranded devices usable when no pod waits.",
    )
    moves_per_hour: int = setting(
        "--moves-per-hour",
        type=click.IntRange(1),
        default=6,
        help="Most pods to move in an hour.",
    )
    quiet_hours: str = setting(
        "--quiet-hours",
        metavar="HH:MM-HH:MM,...",
        help="Move nothing at these times of the day, in UTC.",
    )
    dry_run: bool = setting(
        "--dry-run/--no-dry-run",
        default=False,
        help="Move nothing: events of pods say what would be moved, and why.",
    )
    interval: float = setting(
        "--interval",
        type=DURATION,
        default=300.0,
        help="How often to look for pods to move.",
    )
    patience: float = setting(
        "--move-timeout",
        type=DURATION,
        default=300.0,
        help="Abandon a plan if one pod takes longer to move.",
    )
    pause: float = setting(
        "--pause",
        type=DURATION,
        default=3600.0,
        help="How long to move nothing after a plan was abandoned.",
    )
    lease: LeaseSettings = group(LeaseSettings)
    serving: ServingSettings = serving_on(REBALANCER.port)
    connection: ConnectionSettings = group(ConnectionSettings)
    logs: LogSettings = group(LogSettings)


SETTINGS: Final = SettingsTable(RebalancerSettings)


NAME: Final = "numakube-rebalancer"

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class RebalancerMetrics:
    """The metrics of a rebalancer."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.moves = Counter(
            "numakube_rebalancer_moves_total", "Pods that were moved.", registry=registry
        )
        self.planned = Gauge(
            "numakube_rebalancer_planned_moves", "Moves of the latest plan.", registry=registry
        )
        self.departures = Counter(
            "numakube_rebalancer_departures_total",
            "Plans that were abandoned because the cluster departed from them.",
            registry=registry,
        )
        self.failures = Counter(
            "numakube_rebalancer_failures_total",
            "Turns that ended early because the API server refused something or did not answer.",
            registry=registry,
        )
        self.paused = Gauge(
            "numakube_rebalancer_paused",
            "Whether it moves nothing because a plan was abandoned.",
            registry=registry,
        )


async def run(settings: RebalancerSettings, around: Surroundings, stop: asyncio.Event) -> int:
    """Move pods until *stop* is set; return the exit code."""
    require("PodMoves", "the rebalancer")
    config = cluster_of(settings.connection, env=around.env, root=around.root)
    async with connect(config, clock=around.clock, env=around.env, user_agent=NAME) as client:
        process = RebalancerProcess(settings, client)
        listen = listen_of(settings.serving, locate=around.locate) if around.serve else None
        return await process.run(stop, None if listen is None else around.placed(listen))


class RebalancerProcess:
    """A running rebalancer."""

    def __init__(self, settings: RebalancerSettings, client: Client) -> None:
        self.identity = f"{NAME}_{uuid4()}"
        self.registry = new_registry("rebalancer")
        self._settings = settings
        self._client = client
        self._metrics = RebalancerMetrics(self.registry)
        self.recorder = EventRecorder(client, component=NAME, instance=self.identity)
        self._restraint = Restraint(
            quiet_hours(settings.quiet_hours), HourlyBudget(settings.moves_per_hour), settings.pause
        )
        self._told: set[tuple[str, str]] = set()
        self._turns = Turns(
            self.turn,
            clock=client.clock,
            seconds=settings.interval,
            failures=self._metrics.failures,
            complaint="cannot_rebalance",
        )

    async def run(self, stop: asyncio.Event, listen: Listen | None = None) -> int:
        """Move pods until *stop* is set; return the exit code."""
        async with AsyncExitStack() as stack:
            if listen is not None:
                await self._serve(stack, listen)
            return await work_until(
                stop,
                lead_with(self._election(), self._lead),
                beside=(self.recorder,),
                flush=self.recorder.flush,
                clock=self._client.clock,
            )

    def _election(self) -> LeaderElection | None:
        lease = self._settings.lease
        if not lease.leader_elect:
            return None
        key = ObjectKey(lease.namespace, NAME)
        return LeaderElection(self._client, key, identity=self.identity)

    async def _lead(self) -> None:
        _log.info("leading", identity=self.identity)
        await self._turns.run()

    async def turn(self) -> str:
        """Look once, and do what may be done; return why a plan was given up, or nothing.

        Raises:
            NumakubeError: the API server refuses something, or does not answer.
        """
        mover = self._mover()
        most = self._moves_allowed()
        if not self._settings.dry_run:
            others = await mover.lift_leftovers(older_than=2 * self._settings.patience)
            most = 0 if others else most
        if not most:
            return ""
        facts = await self._look()
        settings = self._settings
        found = await asyncio.to_thread(
            chosen, facts, most, waiting=settings.waiting, stranded=settings.stranded
        )
        self._metrics.planned.set(found[1].moves if found is not None else 0)
        if found is None:
            return ""
        goal, plan = found
        if settings.dry_run:
            self._tell_what_would_be(goal, plan, facts)
            return ""
        return await self._follow(goal, plan, facts, mover)

    def _moves_allowed(self) -> int:
        clock = self._client.clock
        self._metrics.paused.set(self._restraint.is_paused(clock.monotonic()))
        return self._restraint.moves_allowed(clock.monotonic(), clock.now())

    async def _follow(self, goal: Goal, plan: MovePlan, facts: ClusterFacts, mover: Mover) -> str:
        _log.info("plan", moves=plan.moves, goal=goal.why)
        mover.arrived = lambda move, pod: self._moved(goal, move, pod)
        follower = PlanFollower(mover=mover, look=self._look, plan=goal.plan)
        departure = await follower.follow(plan, facts)
        if departure:
            self._metrics.departures.inc()
            self._restraint.pause(self._client.clock.monotonic())
            _log.warning("plan_given_up", reason=departure, goal=goal.why)
            first = plan.steps[0].moves[0].pod
            about = goal.about or next(one for one in facts.pods if one.metadata.key == first)
            note = f"stopped moving pods so that {goal.why}: {departure}"
            self.recorder.warning(reference_to(PODS, about), "RebalancingStopped", note)
        return departure

    def _moved(self, goal: Goal, move: Move, pod: Pod) -> None:
        self._restraint.budget.spend(self._client.clock.monotonic())
        self._metrics.moves.inc()
        note = f"replaces {move.pod}, which left {move.from_node} so that {goal.why}"
        self.recorder.normal(reference_to(PODS, pod), "Moved", note)

    def _tell_what_would_be(self, goal: Goal, plan: MovePlan, facts: ClusterFacts) -> None:
        """Say of each pod where it would go, once."""
        pods = {one.metadata.key: one for one in facts.pods}
        told = {(move.pod, goal.why): move for step in plan.steps for move in step.moves}
        for key, move in told.items():
            if key not in self._told:
                note = f"would move from {move.from_node} to {move.to_node} so that {goal.why}"
                self.recorder.normal(reference_to(PODS, pods[move.pod]), "WouldMove", note)
        self._told = set(told)

    def _mover(self) -> Mover:
        return Mover(
            self._client,
            patience=self._settings.patience,
            tell=lambda text: _log.info("step", deed=text),
        )

    async def _look(self) -> ClusterFacts:
        return facts_of(await gather(self._client, what=SCHEDULING | {SCHEDULER_CONFIG}))

    async def _serve(self, stack: AsyncExitStack, listen: Listen) -> None:
        health = Health()
        health.ready("rebalancing", lambda: self._turns.trouble)
        access = Access(self._client, host=listen.host)
        server = await stack.enter_async_context(
            Serving(listen, health=health, registry=self.registry, access=access)
        )
        _log.info("serving", url=server.url)


_ABOUT: Final = """\
Moves a few pods an hour so that pods which wait fit, and that stranded devices become usable.
Nothing runs it unless you deploy it.
"""

PROGRAM: Final = Program(
    name="rebalancer",
    about=_ABOUT,
    settings=SETTINGS,
    read=SETTINGS.read,
    run=run,
)
