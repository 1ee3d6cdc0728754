"""The rebalancer makes room for pods that wait, says so, and stops when a plan fails."""

from __future__ import annotations

import asyncio

from packages.planning.tests.rebalancer.fragmented import fragmented, on, own_clock, unplaced
from tests.apps.shipped_rights import with_shipped_rights

from numakube.apps.host.common_settings import LeaseSettings
from numakube.kube.client import Client
from numakube.testing import pod_document
from numakube_lab.testing import LabCluster
from numakube_planning.manifests import RebalancerManifest
from numakube_planning.rebalancer.process import RebalancerProcess, RebalancerSettings


def rebalancer(client: Client, **settings: object) -> RebalancerProcess:
    """Return one that is alone."""
    alone = LeaseSettings(leader_elect=False)
    told = RebalancerSettings(lease=alone, stranded=False, **settings)  # type: ignore[arg-type]
    return RebalancerProcess(told, client)


async def events(process: RebalancerProcess, world: LabCluster, reason: str) -> list[str]:
    """Return the texts of its events with that reason."""
    recording = asyncio.create_task(process.recorder.run())
    try:
        return await world.some_events(reason)
    finally:
        recording.cancel()


async def test_room_is_made_for_a_pod_that_waits() -> None:
    """After a dry run has told it, with the shipped rights; in quiet hours nothing moves."""
    async with (
        fragmented(rbac=True) as world,
        with_shipped_rights(world, RebalancerManifest) as client,
    ):
        await world.create(pod_document("late", "3"))
        await world.refuses("late")
        dry = rebalancer(client, dry_run=True)
        await dry.turn()
        (note,) = await events(dry, world, "WouldMove")
        assert note == "would move from node-0 to node-1 so that default/late fits"
        quiet = rebalancer(client, quiet_hours="00:00-12:00,12:00-00:00")
        assert await quiet.turn() == ""
        assert on(world, "node-0") == {"a", "b"}
        process = rebalancer(client, moves_per_hour=1)
        assert await process.turn() == ""
        await world.runs("late")
        (note,) = await events(process, world, "Moved")
        assert note.endswith("which left node-0 so that default/late fits")


async def test_a_plan_that_fails_is_given_up_and_followed_by_a_pause() -> None:
    """The reason is in an event of the pod that waits."""
    async with fragmented() as world, own_clock(world) as (client, clock):
        await world.create(pod_document("late", "3"))
        await world.refuses("late")
        process = rebalancer(client, patience=0.5)
        await world.running[0].end()
        turn = asyncio.create_task(process.turn())
        await world.until(lambda: bool(unplaced(world)))
        await clock.sleepers()
        await clock.advance(0.5)
        assert "has no node" in await turn
        (note,) = await events(process, world, "RebalancingStopped")
        assert note.startswith("stopped moving pods so that default/late fits: default/")
        assert await process.turn() == ""
        assert process.registry.get_sample_value("numakube_rebalancer_paused") == 1
