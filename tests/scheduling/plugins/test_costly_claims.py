"""Claims whose selectors take too long: the pod that names them waits, nobody else does."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import pytest
from tests.scheduling.plugins.mixed_pods import (
    SHAPE,
    allocations,
    claiming,
    decide,
    device,
    offer,
    scheduler,
)

from numakube.api.codec import convert
from numakube.api.resource_claims import ResourceClaim
from numakube.dra.device_ids import EVALUATION_SECONDS
from numakube.insight.how_many_fit import EngineBooks
from numakube.scheduling.cycle import Chosen, Refused
from numakube.scheduling.framework.status import TOO_COSTLY
from numakube.scheduling.gang_placements import GangRequest
from numakube.scheduling.gang_planning import GangPlanner
from numakube.scheduling.plugins.dynamic_resources.node_search import ATTEMPT_SECONDS, AttemptTime
from numakube.scheduling.plugins.pod_gangs import Gang
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing import World
from numakube.testing.claim_api import ReplayedApi

if TYPE_CHECKING:
    from numakube.scheduling.framework.status import Status
    from numakube.scheduling.snapshot.cluster_objects import ClusterObjects

NODES: Final = 4
ENDLESS: Final = "lists.range(900).all(x, lists.range(900).all(y, x + y >= 0))"
LONG: Final = "lists.range(3000).all(x, x >= 0)"
"""Takes some looks at the clock, and is true."""


class SlowApi(ReplayedApi):
    """A machine on which time passes with every look at the clock."""

    step: float = 0.0
    total: float = 0.0

    def __init__(self, objects: ClusterObjects) -> None:
        super().__init__(objects)
        self.looks = 0

    def cpu_seconds(self) -> float:
        """Return the processor time."""
        self.looks += 1
        type(self).total = self.looks * self.step
        return self.total


def _api(step: float) -> type[SlowApi]:
    return type("Stepping", (SlowApi,), {"step": step})


@pytest.fixture
def world() -> World:
    """Nodes whose devices are all different, so that none can stand for another."""
    found = World()
    for number in range(NODES):
        found.add_node(f"n{number}", machine=SHAPE)
        offer(found, f"n{number}", device(f"d{number}", numa=0), device(f"e{number}", numa=1))
    return found


def _claim(world: World, expression: str, name: str = "c") -> None:
    selectors = [{"cel": {"expression": expression}}]
    exactly = {"deviceClassName": "gpu", "count": 1, "selectors": selectors}
    tree: dict[str, Any] = {
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}},
    }
    world.objects.resource_claims[f"default/{name}"] = convert(ResourceClaim, tree)


def _statuses(decision: Chosen | Refused) -> list[Status]:
    assert isinstance(decision, Refused), decision
    return [status for _, status in decision.diagnosis.groups()]


def test_a_selector_that_costs_too_much_is_asked_about_one_device(world: World) -> None:
    """All nodes are refused for it, by claim, selector and device."""
    _claim(world, ENDLESS)
    decision = decide(world, claiming("p", "c"))
    (status,) = _statuses(decision)
    assert status.detail is TOO_COSTLY
    assert "claim default/c: selector #0 on device gpu.example/n" in status.message
    assert "actual cost limit exceeded" in status.message
    assert isinstance(decision, Refused)
    assert decision.diagnosis.is_costly
    assert decision.diagnosis.message().startswith(f"0/{NODES} nodes are available: {NODES} claim")


def test_what_a_selector_cost_is_remembered(world: World) -> None:
    """The next attempt does not pay for it again."""
    _claim(world, ENDLESS)
    looks: list[int] = []

    class Counting(SlowApi):
        def cpu_seconds(self) -> float:
            looks.append(1)
            return super().cpu_seconds()

    one = scheduler(world, Counting)
    one.decide(claiming("p", "c"))
    first = len(looks)
    decision = one.decide(claiming("q", "c"))
    assert "actual cost limit exceeded" in _statuses(decision)[0].message
    assert len(looks) - first < first / 4


def test_an_expression_has_a_time_of_its_own(world: World) -> None:
    """Measured by the processor's time; the message says where it was spent."""
    _claim(world, LONG)
    decision = scheduler(world, _api(EVALUATION_SECONDS)).decide(claiming("p", "c"))
    (status,) = _statuses(decision)
    assert status.detail is TOO_COSTLY
    assert "selector #0 on device" in status.message
    assert "operation interrupted: it took too long" in status.message
    assert isinstance(scheduler(world, _api(0.0)).decide(claiming("p", "c")), Chosen)


def test_nodes_that_were_found_before_time_was_over_will_do(world: World) -> None:
    """A pod in a huge cluster is placed although not every node could be searched."""
    _claim(world, "true")
    decision = scheduler(world, _api(ATTEMPT_SECONDS / 12)).decide(claiming("p", "c"))
    assert isinstance(decision, Chosen)
    assert 0 < decision.feasible < NODES
    assert len(allocations(decision)) == 1
    assert decision.diagnosis is not None
    assert decision.diagnosis.is_costly


def test_an_attempt_without_a_node_says_how_long_it_took(world: World) -> None:
    """By the claims that took it."""
    _claim(world, "false")
    decision = scheduler(world, _api(ATTEMPT_SECONDS / 3)).decide(claiming("p", "c"))
    told = [one for one in _statuses(decision) if one.detail is TOO_COSTLY]
    assert [one.message for one in told] == [
        "claim default/c: no devices found within 1 s of processor time, which is what an attempt "
        "may take"
    ]


def test_pods_without_such_claims_are_placed(world: World) -> None:
    """The same scheduler, at once."""
    _claim(world, ENDLESS, "evil")
    _claim(world, "device.driver == 'gpu.example'", "good")
    one = scheduler(world)
    assert isinstance(one.decide(claiming("p", "evil")), Refused)
    assert isinstance(one.decide(claiming("q", "good")), Chosen)


def test_a_gang_takes_no_longer_than_a_pod_or_two(world: World) -> None:
    """Once a member has taken all its time, neither the others nor other domains are tried."""
    _claim(world, "false")
    engine = scheduler(world, api := _api(2 * ATTEMPT_SECONDS)).engine
    gang = Gang(name="default/g", min_count=1, required_topology="kubernetes.io/hostname")
    members = [PodInfo(claiming(f"p{number}", "c")) for number in range(3)]
    before = api.total
    plan = GangPlanner(engine, EngineBooks(engine)).plan(GangRequest(gang, members, 1))
    assert plan.is_costly
    assert [one.name for one, _ in plan.refused] == ["p0", "p1", "p2"]
    assert api.total - before < 12 * ATTEMPT_SECONDS


def test_a_gang_takes_seconds_even_if_its_members_fit() -> None:
    """Each found a node before its time was over, but they are many."""
    world = World()
    for number in range(3):
        world.add_node(f"n{number}", machine=SHAPE)
        offer(world, f"n{number}", *(device(f"d{number}x{one}", numa=0) for one in range(8)))
    members = []
    for number in range(20):
        _claim(world, f"{number} == {number}", f"c{number}")
        members.append(PodInfo(claiming(f"p{number}", f"c{number}", cpu="100m")))
    engine = scheduler(world, api := _api(ATTEMPT_SECONDS / 10)).engine
    gang = Gang(name="default/g", min_count=20)
    plan = GangPlanner(engine, EngineBooks(engine)).plan(GangRequest(gang, members, 20))
    assert plan.is_costly
    assert plan.fitting == 8
    assert len(plan.refused) == 12
    assert api.total < 20 * ATTEMPT_SECONDS


def test_a_node_has_its_own_time(world: World) -> None:
    """As in kube-scheduler, by the clock on the wall; the attempt goes on."""
    api = ReplayedApi(world.objects)
    time = AttemptTime(api, node_seconds=10.0)
    expired = time.search()
    assert not expired()
    api._now += timedelta(seconds=11)
    assert expired()
    assert not time.is_over
    assert not time.search()()


def test_without_a_clock_a_search_stops_after_many_steps() -> None:
    """Tools that ask what would be have no clock."""
    time = AttemptTime(None, node_seconds=10.0)
    expired = time.search()
    assert not any(expired() for _ in range(1_000_000))
    assert expired()
    assert not time.is_over
