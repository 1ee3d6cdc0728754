"""When passes are made: at the start, after news, from time to time, and not otherwise."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.apps.enforcer.single import Node

from numakube.apps.enforcer.enforce_loop import SETTLE_SECONDS
from numakube.kube.clock import ManualClock
from numakube.testing import until

NAME = "numakube_enforcer_pass_seconds_count"


async def test_a_pass_follows_news_and_the_period_and_nothing_else(tmp_path: Path) -> None:
    """News that come while others are gathered make one pass with them."""
    node, clock, stop = Node(tmp_path), ManualClock(), asyncio.Event()
    enforcer = node.enforcer
    enforcer.clock = clock

    async def passed(times: int) -> None:
        await until(lambda: node.shown(NAME), lambda lines: lines == [f"{NAME} {times}.0"])

    running = asyncio.ensure_future(enforcer.run(stop))
    await passed(1)
    await clock.timeouts()
    enforcer.wake()
    enforcer.wake()
    await clock.sleepers()
    await clock.advance(SETTLE_SECONDS)
    await passed(2)
    await clock.timeouts()
    await clock.advance(SETTLE_SECONDS)
    await passed(2)
    await clock.advance(enforcer.period)
    await clock.advance(SETTLE_SECONDS)
    await passed(3)
    stop.set()
    enforcer.wake()
    await running
    await passed(3)
