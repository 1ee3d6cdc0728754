"""What is said to fit is what a scheduler and the kubelets would take, one pod after the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

import msgspec
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from numakube.api.affinity_and_taints import Taint, TopologySpreadConstraint
from numakube.api.meta import LabelSelector
from numakube.api.nodes import Node
from numakube.api.pod import Pod, PodSchedulingGate
from numakube.insight.facts import ClusterFacts
from numakube.insight.how_many_fit import alike, copies, place, room_for
from numakube.insight.scheduler_engine import engine_of
from numakube.kubelet.admission_outcome import Rejected
from numakube.kubelet.kubelet_model import KubeletNode
from numakube.scheduling.cycle import Chosen, Cycle, Refused
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing import World, pod

pytestmark = pytest.mark.timeout(300)

POLICIES = ("single-numa-node", "restricted", "best-effort", "none")
SHAPES = (
    "2 sockets, 2 cores, smt 2, 8Gi, gpu 1",
    "1 socket, 4 numa each, 4 cores, 4Gi, gpu 1",
    "2 sockets, 3 cores, 8Gi",
)


@dataclass(frozen=True)
class Scene:
    """A cluster, the kubelets of its nodes, and a pod to have more of."""

    facts: ClusterFacts
    models: Mapping[str, KubeletNode]
    pod: Pod
    exact: bool


def scene(seed: int) -> Scene:
    """Return a cluster of a few kinds of nodes, some of them equal, some odd, with pods on them."""
    rng = Random(seed)
    world = World()
    for kind in range(rng.randint(1, 3)):
        policy, scope = rng.choice(POLICIES), rng.choice(("container", "pod"))
        shape, crowd = rng.choice(SHAPES), rng.randint(0, 2**32)
        for number in range(rng.randint(1, 3)):
            name = f"{kind}-{number}"
            odd = rng.random() < 0.25
            _add(world, name, policy, scope, shape, rng, odd=odd)
            _populate(world, name, Random(rng.randint(0, 2**32) if odd else crowd))
    for number in range(rng.choice((0, 0, 2))):
        world.pods.append(_pod(rng, f"waits-{number}"))
    exact = rng.random() < 0.8
    return Scene(world.facts(exact=exact), world.kubelets, _pod(rng, "more"), exact)


def _add(
    world: World, name: str, policy: str, scope: str, shape: str, rng: Random, *, odd: bool
) -> None:
    taints = (Taint(key="team", value="x", effect="NoSchedule"),) if odd else ()
    world.add_node(
        name, policy, scope, machine=shape, labels={"zone": rng.choice("ab")},
        taints=taints if rng.random() < 0.5 else (), unschedulable=odd and rng.random() < 0.5,
    )  # fmt: skip
    if odd:
        world.nodes[name] = _with_room_for(world.nodes[name], rng.randint(0, 4))


def _with_room_for(node: Node, pods: int) -> Node:
    status = msgspec.structs.replace(
        node.status, allocatable={**node.status.allocatable, "pods": str(pods)}
    )
    return msgspec.structs.replace(node, status=status)


def _populate(world: World, name: str, rng: Random) -> None:
    """Let the kubelet take a daemon that shares CPUs, and a few others."""
    daemon = pod(f"{name}-daemon", cpu="500m", memory="100Mi", guaranteed=False)
    for one in (daemon, *(_pod(rng, f"{name}-{number}") for number in range(rng.randint(0, 2)))):
        if not isinstance(world.kubelets[name].clone().admit(one), Rejected):
            world.run(one, name)


def _pod(rng: Random, name: str) -> Pod:
    more = {"gpu": rng.randint(1, 2)} if rng.random() < 0.3 else {}
    return pod(
        name, cpu=rng.choice(("250m", "1", "2", "3", "6")),
        memory=rng.choice(("100Mi", "1Gi", "3Gi")), guaranteed=rng.random() < 0.8,
        labels={"app": "a"}, **_rules(rng), **more,
    )  # fmt: skip


def _rules(rng: Random) -> dict[str, object]:
    chance = rng.random()
    if chance < 0.2:
        return {"node_selector": {"zone": "a"}}
    if chance < 0.4:
        spread = TopologySpreadConstraint(
            max_skew=1,
            topology_key="zone",
            when_unsatisfiable="DoNotSchedule",
            label_selector=LabelSelector(match_labels={"app": "a"}),
        )
        return {"topology_spread_constraints": (spread,)}
    return {}


def tried(scene: Scene, most: int = 400) -> Counter[str]:
    """Return where pods go that are decided, booked and admitted one at a time."""
    engine = engine_of(scene.facts)
    cycle = Cycle(engine.cluster, engine.nominations, _Last())
    models = {name: model.clone() for name, model in scene.models.items()}
    found: Counter[str] = Counter()
    for copy in copies(scene.pod, most):
        info = PodInfo(copy)
        runtime = engine.runtime_for(info.scheduler_name)
        decision = cycle.decide(info, runtime)
        if not isinstance(decision, Chosen):
            return found
        node = engine.cluster.node(decision.node)
        assert node is not None
        booking = runtime.reserve(decision.state, info, node)
        assert booking.ok
        engine.cluster.take(booking.changes, engine.cache)
        engine.cluster.place(info, decision.node)
        assert not scene.exact or not isinstance(models[decision.node].admit(copy), Rejected)
        found[decision.node] += 1
    raise AssertionError("there is no end to what fits")


class _Last:
    """Dice that choose the last of equals, unlike those of what is tested."""

    def random(self, size: int) -> npt.NDArray[np.float64]:
        """Return what is nearly one."""
        return np.full(size, 0.999)


@settings(max_examples=60)
@given(st.integers(0, 2**32))
def test_as_many_fit_as_can_be_placed_one_by_one(seed: int) -> None:
    """On every node, if it does not matter where the others are; else altogether."""
    scenery = scene(seed)
    room = room_for(engine_of(scenery.facts), scenery.pod, most=400)
    expected = tried(scenery)
    if scenery.pod.spec.topology_spread_constraints:
        assert sum(room.values()) == sum(expected.values())
    else:
        assert room == expected


def test_who_does_not_fit_is_named_with_the_reason() -> None:
    """The first, beside those that were placed before."""
    world = World()
    world.add_node("only")
    placed = place(engine_of(world.facts()), copies(pod("web", cpu="4"), 9))
    assert placed.nodes == ("only",) * 3
    assert placed.first_refused is not None
    assert placed.first_refused.name == "web-4"
    assert isinstance(placed.why, Refused)
    assert placed.why.diagnosis.message().startswith("0/1 nodes are available")


def test_pods_that_are_not_tried_fit_nowhere() -> None:
    """As long as somebody holds them back."""
    world = World()
    world.add_node("only")
    gated = pod("web", scheduling_gates=(PodSchedulingGate(name="later"),))
    assert room_for(engine_of(world.facts()), gated) == {}
    placed = place(engine_of(world.facts()), [gated])
    assert (placed.nodes, placed.why) == ((), None)


def test_nodes_that_are_alike_are_filled_once() -> None:
    """Whatever the names of their pods; one more pod makes a difference."""
    world = World()
    for name in ("a", "b", "c"):
        world.add_node(name)
        world.run(pod(f"{name}-0", cpu="2"), name)
        world.run(pod(f"{name}-1", cpu="1"), name)
    world.run(pod("c-2", cpu="1"), "c")
    engine = engine_of(world.facts())
    groups = [[node.name for node in group] for group in alike(engine, engine.cluster.nodes())]
    assert groups == [["a", "b"], ["c"]]
