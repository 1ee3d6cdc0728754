"""Shards share nodes and pods: no node has two owners at any moment, and every pod is tried."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum, auto
from random import Random

import msgspec
import numpy as np
import pytest
from tests.scheduling.conftest import MakeNode, MakePod

from numakube.api.scheduler_config import SHARD_LABEL
from numakube.scheduling.framework.cycle_state import CycleState
from numakube.scheduling.plugins.node_shards import (
    REFUSED_BY,
    NodeShards,
    owner_of,
    ranking,
)
from numakube.scheduling.snapshot.cluster import Cluster
from numakube.scheduling.snapshot.pods import PodInfo

NAMES = ("a", "b", "c")
NODES = tuple(f"node-{number}" for number in range(6))


def shard_of(me: str, *others: str) -> NodeShards:
    """Return the shard *me* of a group that has settled."""
    shards = NodeShards()
    shards.join(me)
    group = frozenset({me, *others})
    told = dict.fromkeys(others, group)
    shards.saw(told)
    shards.announced(group)
    assert shards.saw(told) is None
    return shards


def refused(pod: PodInfo, *names: str) -> PodInfo:
    """Return *pod* after those shards have refused it."""
    metadata = msgspec.structs.replace(
        pod.pod.metadata, annotations={REFUSED_BY: ",".join(names)} if names else {}
    )
    return PodInfo(msgspec.structs.replace(pod.pod, metadata=metadata))


def test_every_node_has_one_owner_and_few_change_hands() -> None:
    """When a shard goes, only its nodes get other owners, and the load stays even."""
    nodes = [f"node-{number}" for number in range(2000)]
    before = {node: owner_of(node, "", frozenset("abcd")) for node in nodes}
    after = {node: owner_of(node, "", frozenset("abc")) for node in nodes}
    assert all(after[node] == before[node] for node in nodes if before[node] != "d")
    assert min(Counter(after.values()).values()) > 2000 / 3 * 0.85


def test_a_label_decides_while_its_shard_is_alive() -> None:
    """Without that shard the node belongs to one that is alive."""
    assert {owner_of(node, "b", frozenset("abc")) for node in NODES} == {"b"}
    assert owner_of("n", "z", frozenset("abc")) == owner_of("n", "", frozenset("abc"))


def test_a_shard_refuses_the_nodes_of_others(make_pod: MakePod, make_node: MakeNode) -> None:
    """One node at a time and all at once; without a group it refuses none."""
    cluster, pod = Cluster(), make_pod("p", "1")
    for name in NODES:
        cluster.set_node(make_node(name, **{SHARD_LABEL: "a"} if name == "node-3" else {}))
    snapshot = cluster.snapshot()
    held = {}
    for me, other in (("a", "b"), ("b", "a")):
        shards = shard_of(me, other)
        verdicts = shards.filter_all(CycleState(), pod, snapshot, snapshot.rows)
        assert verdicts is not None
        alone = [shards.filter(CycleState(), pod, node).ok for node in snapshot.nodes()]
        assert verdicts.ok.tolist() == alone
        held[me] = verdicts.ok
    assert np.array_equal(held["a"], ~held["b"])
    assert held["a"][cluster.row_of["node-3"]]
    assert NodeShards().filter_all(CycleState(), pod, snapshot, snapshot.rows) is None


def test_a_pod_goes_from_shard_to_shard_until_one_takes_it(make_pod: MakePod) -> None:
    """Those that refused it go on trying, and in the end the first may evict others for it."""
    pod = make_pod("p", "1")
    order = ranking(pod.uid, NAMES)
    shards = {me: shard_of(me, *(set(NAMES) - {me})) for me in NAMES}
    for tried in range(len(order) + 1):
        seen = refused(pod, *order[:tried])
        trying = {me for me, one in shards.items() if one.pre_enqueue(seen).ok}
        assert trying == set(order[: tried + 1])
        evicting = {me for me, one in shards.items() if one.may_preempt(seen)}
        # The first is asked about the pod as it is before its own refusal is read, too.
        assert evicting == ({order[0]} if set(order[1:]) <= set(order[:tried]) else set())
    assert shards["b"].marks(refused(pod, "c")) == {REFUSED_BY: "b,c"}


class Doing(Enum):
    """What a shard does next."""

    READ = auto()
    LET_GO = auto()
    ANNOUNCE = auto()


@dataclass
class Shard:
    """A process: what it knows, what it binds, and where in its work it is."""

    shards: NodeShards
    doing: Doing = Doing.READ
    group: frozenset[str] = frozenset()
    binding: set[str] = field(default_factory=set)

    def holds(self, node: str) -> bool:
        """Tell whether it may begin to bind to *node*."""
        view = self.shards.view
        return view is not None and view.holds(node, "")


class Group:
    """Shards that come, die and are late with everything, and leases that they write and read."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.alive: dict[str, Shard] = {}
        self.leases: dict[str, frozenset[str]] = {}

    def start(self, name: str) -> None:
        """A shard takes its lease, which may have an old announcement on it."""
        shards = NodeShards()
        shards.join(name)
        self.alive[name] = Shard(shards)
        self.leases.setdefault(name, frozenset())

    def go_on(self, name: str) -> None:
        """A shard takes the next step of its work on the group."""
        one = self.alive[name]
        match one.doing:
            case Doing.READ:
                others = {other: self.leases[other] for other in self.alive if other != name}
                group = one.shards.saw(others)
                if group is not None:
                    one.group, one.doing = group, Doing.LET_GO
            case Doing.LET_GO:
                if all(one.holds(node) for node in one.binding):
                    one.doing = Doing.ANNOUNCE
            case Doing.ANNOUNCE:
                self.leases[name] = one.group
                one.shards.announced(one.group)
                one.doing = Doing.READ

    def bind(self, name: str) -> None:
        """A shard has bound a pod, or begins to bind one to a node that it holds."""
        one, node = self.alive[name], self.rng.choice(NODES)
        if node in one.binding:
            one.binding.remove(node)
        elif one.holds(node):
            one.binding.add(node)

    def step(self) -> None:
        """Let something happen; of a shard that dies others learn after its bindings have ended."""
        name = self.rng.choice(NAMES)
        if name not in self.alive:
            self.start(name)
        elif self.rng.random() < 0.04:
            del self.alive[name]
        elif self.rng.random() < 0.3:
            self.bind(name)
        else:
            self.go_on(name)

    def holders(self, node: str) -> set[str]:
        """Return the shards that bind a pod to *node*, or may begin to."""
        return {name for name, one in self.alive.items() if node in one.binding or one.holds(node)}


@pytest.mark.parametrize("seed", range(4))
def test_no_node_ever_has_two_owners_whatever_the_order_of_steps(seed: int) -> None:
    """And once nothing more happens, every node has one."""
    rng = Random(seed)
    for _ in range(30):
        group = Group(rng)
        for _ in range(60):
            group.step()
            for node in NODES:
                assert len(group.holders(node)) <= 1
        for shard in group.alive.values():
            shard.binding.clear()
        for name in list(group.alive) * 12:
            group.go_on(name)
        for node in NODES if group.alive else ():
            assert len(group.holders(node)) == 1
