"""Moves make free devices usable again, and stop when they do not."""

from __future__ import annotations

from benchmarks.defrag_quality import owned

from numakube.insight.scheduler_engine import engine_of
from numakube.testing import GPU, World, pod
from numakube_planning.defrag.plan_making import reduce_stranded, stranded_in

SHAPE = "1 socket, 4 cores, smt 1, 16Gi, gpu 2"


def world_of(*nodes: tuple[str, ...]) -> World:
    """Return nodes with two GPUs and three CPUs to give, and pods with so many CPUs, no GPU."""
    world = World()
    for number, pods in enumerate(nodes):
        world.add_node(f"n{number}", machine=SHAPE)
        for index, cpu in enumerate(pods):
            make = owned if cpu != "3" else pod
            world.run(make(f"n{number}-{index}", cpu=cpu), f"n{number}")
    return world


def test_a_pod_leaves_the_cpus_that_gpus_need() -> None:
    """Both GPUs of the first node lack a CPU until one of its pods is gone."""
    engine = engine_of(world_of(("1", "2"), ("1",)).facts())
    plan = reduce_stranded(engine, most=5)
    assert (plan.stranded or {})[GPU] == 2
    assert (plan.stranded_after or {}).get(GPU, 0) == stranded_in(engine).get(GPU, 0) == 0
    (move,) = (move for step in plan.steps for move in step.moves)
    assert (move.from_node, move.to_node, move.closed) == ("n0", "n1", ("n0",))


def test_nothing_moves_where_that_helps_nothing() -> None:
    """The pod without a controller stays, and its node's GPUs stay stranded."""
    plan = reduce_stranded(engine_of(world_of(("3",), ("1",)).facts()), most=5)
    assert plan.steps == []
    assert plan.stranded == plan.stranded_after
