"""Leaders and workers, sub-groups, lost members, and levels that objects describe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from packages.levels.tests.test_level_search import (
    BLOCK,
    LEVELS,
    PREFERRED,
    RACK,
    REQUIRED,
    SLICES,
    SMALL,
    Racks,
)

from numakube.api.meta import ObjectMeta
from numakube.api.pod_groups import MemberGroup, MemberGroupSpec, NetworkTopology
from numakube.api.topology_objects import (
    ExactMatch,
    HyperNode,
    HyperNodeMember,
    HyperNodeSpec,
    MemberSelector,
    RegexMatch,
    Topology,
    TopologyLevel,
    TopologySpec,
)
from numakube.insight.how_many_fit import EngineBooks
from numakube.scheduling.gang_placements import GangRequest
from numakube.scheduling.gang_planning import GangPlanner
from numakube.scheduling.plugins.pod_gangs import Gang, gang_of
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing import World, pod
from numakube_lab.testing import without_election

if TYPE_CHECKING:
    from numakube.api.pod import Pod
    from numakube.scheduling.gang_planning import GangPlan

SUB_GROUPS = "numakube.dev/gang-sub-groups"
SUB_GROUP = "numakube.dev/gang-sub-group"
GROUP = {
    "pod-group.scheduling.sigs.k8s.io/name": "g",
}


def member(name: str, cpu: str, least: int, annotations: dict[str, str], **more: Any) -> Pod:
    """Return a member of a gang of labels."""
    labels = {**GROUP, "pod-group.scheduling.sigs.k8s.io/min-available": str(least)}
    labels |= more.pop("labels", {})
    return pod(name, cpu, labels=labels, annotations=annotations, **more)


class Planned:
    """A plan for pods on a cluster."""

    def __init__(
        self,
        world: World,
        pods: list[Pod],
        *,
        args: dict[str, Any] | None = None,
        placed: list[tuple[Pod, str]] | None = None,
    ) -> None:
        running = []
        for one, node in placed or ():
            world.run(one, node)
            running.append(PodInfo(one))
        config = without_election(TopologyLevels=LEVELS if args is None else args)
        self.engine = world.scheduler(config).engine
        infos = [PodInfo(one) for one in pods]
        gang = gang_of(infos[0], self.engine.cluster.objects)
        assert isinstance(gang, Gang)
        nodes = [node for _, node in placed or ()]
        needed = max(gang.min_count - len(nodes), 1)
        self.request = GangRequest(gang, infos, needed, nodes, running)
        self.plan: GangPlan = GangPlanner(self.engine, EngineBooks(self.engine)).plan(self.request)

    @property
    def where(self) -> dict[str, str]:
        """The node of each pod that has a place; none of a plan that is not enough."""
        if self.plan.fitting < self.request.needed:
            return {}
        return {one.name: chosen.node for one, chosen in self.plan.placements}

    @property
    def why_not(self) -> str:
        """Why the gang does not fit."""
        assert self.plan.fitting < self.request.needed
        return self.plan.why_not(self.request)


def test_a_leader_goes_where_workers_leave_room() -> None:
    """The rack has one node more than workers need; only the other rack has too few."""
    world = World()
    for rack, count in (("a", 2), ("b", 3)):
        for number in range(count):
            world.add_node(f"{rack}{number}", machine=SMALL, labels={RACK: rack})
    asked = {REQUIRED: "rack"}
    pods = [member("leader", "2", 3, asked), *(member(f"w{n}", "6", 3, asked) for n in "01")]
    planned = Planned(world, pods)
    assert {node[0] for node in planned.where.values()} == {"b"}
    assert len(planned.where) == 3


def test_sub_groups_have_racks_of_their_own_in_one_block() -> None:
    """Block A has one rack with room, block B has two."""
    world = World()
    for block, rack, count in (("A", "r1", 3), ("A", "r2", 1), ("B", "r1", 3), ("B", "r2", 3)):
        for number in range(count):
            labels = {BLOCK: block, RACK: rack}
            world.add_node(f"{block}-{rack}-{number}", machine=SMALL, labels=labels)
    groups = (
        '[{"name": "a", "min": 3, "topology": "rack"}, {"name": "b", "min": 3, "topology": "rack"}]'
    )
    pods = [
        member(f"{name}{n}", "6", 6, {REQUIRED: "block", SUB_GROUPS: groups, SUB_GROUP: name})
        for name in "ab"
        for n in range(3)
    ]
    where = Planned(world, pods).where
    racks = {name: {where[f"{name}{n}"].rpartition("-")[0] for n in range(3)} for name in "ab"}
    assert sorted(map(sorted, racks.values())) == [["B-r1"], ["B-r2"]]


def test_a_sub_group_that_does_not_fit_is_named() -> None:
    world = World()
    for rack, count in (("r1", 3), ("r2", 2)):
        for number in range(count):
            world.add_node(f"{rack}-{number}", machine=SMALL, labels={BLOCK: "A", RACK: rack})
    groups = (
        '[{"name": "a", "min": 3, "topology": "rack"}, {"name": "b", "min": 2, "topology": "rack"}]'
    )
    asked = {REQUIRED: "block", SUB_GROUPS: groups}
    pods = [member(f"a{n}", "6", 5, {**asked, SUB_GROUP: "a"}) for n in range(3)]
    pods += [member(f"b{n}", "6", 5, {**asked, SUB_GROUP: "b"}) for n in range(2)]
    assert len(Planned(world, pods).where) == 5
    world.run(pod("held", "6"), "r2-0")
    told = Planned(world, pods).why_not
    assert told == (
        "gang default/g: sub-group b: 2 pods have to fit in one rack; the best, A/r2, takes 1"
    )


def test_sub_groups_that_need_more_than_the_gang_are_refused() -> None:
    groups = '[{"name": "a", "min": 3}]'
    world = World()
    world.add_node("n", machine=SMALL)
    one = member("a", "1", 2, {SUB_GROUPS: groups})
    engine = world.scheduler(without_election()).engine
    told = engine.runtime_for("numakube-scheduler").pre_enqueue(PodInfo(one)).message
    assert "sub-groups need 3 pods, and the gang no more than 2" in told


def slices_world(*counts: int) -> World:
    """Return racks r0, r1, ... with so many nodes."""
    world = World()
    for rack, count in enumerate(counts):
        for number in range(count):
            world.add_node(f"r{rack}-{number}", machine=SMALL, labels={RACK: f"r{rack}"})
    return world


def test_a_lost_member_goes_back_to_its_slice() -> None:
    """Room elsewhere does not help; the slice waits for a place in its own rack."""
    asked = {SLICES: "rack=2"}
    running = [("a0", "r0-0"), ("b0", "r1-0"), ("b1", "r1-1")]
    placed = [(member(name, "6", 4, asked), node) for name, node in running]
    again = member("a1", "6", 4, asked)
    assert Planned(slices_world(2, 3, 4), [again], placed=placed).where == {"a1": "r0-1"}
    told = Planned(slices_world(1, 3, 4), [again], placed=placed).why_not
    assert "slices in rack r0 have lost 1 pod, and it takes 0" in told


def test_a_spare_node_is_for_members_that_are_lost() -> None:
    asked = {REQUIRED: "rack", "numakube.dev/gang-spare": "1"}
    placed = [(member("a0", "6", 2, asked), "r0-0")]
    again = member("a1", "6", 2, asked)
    assert Planned(slices_world(2), [again], placed=placed).where == {"a1": "r0-1"}


def test_a_lost_member_goes_elsewhere_if_that_is_allowed() -> None:
    asked = {REQUIRED: "rack"}
    placed = [(member("a0", "6", 2, asked), "r0-0")]
    world = slices_world(1, 1)
    assert Planned(world, [member("a1", "6", 2, asked)], placed=placed).where == {}
    free = {**asked, "numakube.dev/gang-replacement": "Elsewhere"}
    world = slices_world(1, 1)
    placed = [(member("a0", "6", 2, free), "r0-0")]
    assert Planned(world, [member("a1", "6", 2, free)], placed=placed).where == {"a1": "r1-0"}


def test_pods_beyond_the_most_are_not_tried() -> None:
    asked = {PREFERRED: "rack", "numakube.dev/gang-max-count": "2"}
    pods = [member(f"a{n}", "6", 1, asked) for n in range(4)]
    assert len(Planned(slices_world(3, 3), pods).where) == 2


def test_a_late_pod_beyond_the_most_waits() -> None:
    asked = {PREFERRED: "rack", "numakube.dev/gang-max-count": "2"}
    placed = [(member(f"a{n}", "6", 1, asked), f"r0-{n}") for n in range(2)]
    told = Planned(slices_world(3, 3), [member("late", "6", 1, asked)], placed=placed).why_not
    assert told == "gang default/g: 2 of its pods run, and gang-max-count is 2"


def test_consecutive_ranks_are_in_one_slice() -> None:
    label = "batch.kubernetes.io/job-completion-index"
    asked = {SLICES: "rack=2"}
    pods = [member(f"p{n}", "6", 4, asked, labels={label: str(n)}) for n in (3, 0, 2, 1)]
    where = Planned(slices_world(2, 2), pods).where
    assert {where[name][:2] for name in ("p0", "p1")} != {where[name][:2] for name in ("p2", "p3")}
    assert len({where[name][:2] for name in ("p0", "p1")}) == 1


def test_levels_of_a_topology_object() -> None:
    """Its racks are paths; a bare label is its value alone."""
    world = World()
    for number, (block, rack) in enumerate((("b1", "r1"), ("b2", "r1"))):
        world.add_node(f"n{number}", machine=SMALL, labels={BLOCK: block, RACK: rack})
    pods = [member(f"p{n}", "6", 2, {REQUIRED: RACK}) for n in range(2)]
    assert len(Planned(world, pods, args={}).where) == 2
    levels = (TopologyLevel(node_label=BLOCK), TopologyLevel(node_label=RACK))
    world.objects.topologies["gpus"] = Topology(
        metadata=ObjectMeta(name="gpus"), spec=TopologySpec(levels=levels)
    )
    assert Planned(world, pods, args={}).where == {}


def test_tiers_of_hyper_nodes() -> None:
    """Volcano's group has to be in one domain of a tier, and is in one of the closest that fits."""
    world = World()
    for name in ("a0", "a1", "b0", "c0"):
        world.add_node(name, machine=SMALL)

    def domain(name: str, tier: int, *members: tuple[str, str]) -> None:
        made = tuple(
            HyperNodeMember(
                type=kind,
                selector=MemberSelector(exact_match=ExactMatch(name=what))
                if kind == "HyperNode"
                else MemberSelector(regex_match=RegexMatch(pattern=what)),
            )
            for kind, what in members
        )
        world.objects.hyper_nodes[name] = HyperNode(
            metadata=ObjectMeta(name=name), spec=HyperNodeSpec(tier=tier, members=made)
        )

    domain("leaf-a", 1, ("Node", "^a[0-9]$"))
    domain("leaf-b", 1, ("Node", "^b"))
    domain("leaf-c", 1, ("Node", "^c"))
    domain("spine", 2, ("HyperNode", "leaf-a"), ("HyperNode", "leaf-b"))

    def where(count: int, highest: int) -> set[str]:
        world.objects.volcano_groups["default/v"] = MemberGroup(
            metadata=ObjectMeta(name="v", namespace="default"),
            spec=MemberGroupSpec(
                min_member=count, network_topology=NetworkTopology(highest_tier_allowed=highest)
            ),
        )
        annotation = {"scheduling.k8s.io/group-name": "v"}
        pods = [pod(f"v{n}", "6", annotations=annotation) for n in range(count)]
        return set(Planned(world, pods, args={}).where.values())

    assert where(2, 1) == {"a0", "a1"}
    assert where(3, 1) == set()
    assert where(3, 2) == {"a0", "a1", "b0"}
    assert where(4, 2) == set()


def test_a_gang_that_asks_for_nothing_is_placed_as_ever() -> None:
    assert Racks({"a": 2}).plan(2, {}).fitting == 2
