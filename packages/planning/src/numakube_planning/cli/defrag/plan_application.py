"""``kubectl numa plan defrag --apply``: carries out a plan, and says what it does."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import click

from numakube.api.fit_question import HOLD, AskedPodSet
from numakube.apps.gathering import SCHEDULING, gather
from numakube.cli.shared.connection_options import connected
from numakube.errors import ConfigError
from numakube.insight import facts_of
from numakube.insight.collected import SCHEDULER_CONFIG
from numakube.manifests.cluster_policies import SELECTOR
from numakube.values.display import age_text
from numakube_planning.admission_check.waiting_work import Asker, Work
from numakube_planning.rebalancer.pod_moving import Mover, PlanFollower

if TYPE_CHECKING:
    from collections.abc import Callable

    from numakube.api.pod import Pod
    from numakube.cli.shared.connection_options import ClusterOptions
    from numakube.cli.shared.scheduler_options import AskedSchedulers
    from numakube.insight import ClusterFacts
    from numakube.kube import Client
    from numakube_planning.defrag.defrag_plan import MovePlan

GIVEN_UP: Final = 1
_INTERRUPTED: Final = 130


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomHold:
    """How the scheduler keeps places for pods that are still to come.

    Attributes:
        name: what the annotation `HOLD` of those pods says.
        seconds: for how long.
        pod: what they are like on a cluster.
    """

    name: str
    seconds: float
    pod: Callable[[ClusterFacts], Pod]
    schedulers: AskedSchedulers

    async def keep(self, client: Client, facts: ClusterFacts, count: int) -> str:
        """Have *count* places kept; return what to tell.

        Raises:
            ConfigError: the scheduler does not keep them; it says why.
        """
        told = self.schedulers
        asker = Asker(
            client,
            url=next(iter(told.urls), ""),
            selector=told.selector or SELECTOR,
            authority=told.authority,
            token=told.token,
        )
        pods = (AskedPodSet(pod=self.pod(facts), count=count),)
        try:
            why = await asker.reason_against(Work(hold=self.name, pods=pods, seconds=self.seconds))
        finally:
            await asker.aclose()
        if why:
            raise ConfigError(f"the scheduler does not hold the places: {why}")
        places = "1 place is" if count == 1 else f"{count} places are"
        until = age_text(self.seconds)
        return f"{places} held for {until}: pods with the annotation {HOLD}: {self.name} take them"


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """How a plan is to be carried out.

    Attributes:
        plan: makes the plan for a cluster, see `PlanFollower`.
        most: moves that it may take where it could go on for ever.
        show: shows a plan to the user.
        patience: seconds that one move may take.
        dry_run: have the API server check everything, and change nothing.
        hold: keeps the places that the plan opens; ``None`` to leave them to anybody.
    """

    plan: Callable[[ClusterFacts, int], MovePlan]
    most: int
    show: Callable[[MovePlan, ClusterFacts], None]
    patience: float
    dry_run: bool
    hold: RoomHold | None = None

    def run(self, cluster: ClusterOptions) -> int:
        """Carry the plan out on *cluster*; return the exit code."""
        try:
            return asyncio.run(self._run(cluster))
        except (KeyboardInterrupt, asyncio.CancelledError):
            click.echo("interrupted: nothing stays cordoned; run it again to go on", err=True)
            return _INTERRUPTED

    async def _run(self, cluster: ClusterOptions) -> int:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        if task is not None:
            # Not in threads, which get no signals. Control-C cancels the task anyway.
            with contextlib.suppress(RuntimeError, ValueError):
                loop.add_signal_handler(signal.SIGTERM, task.cancel)
        async with connected(cluster, patient=True) as client:
            return await self._apply(client)

    async def _apply(self, client: Client) -> int:
        mover = Mover(client, patience=self.patience, tell=click.echo, dry_run=self.dry_run)
        await mover.lift_leftovers()
        facts = await _look(client)
        plan = self.plan(facts, self.most)
        self.show(plan, facts)
        departure = await self._follower(client, _rehearsing(mover)).follow(plan, facts)
        if not departure:
            departure = await self._follower(client, mover).follow(plan, facts)
        if departure:
            click.echo(f"error: stopped after {_moves(mover.moved)}: {departure}", err=True)
            return GIVEN_UP
        if self.hold is not None and plan.nodes and not self.dry_run:
            click.echo(await self.hold.keep(client, await _look(client), len(plan.nodes)))
        return int(len(plan.nodes) < plan.wanted)

    def _follower(self, client: Client, mover: Mover) -> PlanFollower:
        return PlanFollower(mover=mover, look=lambda: _look(client), plan=self.plan)


def _rehearsing(mover: Mover) -> Mover:
    """Return one that has the server check every deed: who may not do all of it does nothing."""
    return Mover(mover.client, patience=mover.patience, tell=lambda _: None, dry_run=True)


def _moves(count: int) -> str:
    return "1 move" if count == 1 else f"{count} moves"


async def _look(client: Client) -> ClusterFacts:
    return facts_of(await gather(client, what=SCHEDULING | {SCHEDULER_CONFIG}))
