"""Kubernetes' own PodGroups: constraints of both policies, and several of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from packages.levels.tests.test_level_search import BLOCK, RACK, SMALL
from packages.levels.tests.test_parts_of_gangs import Planned

from numakube.api.codec import convert
from numakube.api.pod import PodSchedulingGroup
from numakube.api.pod_groups import PodGroup
from numakube.scheduling.plugins.pod_gangs import gang_of
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing import World, pod

if TYPE_CHECKING:
    from numakube.api.pod import Pod


def world_of(group: dict[str, Any], *places: str) -> World:
    """Return nodes by block and rack, each of which takes a pod, and a group."""
    world = World()
    for number, path in enumerate(places):
        block, _, rack = path.partition("/")
        world.add_node(f"n{number}", machine=SMALL, labels={BLOCK: block, RACK: rack})
    tree = {"metadata": {"name": "g", "namespace": "default"}, "spec": group}
    world.objects.pod_groups["default/g"] = convert(PodGroup, tree)
    return world


def member(name: str, **more: Any) -> Pod:
    """Return a pod of the group."""
    one = pod(name, "6", **more)
    group = PodSchedulingGroup(pod_group_name="g")
    return msgspec.structs.replace(
        one, spec=msgspec.structs.replace(one.spec, scheduling_group=group)
    )


def asking(policy: dict[str, Any], *keys: str) -> dict[str, Any]:
    """Return the spec of a group that is to be in one domain of each label."""
    topology = [{"key": key} for key in keys]
    return {"schedulingPolicy": policy, "schedulingConstraints": {"topology": topology}}


def test_pods_of_a_basic_group_are_together_and_as_many_as_there_is_room_run() -> None:
    """The rack that takes most of them; the last one waits rather than go elsewhere."""
    world = world_of(asking({"basic": {}}, RACK), "A/r1", "A/r2", "A/r2", "B/r3")
    pods = [member(name) for name in "abc"]
    planned = Planned(world, pods, args={})
    assert sorted(planned.where.values()) == ["n1", "n2"]


def test_a_later_pod_of_a_basic_group_joins_those_that_run() -> None:
    world = world_of(asking({"basic": {}}, RACK), "A/r1", "A/r1", "A/r2", "A/r2")
    planned = Planned(world, [member("b")], args={}, placed=[(member("a"), "n2")])
    assert planned.where == {"b": "n3"}


def test_a_basic_group_without_constraints_is_no_gang() -> None:
    world = world_of({"schedulingPolicy": {"basic": {}}}, "A/r1")
    assert gang_of(PodInfo(member("a")), world.objects) is None


def test_each_of_several_constraints_holds() -> None:
    """One rack name in two blocks is in one domain of the rack's label alone, and not of both."""
    places = ("A/r1", "B/r1", "B/r2", "B/r2")
    both = asking({"gang": {"minCount": 2}}, BLOCK, RACK)
    planned = Planned(world_of(both, *places), [member(name) for name in "ab"], args={})
    assert sorted(planned.where.values()) == ["n2", "n3"]
    rack = asking({"gang": {"minCount": 2}}, RACK)
    planned = Planned(world_of(rack, *places[:2]), [member(name) for name in "ab"], args={})
    assert sorted(planned.where.values()) == ["n0", "n1"]


def test_a_member_of_another_priority_is_at_odds_with_its_group() -> None:
    group = {**asking({"gang": {"minCount": 1}}, RACK), "priority": 5}
    planned = Planned(world_of(group, "A/r1"), [member("a", priority=1)], args={})
    assert "a has priority 1, but its pod group has 5" in planned.why_not
    assert planned.request.contradiction
