"""How a shard follows its group by the leases of the others, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from random import Random
from typing import Any

import msgspec
import pytest

from kube_lab_server import ApiServer
from numakube.api.meta import Lease, LeaseSpec, ObjectMeta
from numakube.api.scheduler_config import SHARD_LABEL
from numakube.apps.scheduler.shards import (
    GROUP_LABEL,
    MEMBERS,
    PODS_VERSION,
    ShardMembership,
)
from numakube.errors import ClusterUnreachable, NotFound
from numakube.insight.scheduler_engine import BindsNothing
from numakube.kube.catalog import LEASES
from numakube.kube.client import Client
from numakube.kube.clock import ManualClock
from numakube.kube.connection.transport import Request, Response
from numakube.kube.leader_election import LeaseTiming
from numakube.kube.resource_types import ObjectKey
from numakube.scheduling.assembly import all_plugins, assemble, default_configuration
from numakube.scheduling.framework.cluster_events import OBJECT_KINDS
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing import World, pod
from numakube.values.times import format_micro_time
from numakube_lab.inprocess_transport import InProcess

NAMESPACE, LEASE = "kube-system", "numakube-scheduler"
TIMING = LeaseTiming(duration=15, renew_deadline=10, retry=1.0)
NODES = tuple(f"node-{number}" for number in range(8))


class Wire(InProcess):
    """A transport on which nothing can be written for a while."""

    is_read_only = False

    async def send(self, request: Request) -> Response:
        """Return the answer, or refuse a write."""
        if self.is_read_only and request.method != "GET":
            raise ClusterUnreachable("not now")
        return await super().send(request)


class Rechecks:
    """A queue that counts how often its gates are asked about."""

    count = 0

    def recheck_gates(self) -> None:
        """Count."""
        self.count += 1


class Site:
    """The shard ``a`` of a group, and the leases of the others."""

    def __init__(self, server: ApiServer, clock: ManualClock) -> None:
        self.clock = clock
        self.wire = Wire(server)
        self.client = Client(InProcess(server), clock=clock, rng=Random(1), rate=0)
        self.engine = assemble(default_configuration(), all_plugins(BindsNothing.make))
        self.shards = self.engine.shards
        client = Client(self.wire, clock=clock, rng=Random(1), rate=0)
        self.member = ShardMembership(
            client,
            self.shards,
            name="a",
            lease=ObjectKey(NAMESPACE, LEASE),
            identity="us",
            timing=TIMING,
        )
        self.mirror = self.member.mirror_of(self.engine, kinds=OBJECT_KINDS, topologies=False)
        self.mirror.pods.resource_version = "70"
        self.queue = Rechecks()
        world = World()
        for name in NODES:
            world.add_node(name)
            self.mirror.nodes.store.put(world.nodes[name])

    async def put(self, shard: str, *, holder: str = "them", **annotations: str) -> None:
        """Write the lease of another shard, or renew it."""
        now = format_micro_time(self.clock.now())
        spec = LeaseSpec(
            holder_identity=holder, lease_duration_seconds=15, renew_time=now, acquire_time=now
        )
        labels = {GROUP_LABEL: LEASE} | ({SHARD_LABEL: shard} if shard else {})
        meta = ObjectMeta(
            name=f"{LEASE}-shard-{shard or 'nobody'}",
            namespace=NAMESPACE,
            labels=labels,
            annotations=annotations,
        )
        lease = Lease(metadata=meta, spec=spec)
        try:
            known = await self.client.get(LEASES, meta.name, namespace=NAMESPACE)
        except NotFound:
            await self.client.create(LEASES, lease)
            return
        renewed = msgspec.structs.replace(known.metadata, annotations=annotations)
        await self.client.update(LEASES, msgspec.structs.replace(lease, metadata=renewed))

    async def announced(self) -> dict[str, str]:
        """Return what the shard says on its lease."""
        name = f"{LEASE}-shard-a"
        return (await self.client.get(LEASES, name, namespace=NAMESPACE)).metadata.annotations

    @property
    def members(self) -> set[str]:
        """The group as the shard acts by it."""
        assert self.shards.view is not None
        return set(self.shards.view.members)

    def held(self) -> set[str]:
        """Return the nodes that it binds pods to."""
        return {node.name for node in self.engine.cluster.nodes() if self.shards.holds(node)}


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    """A shard that has its lease and follows the group."""
    clock = ManualClock()
    async with ApiServer(now=clock.now, rng=Random(1)) as server:
        site = Site(server, clock)
        assert await site.member.election.try_acquire_or_renew()
        queue: Any = site.queue
        task = asyncio.create_task(site.member.run(queue))
        await clock.advance(0.5)
        yield site
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_shard_alone_has_all_nodes(site: Site) -> None:
    """Pods that were held back are asked about again, once."""
    assert site.members == {"a"}
    assert site.held() == set(NODES)
    assert (await site.announced())[MEMBERS] == "a"
    await site.clock.advance(10)
    assert site.queue.count == 1


async def test_nodes_are_shared_with_another_as_soon_as_both_say_so(site: Site) -> None:
    """Until the other has announced the group, its nodes are held by neither."""
    await site.put("b")
    await site.clock.advance(2)
    assert (await site.announced())[MEMBERS] == "a,b"
    ours = site.held()
    assert ours < set(NODES)
    await site.put("b", **{MEMBERS: "a,b"})
    await site.clock.advance(2)
    assert site.members == {"a", "b"}
    assert site.held() == ours
    assert site.queue.count > 1


async def test_a_group_is_acted_by_only_when_it_is_written(site: Site) -> None:
    """What the others cannot read does not count."""
    site.wire.is_read_only = True
    await site.put("b", **{MEMBERS: "a,b"})
    await site.clock.advance(5)
    assert site.members == {"a"}
    assert (await site.announced())[MEMBERS] == "a"
    site.wire.is_read_only = False
    await site.clock.advance(2)
    assert site.members == {"a", "b"}
    assert (await site.announced())[MEMBERS] == "a,b"


@pytest.mark.parametrize("end", ["not renewed", "given back"])
async def test_the_nodes_of_a_shard_that_is_gone_come_back(site: Site, end: str) -> None:
    """At once if it says so, else when its lease has not changed for as long as it is good for."""
    await site.put("b", **{MEMBERS: "a,b"})
    await site.clock.advance(10)
    await site.put("b", **{MEMBERS: "a,b"})
    await site.clock.advance(10)
    assert site.members == {"a", "b"}
    if end == "given back":
        await site.put("b", holder="", **{MEMBERS: "a,b"})
        await site.clock.advance(2.5)
    else:
        await site.clock.advance(3)
        assert site.members == {"a", "b"}
        await site.clock.advance(5)
    assert site.members == {"a"}
    assert site.held() == set(NODES)


async def test_a_lease_that_names_no_shard_is_nobodys(site: Site) -> None:
    """Nor is our own one that of another."""
    await site.put("")
    await site.clock.advance(3)
    assert site.members == {"a"}


async def test_a_node_is_let_go_only_when_nothing_is_being_bound_to_it(site: Site) -> None:
    """The group is not announced before."""
    for node in NODES:
        site.mirror.assume(PodInfo(pod(f"to-{node}")), node)
    await site.put("b")
    await site.clock.advance(5)
    assert (await site.announced())[MEMBERS] == "a"
    for node in NODES:
        site.mirror.forget(PodInfo(pod(f"to-{node}")))
    await site.clock.advance(2)
    assert (await site.announced())[MEMBERS] == "a,b"


async def test_what_others_had_seen_of_pods_is_waited_for(site: Site) -> None:
    """Their latest bindings count on the nodes that come from them."""
    await site.put("b", **{MEMBERS: "a,b", PODS_VERSION: "77"})
    await site.clock.advance(5)
    assert (await site.announced())[MEMBERS] == "a"
    late = pod("late")
    meta = msgspec.structs.replace(late.metadata, resource_version="78")
    site.mirror.pods.store.put(msgspec.structs.replace(late, metadata=meta))
    site.mirror.pods.resource_version = "78"
    await site.clock.advance(2)
    told = await site.announced()
    assert (told[MEMBERS], told[PODS_VERSION]) == ("a,b", "78")
