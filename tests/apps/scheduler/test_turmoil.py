"""Whatever happens, nothing is lost, nothing is bound twice, and who fits runs in the end."""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from random import Random

import pytest
from tests.apps.scheduler.invariants import Ledger, assert_invariants
from tests.apps.scheduler.test_side_by_side import mixed_plans
from tests.apps.scheduler.turmoil import Turmoil

from numakube.kube.clock import SystemClock
from numakube.testing import pod_document
from numakube_lab.testing import Opener, lab_cluster

SOAK_SECONDS = float(os.environ.get("SOAK_SECONDS", "300"))


async def live_through(sites: Opener, seconds: float, seed: int, *, truthful: bool) -> None:
    """Let a cluster with a scheduler have such a day."""
    rng = Random(seed)
    async with lab_cluster(0, plans=mixed_plans(rng, 5), on=sites) as world:
        turmoil = Turmoil(world, rng, Ledger.of(world), truthful=truthful)
        await world.start()
        await turmoil.last(seconds)
        await turmoil.calm()
        await assert_invariants(world, turmoil.ledger, deleted=turmoil.deleted, truthful=truthful)
        assert not any(running.task.done() for running in world.running)


@pytest.mark.timeout(240)
@pytest.mark.parametrize("truthful", [True, False])
async def test_a_bad_day(sites: Opener, truthful: bool) -> None:
    """A few seconds of it."""
    await live_through(sites, 4, seed=5, truthful=truthful)


@pytest.mark.soak
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("truthful", [True, False])
async def test_a_long_bad_day(sites: Opener, truthful: bool) -> None:
    """Five minutes in all."""
    await live_through(sites, SOAK_SECONDS / 2, seed=11, truthful=truthful)


class LeapingClock(SystemClock):
    """The clock of a machine that sleeps, and whose time is set again."""

    def __init__(self) -> None:
        self.slept = 0.0
        self.set = timedelta()

    def now(self) -> datetime:
        """Return what the wall clock says."""
        return super().now() + self.set

    def monotonic(self) -> float:
        """Return the time since some moment, sleep of the machine included."""
        return super().monotonic() + self.slept


@pytest.mark.timeout(180)
async def test_clocks_that_jump_stop_nothing(sites: Opener) -> None:
    """An hour back, a year forward, and a machine that slept for ten minutes."""
    clock = LeapingClock()
    async with lab_cluster(2, shape="2 sockets, 4 cores, smt 2, 16Gi", on=sites) as world:
        ledger = Ledger.of(world)
        await world.start(client=world.site.connect(clock=clock))
        leaps = (timedelta(hours=-1), timedelta(days=365), timedelta())
        for number, leap in enumerate(leaps):
            clock.set = leap
            clock.slept += 600
            await world.create(pod_document(f"p{number}", "6"))
            await world.until(lambda: len(world.by_phase("Running")) == number + 1)  # noqa: B023
        await assert_invariants(world, ledger)


@pytest.mark.timeout(180)
async def test_nodes_that_go_and_come_back_are_used_again(sites: Opener) -> None:
    """A pod that waits for room runs on the node that came."""
    async with lab_cluster(2, shape="2 sockets, 4 cores, smt 2, 16Gi", on=sites) as world:
        ledger = Ledger.of(world)
        await world.start()
        await world.create(*(pod_document(f"p{number}", "6") for number in range(5)))
        await world.until(lambda: len(world.by_phase("Running")) == 4)
        plan = world.pool.kubelet("node-0").plan
        lost = [pod for pod in world.pods.store if pod.spec.node_name == "node-0"]
        await world.pool.remove("node-0")
        (running,) = world.running
        await world.until(lambda: "node-0" not in running.process.mirror.cluster.row_of)
        for pod in lost:
            # What the collector of pods does after a while.
            await world.delete(pod.metadata.name)
        await world.pool.add(plan)
        gone = {pod.metadata.name for pod in lost}
        await world.until(lambda: world.by_phase("Running") == {f"p{n}" for n in range(5)} - gone)
        await assert_invariants(world, ledger, deleted={pod.metadata.uid for pod in lost})


@pytest.mark.timeout(180)
async def test_who_is_stopped_in_a_burst_blames_nobody(sites: Opener) -> None:
    """What was under way is finished or left to the next one; no event tells of failures."""
    async with lab_cluster(2, shape="2 sockets, 4 cores, smt 2, 16Gi", on=sites) as world:
        ledger = Ledger.of(world)
        first = await world.start()
        await world.create(*(pod_document(f"p{number}", "1") for number in range(16)))
        assert await first.end() == 0
        assert await world.events("FailedScheduling") == []
        await world.start()
        await world.until(lambda: len(world.by_phase("Running")) == 16)
        assert await world.events("FailedScheduling") == []
        await assert_invariants(world, ledger)
