"""Pods of default-scheduler in virtual time: which are taken over, and when."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from random import Random
from typing import Any

import msgspec
import pytest

from kube_lab_server import ApiServer
from numakube.api.meta import Lease, LeaseSpec, ObjectMeta
from numakube.api.scheduler_config import (
    HOLDER_PREFIX,
    LeaderElectionConfig,
    numa_configuration,
)
from numakube.apps.scheduler.default_scheduler_guard import DefaultSchedulerGuard
from numakube.apps.scheduler.process import SchedulerProcess
from numakube.errors import ClusterUnreachable
from numakube.kube.catalog import LEASES, PODS
from numakube.kube.client import Client, merge_patch
from numakube.kube.clock import ManualClock
from numakube.kube.leader_election import LeaseTiming
from numakube.kube.resource_types import ObjectKey
from numakube.kube.subresources import bind_pod
from numakube.testing import pod_document
from numakube.values.times import format_micro_time
from numakube_lab.inprocess_transport import InProcess

NAMESPACE, NAME = "kube-system", "kube-scheduler"
TIMING = LeaseTiming(duration=3, renew_deadline=2, retry=0.1)


class Events:
    """A recorder that keeps the reasons and texts of events."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []

    def normal(self, _: object, reason: str, text: str) -> None:
        """Keep one."""
        self.told.append((reason, text))

    warning = normal


class Site:
    """An API server in virtual time, on which somebody holds kube-scheduler's lease."""

    def __init__(self, server: ApiServer, clock: ManualClock) -> None:
        self.clock = clock
        self.client = Client(InProcess(server), clock=clock, rng=Random(1), rate=0)
        self.events = Events()

    async def held_by(self, holder: str) -> None:
        """Let *holder* have the lease for an hour; nobody if it is empty."""
        now = format_micro_time(self.clock.now())
        spec = LeaseSpec(
            holder_identity=holder, lease_duration_seconds=3600, renew_time=now, acquire_time=now
        )
        meta = ObjectMeta(name=NAME, namespace=NAMESPACE)
        await self.client.create(LEASES, Lease(metadata=meta, spec=spec))

    async def given_up(self) -> None:
        """Let nobody hold the lease."""
        lease = await self.client.get(LEASES, NAME, namespace=NAMESPACE)
        spec = msgspec.structs.replace(lease.spec, holder_identity="")
        await self.client.update(LEASES, msgspec.structs.replace(lease, spec=spec))

    async def pod(self, name: str, scheduler: str, phase: str = "", node: str = "") -> None:
        """Create a pod, bind it, and let it get as far as *phase*."""
        document = pod_document(name, schedulerName=scheduler)
        await self.client.create(PODS.raw, document, namespace="default")
        if node:
            await bind_pod(self.client, ObjectKey("default", name), node)
        if phase:
            change = merge_patch({"status": {"phase": phase}})
            await self.client.patch(PODS, name, change, namespace="default", subresource="status")

    def guard(self) -> DefaultSchedulerGuard:
        """Return a guard that tells `events`."""
        events: Any = self.events
        identity = f"{HOLDER_PREFIX}us"
        return DefaultSchedulerGuard(self.client, events, identity=identity, timing=TIMING)


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    """A server without nodes: pods that are ours wait."""
    clock = ManualClock()
    async with ApiServer(now=clock.now, rng=Random(1)) as server:
        yield Site(server, clock)


async def ended(task: asyncio.Task[Any], clock: ManualClock) -> None:
    """End a task that uses the clock."""
    task.cancel()
    for _ in range(50):
        if task.done():
            break
        await clock.advance(0.1)
    await asyncio.gather(task, return_exceptions=True)


async def test_only_pods_that_still_wait_for_the_default_scheduler_are_taken_over(
    site: Site,
) -> None:
    """Not those that have a node, nor those that have ended, nor those of nobody's profile."""
    await site.held_by("master-1")
    await site.pod("waits", "default-scheduler")
    await site.pod("runs", "default-scheduler", node="elsewhere")
    await site.pod("failed", "default-scheduler", phase="Failed")
    await site.pod("strange", "another-scheduler")
    election = LeaderElectionConfig(
        leader_elect=False, lease_duration="3s", renew_deadline="2s", retry_period="0.1s"
    )
    config = msgspec.structs.replace(
        numa_configuration(("numa", "default-scheduler")), leader_election=election
    )
    process, stop = SchedulerProcess(config, site.client), asyncio.Event()
    task = asyncio.create_task(process.run(stop))

    async def queued(*names: str) -> None:
        for _ in range(100):
            if process.leading and len(process.scheduler.queue) == len(names):
                break
            await site.clock.advance(0.1)
        assert {pod.pod.name for pod in process.scheduler.queue} == set(names)

    await site.pod("own", "numa")
    await queued("own")
    await site.given_up()
    await queued("own", "waits")
    # Those that come later are ours from the start.
    await site.pod("later", "default-scheduler")
    await queued("own", "waits", "later")
    await ended(task, site.clock)


async def test_it_says_that_the_lease_could_not_be_taken_while_nobody_is_known_to_hold_it() -> None:
    """As when the server does not answer; it says nothing before it tries, nor after."""

    class Away:
        async def send(self, _: object) -> None:
            raise ClusterUnreachable("no route")

    clock, away = ManualClock(), Away()
    wire: Any = away
    events: Any = Events()
    client = Client(wire, clock=clock, rng=Random(1), rate=0)
    guard = DefaultSchedulerGuard(client, events, identity="us", timing=TIMING)
    assert guard.missing() == ""
    task = asyncio.create_task(guard.run(lambda: None))
    await clock.advance(1.0)
    assert guard.missing() == f"the lease {NAMESPACE}/{NAME} could not be taken yet"
    await ended(task, clock)
    assert guard.missing() == ""


@pytest.mark.parametrize(
    ("holder", "missing"), [("master-1", "is held by master-1"), (f"{HOLDER_PREFIX}them", "")]
)
async def test_a_holder_is_named_unless_it_is_one_of_us(
    site: Site, holder: str, missing: str
) -> None:
    """A replica that stands by is as ready as any, and there is nothing to warn of."""
    await site.held_by(holder)
    guard, taken = site.guard(), list[str]()
    task = asyncio.create_task(guard.run(lambda: taken.append("over")))
    await site.clock.advance(1.0)
    assert guard.election.leader == holder
    assert missing in guard.missing()
    assert bool(guard.missing()) == bool(missing)
    assert [reason for reason, _ in site.events.told] == ["DefaultSchedulerHeld"] * bool(missing)
    assert not taken

    await site.given_up()
    await site.clock.advance(2.0)
    assert taken == ["over"]
    assert guard.missing() == ""
    assert site.events.told[-1][0] == "DefaultSchedulerTaken"
    await ended(task, site.clock)
