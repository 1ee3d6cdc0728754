"""When passes are made: at the start, after news, from time to time, and not otherwise."""

from __future__ import annotations

import asyncio
from pathlib import Path

from packages.placement.tests.enforcer.single import PARENT, Node, group_of, pod_of

from numakube.kube.clock import ManualClock
from numakube.testing import until
from numakube_placement.enforcer.enforce_loop import SETTLE_SECONDS

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


async def test_without_a_group_of_pods_nothing_is_done_and_that_is_told(tmp_path: Path) -> None:
    """The kubelet makes it when it starts; until then there is nothing to confine."""
    node = Node(tmp_path)
    node.groups.remove(PARENT)
    outcome = await node.enforcer.step()
    assert outcome.trouble == "there is no group kubepods of pods yet"
    assert (outcome.changes, outcome.failed) == ([], False)
    node.groups.add(PARENT)
    assert (await node.enforcer.step()).trouble == ""


async def test_after_everything_is_put_back_no_pass_changes_anything(tmp_path: Path) -> None:
    """One may be under way when the program is told to stop."""
    node = Node(tmp_path)
    node.groups.add(group_of("p"))
    node.groups.add(group_of("p", "c"))
    node.known["p"] = pod_of("p", {"cpuset": "1-2"}, main="c")
    assert (await node.enforcer.step()).changes
    restored = await node.enforcer.restore()
    assert restored.changes
    again = await node.enforcer.step()
    assert (again.changes, again.trouble, again.failed) == ([], "", False)
