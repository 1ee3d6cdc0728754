"""A gang that evicts others takes the domain in which the least is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from packages.levels.tests.test_level_search import RACK, REQUIRED, SMALL
from packages.levels.tests.test_parts_of_gangs import Planned, member

from numakube.scheduling.plugins.pod_gangs import DISRUPTION_MODE, MIN_LABEL, NAME_LABEL
from numakube.testing import World, pod

if TYPE_CHECKING:
    from numakube.api.pod import Pod


def full(**racks: int) -> World:
    """Return racks of so many nodes, each of which takes one pod of six CPUs."""
    world = World()
    for rack, count in racks.items():
        for number in range(count):
            world.add_node(f"{rack}-{number}", machine=SMALL, labels={RACK: rack})
    return world


def low(name: str, gang: str = "", *, whole: bool = True, priority: int = 0) -> Pod:
    """Return a pod in the way; of a gang that is evicted as a whole unless said otherwise."""
    labels = {NAME_LABEL: gang, MIN_LABEL: "2"} if gang else {}
    mode = {DISRUPTION_MODE: "all"} if whole and gang else {}
    return pod(name, "6", labels=labels, annotations=mode, priority=priority)


def racks_of(world: World, count: int) -> set[str]:
    """Return the rack that a gang of a high priority gets by evictions."""
    wish = {REQUIRED: "rack"}
    pods = [member(f"h{n}", "6", count, wish, priority=9) for n in range(count)]
    planned = Planned(world, pods)
    assert planned.plan.fitting == count
    return {nomination.node.partition("-")[0] for _, nomination in planned.plan.nominations}


def test_one_gang_goes_rather_than_many() -> None:
    """The first rack has four pods of four gangs, whose other members are elsewhere."""
    world = full(a=4, b=4, other=4)
    for number in range(4):
        world.run(low(f"many-{number}", f"m{number}"), f"a-{number}")
        world.run(low(f"rest-{number}", f"m{number}"), f"other-{number}")
        world.run(low(f"one-{number}", "one"), f"b-{number}")
    assert racks_of(world, 4) == {"b"}


def test_pods_elsewhere_count_if_their_gang_goes_as_a_whole() -> None:
    """Two single pods are less than one pod of a gang of three."""
    world = full(a=2, b=2, other=2)
    world.run(low("gang-0", "g0"), "a-0")
    world.run(low("gang-1", "g0"), "other-0")
    world.run(low("gang-2", "g0"), "other-1")
    for number in range(2):
        world.run(low(f"single-{number}"), f"b-{number}")
    world.run(low("a-single"), "a-1")
    assert racks_of(world, 2) == {"b"}


def test_those_of_the_lowest_priority_go() -> None:
    world = full(a=2, b=2)
    for number in range(2):
        world.run(low(f"a-{number}", priority=5), f"a-{number}")
        world.run(low(f"b-{number}", priority=1), f"b-{number}")
    assert racks_of(world, 2) == {"b"}


@pytest.mark.parametrize("places", [1, 2])
def test_free_places_cost_nothing(places: int) -> None:
    """Rack b has a free node: one pod less goes from there."""
    world = full(a=3, b=3)
    for number in range(3):
        world.run(low(f"a-{number}"), f"a-{number}")
    for number in range(3 - places):
        world.run(low(f"b-{number}"), f"b-{number}")
    assert racks_of(world, 3) == {"b"}


def test_a_cheap_domain_is_found_among_many() -> None:
    """More domains than are tried, and the cheapest has the last name."""
    names = [f"r{number:02}" for number in range(20)]
    world = full(**dict.fromkeys([*names, "z"], 2), other=20)
    for at, name in enumerate(names):
        for number in range(2):
            world.run(low(f"{name}-{number}", name), f"{name}-{number}")
        world.run(low(f"{name}-rest", name), f"other-{at}")
    for number in range(2):
        world.run(low(f"z-{number}"), f"z-{number}")
    assert racks_of(world, 2) == {"z"}
