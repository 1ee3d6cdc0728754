"""What a shard keeps of a cluster: all that its own nodes and pods need, and little else."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest

from numakube.api.affinity_and_taints import TopologySpreadConstraint
from numakube.api.pod import PersistentVolumeClaimVolumeSource, Pod, PodCondition, Volume
from numakube.apps.cluster_mirror import Mirror
from numakube.apps.scheduler.shards import ShardMirror
from numakube.insight.scheduler_engine import BindsNothing
from numakube.kube.client import Client
from numakube.kube.resource_types import key_of
from numakube.scheduling.assembly import Engine, all_plugins, assemble, default_configuration
from numakube.scheduling.framework.cluster_events import OBJECT_KINDS
from numakube.scheduling.plugins.node_shards import REFUSED_BY
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing import World, bound, pod, running

NODES = tuple(f"node-{number}" for number in range(8))
GROUPS = (("a",), ("a", "b"), ("a", "b", "c"))


class Waiting:
    """A listener that remembers which pods wait for this shard."""

    def __init__(self) -> None:
        self.pods: set[str] = set()

    def pod_waits(self, pod: PodInfo) -> None:
        """A pod waits."""
        self.pods.add(pod.name)

    def pod_placed(self, pod: PodInfo) -> None:
        """A pod has a node."""
        self.pods.discard(pod.name)

    def pod_gone(self, pod: PodInfo, *, deleted: bool) -> None:
        """A pod is gone."""
        self.pods.discard(pod.name)

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


class Shard:
    """The shard ``a``, its mirror, and the objects that the server has."""

    def __init__(self) -> None:
        self.world = World()
        self.engine = _engine()
        self.mirror = ShardMirror(_client(), self.engine, kinds=OBJECT_KINDS)
        self.mirror.listener = self.waiting = Waiting()
        self.shards = self.engine.shards
        self.shards.join("a")
        self.version = 0
        for name in NODES:
            self.world.add_node(name, labels={"zone": name[-1]})
            self.put_node(name)
            self.report(name)

    async def group(self, *names: str) -> None:
        """The group is now of *names*, and all have said so."""
        told = dict.fromkeys(set(names) - {"a"}, frozenset(names))
        while (group := self.shards.saw(told)) is not None:
            self.shards.announced(group)
        await self.mirror.share()

    def put_node(self, name: str) -> None:
        """The server tells of a node."""
        self.mirror.nodes.store.put(self._newer(self.world.nodes[name]))

    def report(self, name: str) -> None:
        """The exporter of a node writes a report."""
        self.mirror.topologies.store.put(self.world.report(name))

    def see(self, one: Pod) -> None:
        """The server tells of a pod."""
        self.mirror.pods.store.put(self._newer(one))

    def held(self) -> set[str]:
        """Return the nodes that pods may be bound to."""
        return {node.name for node in self.engine.cluster.nodes() if self.shards.holds(node)}

    def elsewhere(self) -> str:
        """Return a node of another shard."""
        return next(name for name in NODES if name not in self.held())

    def _newer(self, one: Any) -> Any:
        self.version += 1
        meta = msgspec.structs.replace(one.metadata, resource_version=str(self.version))
        return msgspec.structs.replace(one, metadata=meta)


def _engine() -> Engine:
    return assemble(default_configuration(), all_plugins(BindsNothing.make))


def _client() -> Client:
    return Client(None)  # type: ignore[arg-type]


def read_afresh(shard: Shard) -> Engine:
    """Return what a scheduler knows that reads everything now."""
    engine = _engine()
    mirror = Mirror(_client(), engine.cluster, engine.cache)
    for node in shard.mirror.nodes.store:
        mirror.nodes.store.put(node)
    for report in shard.mirror.topologies.store:
        mirror.topologies.store.put(report)
    for one in shard.mirror.pods.store:
        mirror.pods.store.put(one)
    return engine


def known_of(engine: Engine, name: str) -> object:
    """Return what is known of a node: its pods, and what its zones have left."""
    node = engine.cluster.node(name)
    assert node is not None
    assert node.numa is not None
    requested = {name: amount for name, amount in node.requested.items() if amount}
    return set(node.pods), requested, node.numa.available


class Walk:
    """Everything that happens to a cluster, in a random order."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.shard = Shard()
        self.pods: dict[str, tuple[Pod, str]] = {}
        self.number = 0

    async def step(self) -> None:
        """Let something happen."""
        step = self.rng.choice((self._bind, self._bind, self._run, self._end, self._report))
        if self.rng.random() < 0.1:
            await self.shard.group(*self.rng.choice(GROUPS))
        elif self.rng.random() < 0.05:
            self._renew_node(self.rng.choice(NODES))
        else:
            step()

    def _bind(self) -> None:
        self.number += 1
        one, node = pod(f"pod-{self.number}", "1"), self.rng.choice(NODES)
        self.shard.see(one)
        self.pods[one.metadata.name] = one, node
        self.shard.see(_scheduled(bound(one, node), self.number))

    def _run(self) -> None:
        for one, node in self.pods.values():
            kubelet = self.shard.world.kubelets[node]
            if one.metadata.uid not in set(kubelet.pods):
                taken = self.shard.world.run(one, node)
                self.shard.see(_scheduled(taken, int(one.metadata.name.partition("-")[2])))
                return

    def _end(self) -> None:
        if self.pods:
            name = self.rng.choice(list(self.pods))
            one, node = self.pods.pop(name)
            self.shard.world.kubelets[node].remove(one.metadata.uid)
            self.shard.mirror.pods.store.remove(key_of(one))
            self.shard.report(node)

    def _report(self) -> None:
        self.shard.report(self.rng.choice(NODES))

    def _renew_node(self, name: str) -> None:
        self.shard.mirror.nodes.store.remove(key_of(self.shard.world.nodes[name]))
        self.shard.put_node(name)


def _scheduled(there: Pod, second: int) -> Pod:
    """Return a pod that was bound in that second."""
    assert there.status is not None
    at = f"2026-03-01T10:{second // 60:02}:{second % 60:02}Z"
    told = PodCondition(type="PodScheduled", status="True", last_transition_time=at)
    status = msgspec.structs.replace(there.status, conditions=(told,))
    return msgspec.structs.replace(there, status=status)


@pytest.mark.parametrize("seed", range(4))
async def test_a_shard_knows_of_its_nodes_what_a_single_scheduler_knows(seed: int) -> None:
    """Whatever happens, and however often nodes change hands; of other nodes it knows nothing."""
    walk = Walk(Random(seed))
    for _ in range(60):
        await walk.step()
    everything = read_afresh(walk.shard)
    for group in GROUPS:
        await walk.shard.group(*group)
        held, engine = walk.shard.held(), walk.shard.engine
        assert held == set(engine.cluster.row_of) == walk.shard.mirror.taken_in
        assert [known_of(engine, one) for one in held] == [
            known_of(everything, one) for one in held
        ]
        assert {node for node in NODES if engine.cache.belief(node) is not None} == held


async def test_pods_of_other_shards_are_passed_over_until_it_is_this_ones_turn() -> None:
    """It tries those that are its own, then those that the others have refused."""
    shard = Shard()
    await shard.group("a", "b")
    for number in range(20):
        shard.see(pod(f"pod-{number}"))
    mine = set(shard.waiting.pods)
    assert 0 < len(mine) < 20
    others = {f"pod-{number}" for number in range(20)} - mine
    refused = pod(others.pop(), annotations={REFUSED_BY: "b"})
    shard.see(refused)
    assert shard.waiting.pods == mine | {refused.metadata.name}
    shard.see(bound(refused, shard.elsewhere()))
    assert shard.waiting.pods == mine

    await shard.group("a")
    assert shard.waiting.pods == mine | others


async def test_a_node_stays_until_what_is_being_bound_to_it_is_done() -> None:
    """It is no longer the shard's from the first moment, but is forgotten only then."""
    shard = Shard()
    await shard.group("a")
    one = PodInfo(pod("one"))
    for name in NODES:
        shard.mirror.assume(one, name)
        await shard.group("a", "b")
        assert name in shard.mirror.taken_in
        assert shard.mirror.is_settled == (name in shard.held())
        shard.mirror.forget(one)
        await shard.mirror.share()
        assert shard.mirror.is_settled
        assert shard.mirror.taken_in == shard.held() != set(NODES)
        await shard.group("a")


async def test_pods_count_everywhere_as_soon_as_one_has_spread_constraints() -> None:
    """Such a pod waits until all pods are counted; zones of other nodes stay unknown."""
    shard = Shard()
    await shard.group("a", "b")
    elsewhere = shard.elsewhere()
    shard.see(running(pod("one"), elsewhere))
    assert elsewhere not in shard.engine.cluster.row_of
    spread = TopologySpreadConstraint(
        max_skew=1, topology_key="zone", when_unsatisfiable="DoNotSchedule"
    )
    shard.see(pod("spread", topology_spread_constraints=(spread,), annotations={REFUSED_BY: "b"}))
    assert not shard.mirror.is_settled
    assert not shard.waiting.pods

    await shard.mirror.share()

    assert shard.waiting.pods == {"spread"}
    cluster = shard.engine.cluster
    assert set(cluster.row_of) == set(NODES)
    assert cluster.node_of("one") == elsewhere
    assert shard.engine.cache.belief(elsewhere) is None
    assert elsewhere not in shard.held()
    shard.see(running(pod("two"), elsewhere))
    assert cluster.node_of("two") == elsewhere
    await shard.group("a")
    assert shard.held() == set(NODES)
    everything = read_afresh(shard)
    assert known_of(shard.engine, elsewhere) == known_of(everything, elsewhere)


async def test_a_claim_is_taken_wherever_the_pod_is_that_uses_it() -> None:
    """A volume for one pod alone must not get a second one on another shard's node."""
    shard = Shard()
    await shard.group("a", "b")
    volume = Volume(
        name="data", persistent_volume_claim=PersistentVolumeClaimVolumeSource(claim_name="data")
    )
    there = running(pod("one", volumes=(volume,)), shard.elsewhere())
    shard.see(there)
    claims = shard.engine.cluster.indexes.claims
    assert claims.is_used("default/data")
    shard.mirror.pods.store.remove(key_of(there))
    assert not claims.is_used("default/data")
