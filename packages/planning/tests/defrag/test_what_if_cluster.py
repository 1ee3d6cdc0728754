"""Whatever is tried on a cluster can be taken back, and counts are those of the kubelets."""

from __future__ import annotations

from random import Random

import pytest
from benchmarks.defrag_quality import admitted, crowd, owned
from packages.planning.tests.defrag.test_opened_room import world_of

from numakube.insight.how_many_fit import copies
from numakube.insight.scheduler_engine import engine_of
from numakube.scheduling.assembly import Engine
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing import pod
from numakube_planning.defrag.what_if_cluster import WantedPods, WhatIfCluster, again


def seen(engine: Engine) -> dict[str, object]:
    """Return all that an engine has of each node."""
    return {
        node.name: (
            sorted(node.pods),
            sorted((name, amount) for name, amount in node.requested.items() if amount),
            node.numa.available if node.numa is not None else None,
            node.node.spec.unschedulable,
        )
        for node in engine.cluster.nodes()
    }


def try_something(what_if: WhatIfCluster, rng: Random, number: int) -> None:
    """Have a pod leave or arrive, on a node of the scheduler's choice or of ours."""
    cluster = what_if.engine.cluster
    names = sorted(cluster.row_of)
    new = pod(f"new-{number}", cpu=str(rng.randint(1, 4)))
    there = [one for node in cluster.nodes() for one in node.pods.values() if one.node_name]
    leaves = [one for one in there if one not in what_if.left]
    deed = rng.choice(("leave", "move", "arrive", "put"))
    if deed in ("leave", "move") and leaves:
        one = rng.choice(sorted(leaves, key=lambda each: each.uid))
        if one.uid in what_if.arrived:
            return
        what_if.leave(one)
        if deed == "move":
            what_if.arrive(again(one), closed={one.node_name})
    elif deed == "arrive":
        what_if.arrive(new, closed=rng.sample(names, rng.randint(0, 1)))
    else:
        what_if.put(new, rng.choice(names))


@pytest.mark.parametrize("seed", range(8))
def test_rewinding_restores_the_cluster_as_it_was_at_each_mark(seed: int) -> None:
    rng = Random(seed)
    what_if = WhatIfCluster(engine_of(crowd(seed)[0].facts()))
    marks = [(what_if.mark(), seen(what_if.engine), what_if.state)]
    for number in range(12):
        try_something(what_if, rng, number)
        marks.append((what_if.mark(), seen(what_if.engine), what_if.state))
    assert len({repr(known) for _, known, _ in marks}) > 3
    while marks:
        mark, known, state = marks.pop(rng.randrange(len(marks) // 2, len(marks)))
        marks = [other for other in marks if other[0] < mark]
        what_if.rewind(mark)
        assert (seen(what_if.engine), what_if.state) == (known, state)


@pytest.mark.parametrize("seed", range(6))
def test_a_node_takes_a_pod_just_when_its_kubelet_does(seed: int) -> None:
    """After some of its pods have left, too."""
    world, wanted = crowd(seed)
    what_if = WhatIfCluster(engine_of(world.facts()))
    for name, kubelet in world.kubelets.items():
        mark, model = what_if.mark(), kubelet.clone()
        for one in [one for one in world.pods if one.spec.node_name == name]:
            assert what_if.put(wanted, name) is (admitted(model, wanted) is not None)
            what_if.rewind(mark)
            what_if.leave(PodInfo(one))
            model.remove(one.metadata.uid)
            mark = what_if.mark()
        what_if.rewind(0)


def test_closed_nodes_take_nobody_and_are_open_again_afterwards() -> None:
    what_if = WhatIfCluster(engine_of(world_of((), ()).facts()))
    one = pod("new", cpu="1")
    assert what_if.arrive(one, closed={"n0"}) == "n1"
    what_if.rewind(0)
    assert what_if.arrive(one, closed={"n0", "n1"}) == ""
    assert what_if.why.startswith("0/2 nodes are available")
    assert [node.node.spec.unschedulable for node in what_if.engine.cluster.nodes()] == [False] * 2
    assert what_if.arrive(one)


def test_a_pod_comes_again_as_a_new_pod_without_a_node() -> None:
    world = world_of((owned("a"),))
    (before,) = world.pods
    after = again(PodInfo(before))
    assert (after.spec.node_name, after.metadata.uid != before.metadata.uid) == ("", True)
    assert (after.status.phase if after.status else "") == "Pending"
    assert after.spec.containers == before.spec.containers


def test_none_of_the_wanted_pods_stays_on_the_cluster() -> None:
    """They are counted there, and placed for as long as a search asks for it."""
    what_if = WhatIfCluster(engine_of(world_of((), ()).facts()))
    before = seen(what_if.engine)
    wanted = WantedPods(what_if, copies(pod("wanted", cpu="3"), 5))
    assert (len(wanted.nodes), wanted.next is not None, bool(wanted.why)) == (4, True, True)
    assert seen(what_if.engine) == before
    with wanted.placed():
        assert what_if.arrive(pod("late", cpu="3")) == ""
        assert what_if.arrive(pod("late", cpu="2")) == ""
    assert seen(what_if.engine) == before


@pytest.mark.parametrize("seed", [1, 3, 5])
def test_counts_after_a_change_are_those_of_a_new_look(seed: int) -> None:
    """Only nodes that changed are counted again."""
    world, one = crowd(seed)
    what_if = WhatIfCluster(engine_of(world.facts()))
    wanted = WantedPods(what_if, copies(one, 4))
    for leaving in map(PodInfo, world.pods):
        mark = what_if.mark()
        what_if.leave(leaving)
        more = wanted.more_fit([leaving.node_name])
        anew = WantedPods(what_if, copies(one, 4))
        assert more is (len(anew.nodes) > len(wanted.nodes)) or len(anew.nodes) == 4
        what_if.rewind(mark)
