"""Gangs get the best domains, on the scheduler's own engine with its kubelet models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from numakube.insight.how_many_fit import EngineBooks
from numakube.scheduling.gang_placements import GangRequest
from numakube.scheduling.gang_planning import GangPlanner
from numakube.scheduling.plugins.pod_gangs import Gang, gang_of
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing import World, pod
from numakube_lab.testing import without_election

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numakube.scheduling.gang_planning import GangPlan

SMALL = "1 socket, 8 cores, smt 1, 16Gi"
BLOCK, RACK = "example.com/block", "example.com/rack"
LEVELS = {"levels": [{"name": "block", "label": BLOCK}, {"name": "rack", "label": RACK}]}


class Racks:
    """A cluster whose nodes take one pod of a gang each."""

    def __init__(self, takes: Mapping[str, int], args: dict[str, Any] | None = None) -> None:
        self.world = World()
        for rack, count in takes.items():
            block, _, name = rack.rpartition("/")
            labels = {RACK: name, **({BLOCK: block} if block else {})}
            for number in range(count):
                self.world.add_node(
                    f"{rack.replace('/', '-')}-{number}", machine=SMALL, labels=labels
                )
        config = without_election(TopologyLevels=LEVELS if args is None else args)
        self.engine = self.world.scheduler(config).engine
        self.planner = GangPlanner(self.engine, EngineBooks(self.engine))

    def plan(
        self,
        count: int,
        annotations: dict[str, str],
        *,
        needed: int = 0,
        running_on: Sequence[str] = (),
        **more: Any,
    ) -> GangPlan:
        """Plan a gang of *count* pods that take a node each."""
        labels = {
            "pod-group.scheduling.sigs.k8s.io/name": "g",
            "pod-group.scheduling.sigs.k8s.io/min-available": str(needed or count),
        }
        pods = [
            PodInfo(pod(f"p{number}", "6", labels=labels, annotations=annotations, **more))
            for number in range(count)
        ]
        gang = gang_of(pods[0], self.engine.cluster.objects)
        assert isinstance(gang, Gang)
        self.request = GangRequest(gang, pods, needed or count, running_on)
        return self.planner.plan(self.request)

    def racks(self, plan: GangPlan) -> dict[str, int]:
        """Return how many pods each rack got."""
        found: dict[str, int] = {}
        for _, chosen in plan.placements:
            rack = chosen.node.rpartition("-")[0]
            found[rack] = found.get(rack, 0) + 1
        return found

    def got(self, count: int, annotations: dict[str, str], **more: Any) -> dict[str, int]:
        """Plan, and return how many pods each rack got."""
        return self.racks(self.plan(count, annotations, **more))

    def why_not(self, count: int, annotations: dict[str, str], **more: Any) -> str:
        """Plan, and return why it does not fit."""
        plan = self.plan(count, annotations, **more)
        assert plan.fitting < self.request.needed
        return plan.why_not(self.request)


REQUIRED = "numakube.dev/gang-topology"
PREFERRED = "numakube.dev/gang-preferred-topology"
SLICES = "numakube.dev/gang-slices"
BALANCE = "numakube.dev/gang-balance"


def test_the_tightest_rack_is_taken() -> None:
    assert Racks({"r1": 4, "r2": 9, "r3": 6}).got(6, {REQUIRED: "rack"}) == {"r3": 6}


def test_a_gang_that_fits_no_rack_is_told_which_came_closest() -> None:
    why = Racks({"r1": 5, "r2": 5, "r3": 5}).why_not(6, {REQUIRED: "rack"})
    assert why == (
        "gang default/g: 6 pods have to fit in one rack; the best, r1,"
        " takes 5 (15 in all domains of rack)"
    )


def test_a_required_block_and_preferred_racks() -> None:
    asked = {REQUIRED: "block", PREFERRED: "rack"}
    two = Racks({"A/r1": 5, "A/r2": 5, "B/r1": 5, "B/r2": 4})
    assert two.got(8, asked) == {"B-r1": 5, "B-r2": 3}


def test_slices_are_placed_whole() -> None:
    racks = Racks({"a": 5, "b": 5, "c": 3})
    assert racks.got(8, {SLICES: "rack=4"}) == {"a": 4, "b": 4}
    assert Racks({"a": 5, "b": 3, "c": 3}).why_not(8, {SLICES: "rack=4"}) == (
        "gang default/g: 1 of 2 slices of 4 fits at rack; the next best domain, b, takes 3"
    )


def test_sizes_are_balanced() -> None:
    asked = {PREFERRED: "rack", BALANCE: "Fewest"}
    assert Racks({"a": 4, "b": 4, "c": 4}).got(6, asked) == {"a": 3, "b": 3}


def test_spare_nodes_stay_free() -> None:
    why = Racks({"a": 5, "b": 5}).why_not(5, {REQUIRED: "rack", "numakube.dev/gang-spare": "1"})
    assert why.endswith(
        "the best, a, takes 4 (8 in all domains of rack),"
        " and 1 of its 5 nodes stay free; gang-spare: 0 would allow it"
    )


def test_spare_nodes_of_several_racks_are_not_taken_together() -> None:
    """Where every node with room is spare there is no placement, not one on all of them."""
    racks = Racks({"a": 1, "b": 1})
    asked = {REQUIRED: "rack", "numakube.dev/gang-spare": "1"}
    assert racks.plan(2, asked, needed=1).fitting == 0
    assert racks.why_not(2, asked, needed=1).endswith(
        "1 pod has to fit in one rack, and no rack takes any;"
        " 2 nodes with room stay free (gang-spare)"
    )


def test_what_is_left_over_goes_where_it_may() -> None:
    """Beside the others as far as there is room; elsewhere only if no level is required."""
    takes = {"a": 5, "b": 4}
    assert Racks(takes).got(7, {REQUIRED: "rack"}, needed=4) == {"a": 5}
    assert Racks(takes).got(7, {PREFERRED: "rack"}, needed=4) == {"a": 5, "b": 2}


def test_members_that_run_hold_the_others() -> None:
    racks = Racks({"a": 3, "b": 5})
    assert racks.got(2, {REQUIRED: "rack"}, running_on=["a-0"]) == {"a": 2}


def test_levels_may_be_named_by_their_labels() -> None:
    assert Racks({"a": 3, "b": 2}, {}).got(2, {REQUIRED: RACK}) == {"b": 2}


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        (SLICES, "rack", "'rack' is not LEVEL=SIZE"),
        (SLICES, "block=6,rack=4", "4 does not divide 6"),
        (BALANCE, "Odd", "'Odd' is none of Fewest, Even"),
        ("numakube.dev/gang-spare", "-1", "'-1' is no whole number"),
        ("numakube.dev/gang-sub-groups", "{}", "no JSON list of sub-groups"),
    ],
)
def test_what_cannot_be_read_is_told(key: str, value: str, told: str) -> None:
    racks = Racks({"a": 2})
    racks.plan(1, {})
    one = PodInfo(
        pod(
            "x",
            annotations={key: value},
            labels={
                "pod-group.scheduling.sigs.k8s.io/name": "g",
                "pod-group.scheduling.sigs.k8s.io/min-available": "1",
            },
        )
    )
    status = racks.engine.runtime_for("numakube-scheduler").pre_enqueue(one)
    assert key in status.message
    assert told in status.message
