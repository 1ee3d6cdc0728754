"""A plan places what a gang needs, or leaves everything as it was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest

from numakube.api.pod import Pod
from numakube.api.scheduler_config import PluginRef, Plugins, PluginSet
from numakube.insight.how_many_fit import EngineBooks
from numakube.scheduling.assembly import Engine
from numakube.scheduling.cycle import Chosen
from numakube.scheduling.framework.cycle_state import CycleState
from numakube.scheduling.framework.plugins import Confirm
from numakube.scheduling.framework.registry import Handle
from numakube.scheduling.framework.status import SUCCESS, TOO_COSTLY, Status, unschedulable
from numakube.scheduling.gang_placements import GangRequest, gang_arguments
from numakube.scheduling.gang_planning import GangPlan, GangPlanner
from numakube.scheduling.plugins.pod_gangs import Gang
from numakube.scheduling.recorder.decision_notes import CANDIDATES
from numakube.scheduling.snapshot.nodes import NodeInfo
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing import Scheduler, World, pod
from numakube_lab.testing import without_election

RACK = "example.com/rack"
HOST = "kubernetes.io/hostname"
SMALL = "1 socket, 8 cores, smt 1, 16Gi"


def world(*racks: str) -> World:
    """Return a cluster with a node of seven free CPUs in each of *racks*, named n0, n1, ..."""
    made = World()
    for number, rack in enumerate(racks):
        made.add_node(f"n{number}", machine=SMALL, labels={RACK: rack})
    return made


def full(*names: str, **more: Any) -> list[Pod]:
    """Return pods that take a node each."""
    return [pod(name, "6", **more) for name in names]


class Planning:
    """A planner on a cluster, and what is counted there."""

    def __init__(
        self,
        cluster: World,
        books: type[EngineBooks] = EngineBooks,
        args: dict[str, Any] | None = None,
    ) -> None:
        config = without_election(GangScheduling=args or {})
        self.engine = cluster.scheduler(config).engine
        self.planner = GangPlanner(self.engine, books(self.engine))

    def plan(
        self,
        *pods: Pod,
        running_on: Sequence[str] = (),
        required: str = "",
        preferred: str = "",
        needed: int | None = None,
    ) -> GangPlan:
        """Plan a gang that needs all of *pods*, unless told otherwise."""
        infos = [PodInfo(one) for one in pods]
        gang = Gang(
            name="default/g",
            min_count=len(pods),
            required_topology=required,
            preferred_topology=preferred,
        )
        return self.planner.plan(GangRequest(gang, infos, needed or len(infos), running_on))

    @property
    def counted(self) -> dict[str, str]:
        """The node of each pod that is counted on one."""
        nodes = self.engine.cluster.nodes()
        return {one.name: node.name for node in nodes for one in node.pods.values()}


def test_without_the_plugin_a_gang_waits_for_nobody() -> None:
    """Profiles may do without it; labels mean themselves then."""
    config = without_election()
    none = PluginSet(disabled=(PluginRef(name="GangScheduling"),))
    profiles = tuple(
        msgspec.structs.replace(profile, plugins=Plugins(multi_point=none))
        for profile in config.profiles
    )
    config = msgspec.structs.replace(config, profiles=profiles)
    assert gang_arguments(World().scheduler(config).engine).incomplete_seconds == 0


def test_a_plan_that_is_not_enough_leaves_nothing_behind() -> None:
    """The same plan fits afterwards if it needs less."""
    planning = Planning(world("r1", "r1"))
    plan = planning.plan(*full("a", "b", "c"))
    assert (plan.fitting, plan.refused[0][0].name) == (2, "c")
    assert planning.counted == {}
    assert planning.plan(*full("a", "b")).fitting == 2
    assert planning.counted.keys() == {"a", "b"}


def test_a_plan_keeps_the_best_scores_alone() -> None:
    """Those of all nodes for all members would take more memory than the cluster."""
    planning = Planning(world(*["r1"] * (CANDIDATES + 2)))
    for _, chosen in planning.plan(*full("a", "b")).placements:
        row = planning.engine.cluster.row_of[chosen.node]
        assert chosen.scores is not None
        assert row in chosen.scores.rows.tolist()
        assert {len(score) for score in chosen.scores.by_plugin.values()} == {CANDIDATES}


def test_a_member_that_has_one_place_only_goes_first() -> None:
    """Whatever the order in which they come."""
    planning = Planning(world("r1", "r1"))
    anywhere, only_there = *full("a"), *full("b", node_selector={HOST: "n0"})
    assert planning.plan(anywhere, only_there).fitting == 2
    assert planning.counted == {"a": "n1", "b": "n0"}


def test_members_join_those_that_run() -> None:
    """In their domain, and nowhere else if the domain is required."""
    lonely = Planning(world("r1", "r2", "r2"))
    assert lonely.plan(*full("a"), running_on=["n1"], required=RACK).fitting == 1
    assert lonely.counted["a"] in {"n1", "n2"}
    crowded = Planning(world("r1", "r2"))
    assert crowded.plan(*full("a", "b"), running_on=["n1"], required=RACK).fitting == 1
    assert crowded.plan(*full("a", "b"), running_on=["n1"], preferred=RACK).fitting == 2


def test_members_that_a_preferred_domain_has_no_room_for_go_elsewhere() -> None:
    """If the gang has what it needs; they do not leave a domain that is required."""
    free = Planning(world("r1", "r2"))
    assert free.plan(*full("a", "b", "c"), preferred=RACK, needed=1).fitting == 2
    assert free.counted.keys() == {"a", "b"}
    bound = Planning(world("r1", "r2"))
    assert bound.plan(*full("a", "b", "c"), required=RACK, needed=1).fitting == 1


@pytest.mark.parametrize(
    ("of_group", "of_pod", "fitting"),
    [(None, None, 2), ("Never", None, 0), (None, "Never", 0)],
)
def test_others_are_evicted_for_all_members_or_for_none(
    of_group: str | None, of_pod: str | None, fitting: int
) -> None:
    """One member that must not evict others speaks for all of them."""
    cluster = world("r1", "r1")
    for name in ("n0", "n1"):
        cluster.run(full(f"on-{name}")[0], name)
    urgent = [PodInfo(one) for one in full("a", "b", priority=10)]
    if of_pod is not None:
        urgent[1:] = [PodInfo(*full("b", priority=10, preemption_policy=of_pod))]
    gang = Gang(name="default/g", min_count=2, preemption_policy=of_group)

    plan = Planning(cluster).planner.plan(GangRequest(gang, urgent, 2))

    assert plan.fitting == fitting


@pytest.mark.parametrize("before", [None, "n0", "n1"])
def test_room_that_would_be_made_in_vain_is_not_kept(before: str | None) -> None:
    """Two can have room by evictions, three are needed; what was kept before the plan stays."""
    cluster = world("r1", "r1")
    for name in ("n0", "n1"):
        cluster.run(full(f"on-{name}")[0], name)
    planning = Planning(cluster)
    nominations = planning.engine.nominations
    urgent = full("a", "b", "c", priority=10)
    if before is not None:
        nominations.nominate(PodInfo(urgent[0]), before)
    assert planning.plan(*urgent).fitting < 3
    assert {uid: nominations.node_of(uid) for uid in "abc"} == {"a": before, "b": None, "c": None}


class ForgetfulBooks(EngineBooks):
    """Refuses a third and a fourth place, whatever was allowed before."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._asked = 0

    def reserve(self, pod: PodInfo, chosen: Chosen) -> Status:
        """Reserve all others."""
        self._asked += 1
        return unschedulable("busy") if self._asked in {3, 4} else super().reserve(pod, chosen)


def test_a_plan_that_cannot_be_repeated_leaves_nothing_behind() -> None:
    """One place is free and one takes an eviction, until the plan that was weighed is taken."""
    cluster = world("r1", "r1")
    cluster.run(full("on-n1")[0], "n1")
    planning = Planning(cluster, ForgetfulBooks)

    plan = planning.plan(*full("a", "b", "c", priority=10), needed=2)

    assert plan.fitting < 2
    assert planning.counted == {"on-n1": "n1"}


def test_each_member_has_room_made_for_it_on_a_node_of_its_own() -> None:
    """Those that come next do not count on the room of those before."""
    cluster = world("r1", "r1")
    for name in ("n0", "n1"):
        cluster.run(full(f"on-{name}")[0], name)
    planning = Planning(cluster)
    plan = planning.plan(*full("a", "b", priority=10))
    assert {one.node for _, one in plan.nominations} == {"n0", "n1"}
    nominations = planning.engine.nominations
    assert {nominations.node_of(uid) for uid in "ab"} == {"n0", "n1"}
    planning.planner.undo(plan)
    assert len(nominations) == 0


def test_a_gang_is_woken_by_what_helps_in_any_domain() -> None:
    """Not only in that which came closest."""
    cluster = world("r1")
    cluster.add_node("n9", machine="1 socket, 2 cores, smt 1, 16Gi", labels={RACK: "r2"})
    tainted = full("a", node_selector={RACK: "r1"})[0]
    plan = Planning(cluster).plan(tainted, *full("b"), required=RACK)
    assert plan.fitting < 2
    assert plan.refused_by >= {"NodeResourcesFit", "NodeAffinity", "GangScheduling"}


class Raising(EngineBooks):
    """Books that break with the second reservation."""

    def __init__(self, engine: object) -> None:
        super().__init__(engine)  # type: ignore[arg-type]
        self._count = 0

    def reserve(self, pod: PodInfo, chosen: Chosen) -> Status:
        """Fail the second time."""
        self._count += 1
        if self._count == 2:
            raise RuntimeError("a bug")
        return super().reserve(pod, chosen)


def test_a_bug_in_the_middle_of_a_plan_leaves_nothing_behind() -> None:
    """The room is there for others."""
    planning = Planning(world("r1", "r1"), Raising)
    with pytest.raises(RuntimeError, match="a bug"):
        planning.plan(*full("a", "b"))
    assert planning.counted == {}


BLOCK = "example.com/block"
LEVELS = {"levels": [BLOCK, RACK]}


def tree(*places: tuple[str, str]) -> World:
    """Return a cluster with a node of seven free CPUs in each rack of a block, n0, n1, ..."""
    made = World()
    for number, (block, rack) in enumerate(places):
        made.add_node(f"n{number}", machine=SMALL, labels={BLOCK: block, RACK: rack})
    return made


def test_a_broken_rack_is_used_before_a_whole_one() -> None:
    """A larger gang may need the whole one."""
    cluster = world(*["a"] * 4, *["b"] * 4)
    cluster.run(full("held")[0], "n4")
    planning = Planning(cluster)
    assert planning.plan(*full("x", "y", "z"), required=RACK).fitting == 3
    assert {planning.counted[name] for name in "xyz"} == {"n5", "n6", "n7"}
    assert planning.plan(*full("p", "q", "r", "s"), required=RACK).fitting == 4


def test_a_rack_is_as_broken_as_the_room_on_its_nodes() -> None:
    """Not only nodes that take nothing count; one without room for all is not tried first."""
    cluster = world("a", "a", "b", "b", "c")
    cluster.run(pod("held", "3"), "n2")
    planning = Planning(cluster)
    assert planning.plan(*(pod(name, "3") for name in "xyz"), required=RACK).fitting == 3
    assert {planning.counted[name] for name in "xyz"} == {"n2", "n3"}


def test_racks_of_one_name_in_two_blocks_are_two_racks() -> None:
    """If it is known that racks are in blocks."""
    places = (("b1", "r1"), ("b2", "r1"), ("b2", "r2"))
    apart = Planning(tree(*places), args=LEVELS)
    assert apart.plan(*full("x", "y"), required=RACK).fitting == 1
    assert apart.plan(*full("x", "y"), required=BLOCK).fitting == 2
    assert {apart.counted[name] for name in "xy"} == {"n1", "n2"}
    joined = Planning(tree(*places), args={"levels": [BLOCK, RACK]})
    assert joined.plan(*full("x"), running_on=["n0"], required=RACK).fitting == 1
    assert joined.counted["x"] == "n0"
    assert Planning(tree(*places)).plan(*full("x", "y"), required=RACK).fitting == 2


def test_a_gang_that_fits_in_no_rack_stays_in_one_block() -> None:
    """If it prefers a rack; one that requires it does not run."""
    places = (("A", "a1"), ("B", "b1"), ("A", "a2"), ("B", "b2"))
    planning = Planning(tree(*places), args=LEVELS)
    assert planning.plan(*full("x", "y"), preferred=RACK).fitting == 2
    assert set(planning.counted.values()) in ({"n0", "n2"}, {"n1", "n3"})
    assert Planning(tree(*places), args=LEVELS).plan(*full("x", "y"), required=RACK).fitting == 1
    everywhere = Planning(tree(*places), args=LEVELS)
    assert everywhere.plan(*full("w", "x", "y"), preferred=RACK).fitting == 3


def test_a_node_without_the_label_of_a_block_is_in_a_rack_of_its_own() -> None:
    """It is not known to be beside those that have one."""
    cluster = tree(("b1", "r1"))
    cluster.add_node("n9", machine=SMALL, labels={RACK: "r1"})
    cluster.add_node("n8", machine=SMALL, labels={BLOCK: "b1"})
    assert Planning(cluster, args=LEVELS).plan(*full("x", "y"), required=RACK).fitting == 1


class Choosy(Confirm):
    """Refuses pods that start with a ``d``, whoever comes before them, and counts its answers."""

    name = "Choosy"

    def __init__(self, detail: object = None) -> None:
        self.asked = 0
        self.asked_for_order = 0
        self._detail = detail

    def make(self, args: Mapping[str, object], handle: Handle) -> Confirm:
        """Return this one."""
        del args, handle
        return self

    def depends_on_order(self, pod: PodInfo) -> bool:
        """Tell that others may change the answer."""
        self.asked_for_order += 1
        return pod.name.startswith("d")

    def confirm(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Refuse; whoever comes next may change the answer."""
        del node
        state.is_one_of_a_kind = True
        if not pod.name.startswith("d"):
            return SUCCESS
        self.asked += 1
        return unschedulable("not yet", detail=self._detail)


def planned_with(choosy: Choosy, pods: list[Pod], needed: int) -> GangPlan:
    """Plan a gang on one node."""
    facts = world("r1").facts()
    engine = Scheduler.of(facts, plugins={choosy.name: choosy.make}).engine
    infos, gang = [PodInfo(one) for one in pods], Gang(name="default/g", min_count=needed)
    return GangPlanner(engine, EngineBooks(engine)).plan(GangRequest(gang, infos, needed))


def test_members_that_depend_on_others_take_no_longer_than_other_members() -> None:
    """Once one has taken all its time in vain, no other is tried."""
    choosy = Choosy(TOO_COSTLY)
    plan = planned_with(choosy, [pod(f"d{number}", "10m") for number in range(20)], 20)
    assert plan.is_costly
    assert choosy.asked == 1
    assert len(plan.refused) == 20


def test_some_kinds_of_members_alone_are_tried_again_after_each_other() -> None:
    """However many kinds the author of a gang thinks of."""
    kinds = [pod(f"d{number}", "10m", labels={"kind": str(number)}) for number in range(30)]
    choosy = Choosy()
    plan = planned_with(choosy, [*kinds, *(pod(f"p{at}", "10m") for at in range(14))], 14)
    assert (plan.fitting, len(plan.refused)) == (14, 30)
    first_and_last, beyond_the_minimum, after_each_other = 30 + 30, 30 + 30, 8 * 14
    assert choosy.asked <= first_and_last + beyond_the_minimum + after_each_other


def test_members_that_depend_on_others_are_looked_for_once_for_all_domains() -> None:
    """A thousand members may not fit into hundreds of domains."""
    choosy = Choosy()
    engine = Scheduler.of(
        world("r1", "r2", "r3", "r4").facts(), plugins={choosy.name: choosy.make}
    ).engine
    gang = Gang(name="default/g", min_count=2, required_topology=RACK)
    request = GangRequest(gang, [PodInfo(one) for one in full("a", "b")], 2)
    plan = GangPlanner(engine, EngineBooks(engine)).plan(request)
    assert plan.fitting == 1
    assert choosy.asked_for_order == 2
