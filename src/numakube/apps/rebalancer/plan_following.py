"""Follows a plan to its end: a move, a new look at the cluster, a new plan for the rest.

A replacement may go elsewhere than planned, since schedulers choose among equal nodes at random,
and other pods come and go meanwhile. What counts is that the rest of the plan still leads to the
promised end. So after every move, and before the next pod is evicted, the rest is planned again
from what the cluster is like then; as long as it takes no more moves than there were left, and
as many pods fit in the end, all is well. Otherwise reality has departed from the plan, and nothing
more is moved.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from numakube.apps.rebalancer.pod_moving import without_cordons
from numakube.values.resources import CPU, is_memory

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from numakube.apps.rebalancer.pod_moving import Mover
    from numakube.insight.defrag.defrag_plan import Plan
    from numakube.insight.facts import ClusterFacts
    from numakube.values.resources import Amounts

SETTLING_SECONDS: Final = 60.0
"""How long the reports of nodes may take to show the latest move."""
_PAUSE_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Follower:
    """Carries out plans.

    Attributes:
        mover: moves pods.
        look: returns what the cluster is like now.
        plan: returns the plan for a cluster, with so many moves at most where it could go on for
            ever; it takes a while and runs in a thread.
    """

    mover: Mover
    look: Callable[[], Awaitable[ClusterFacts]]
    plan: Callable[[ClusterFacts, int], Plan]

    async def follow(self, plan: Plan, facts: ClusterFacts) -> str:
        """Carry out *plan*, made for *facts*; return why it was given up, or nothing.

        Raises:
            ApiError: something is not allowed, or the API server refuses it.
        """
        async with self.mover.cordons():
            while plan.steps:
                move, pods = plan.next, {one.metadata.key: one for one in facts.pods}
                departure = await self.mover.carry_out(move, pods[move.pod])
                rest = plan.after_next()
                if not departure and not self.mover.dry_run:
                    facts, rest, departure = await self._planned_again(rest)
                if departure:
                    return departure
                plan = rest
        return ""

    async def _planned_again(self, rest: Plan) -> tuple[ClusterFacts, Plan, str]:
        """Return the cluster after a move, the plan for the rest, and why it is not as good."""
        clock = self.mover.client.clock
        end = clock.monotonic() + SETTLING_SECONDS
        while True:
            facts = without_cordons(await self.look())
            again = await asyncio.to_thread(self.plan, facts, rest.moves)
            departure = _worse(again, rest)
            if not departure or clock.monotonic() > end:
                return facts, again, departure
            await clock.sleep(_PAUSE_SECONDS)


def _worse(again: Plan, rest: Plan) -> str:
    """Return in which way *again* is worse than what was planned; empty if it is not."""
    if again.aligns and (again.steps or not again.nodes):
        return f"{again.aligns} is not aligned{f': {again.why_not}' if again.why_not else ''}"
    if len(again.nodes) < len(rest.nodes):
        fewer = f"{len(again.nodes)} of {again.wanted} pods fit now, planned were {len(rest.nodes)}"
        return f"{fewer}: {again.why_not}" if again.why_not else fewer
    if again.moves > rest.moves:
        return f"{again.moves} more moves would be needed now, planned were {rest.moves}"
    if rest.stranded is not None and not _is_less(again.stranded or {}, rest.stranded):
        return "as much is stranded as before"
    return ""


def _is_less(now: Amounts, before: Amounts) -> bool:
    """Tell whether less is stranded *now*; devices count before the rest."""
    devices = [
        sum(count for name, count in amounts.items() if name != CPU and not is_memory(name))
        for amounts in (now, before)
    ]
    if devices[0] != devices[1]:
        return devices[0] < devices[1]
    return any(now.get(name, 0) < amount for name, amount in before.items())
