"""What is remembered of claims and nodes changes no decision: only how long it takes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.scheduling.plugins.mixed_pods import (
    SHAPE,
    allocations,
    claim,
    claiming,
    decide,
    device,
    names,
    offer,
    scheduler,
)

from numakube.api.codec import convert
from numakube.api.nodes import Node
from numakube.api.pod import Pod
from numakube.api.resource_claims import AllocationResult, ResourceClaim, ResourceClaimStatus
from numakube.api.resource_slices import DeviceClass, ResourceSlice
from numakube.dra.features import Features
from numakube.scheduling.cycle import Chosen, Refused
from numakube.scheduling.framework.cycle_state import CycleState
from numakube.scheduling.framework.status import Status
from numakube.scheduling.plugins.dynamic_resources import DynamicResources
from numakube.scheduling.plugins.dynamic_resources.claim_tracker import CYCLE_CLAIMS, ClaimTracker
from numakube.scheduling.snapshot.cluster import Cluster
from numakube.scheduling.snapshot.cluster_objects import ClusterObjects
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing import World, pod
from numakube.testing.claim_api import ReplayedApi, finished

NODES: Final = 5
ONE: Final = {"name": "r", "exactly": {"deviceClassName": "gpu", "count": 1}}
TWO: Final = {"name": "r", "exactly": {"deviceClassName": "gpu", "count": 2}}
EITHER: Final = {
    "name": "r",
    "firstAvailable": [
        {"name": "many", "deviceClassName": "gpu", "count": 2},
        {"name": "few", "deviceClassName": "gpu", "count": 1},
    ],
}
SHARE: Final = {
    "name": "r",
    "exactly": {"deviceClassName": "gpu", "count": 1, "capacity": {"requests": {"memory": "1"}}},
}
SHAPES: Final[tuple[dict[str, Any], ...]] = (
    {"requests": [ONE]},
    {"requests": [TWO]},
    {"requests": [TWO], "constraints": [{"matchAttribute": "d/v"}]},
    {"requests": [EITHER]},
    {"requests": [SHARE]},
)
MORE: Final[dict[str, dict[str, Any]]] = {
    "whole": {},
    "shared": {"allowMultipleAllocations": True, "capacity": {"memory": {"value": "2"}}},
    "counted": {"consumesCounters": [{"counterSet": "c", "counters": {"n": {"value": "1"}}}]},
}
"""What devices have besides an attribute, by the way in which they are had."""


class Claims:
    """A few nodes with devices, and a scheduler's plugin that goes on for long."""

    def __init__(self, offers: list[list[int]], *, everywhere: bool, way: str) -> None:
        self.way = way
        self.cluster = Cluster()
        self.objects = self.cluster.objects
        self.api = ReplayedApi(self.objects)
        self.plugin = self.fresh()
        self.numbers = count()
        self.objects.device_classes["gpu"] = convert(DeviceClass, {"metadata": {"name": "gpu"}})
        for number, values in enumerate(offers):
            name = f"n{number}"
            self.cluster.set_node(convert(Node, {"metadata": {"name": name}}))
            self.offer(name, values, nodeName=name)
        if everywhere:
            self.offer("everywhere", [0], allNodes=True)

    def fresh(self) -> DynamicResources:
        """Return a plugin that remembers nothing."""
        return DynamicResources(objects=self.objects, actions=self.api)

    def offer(self, name: str, values: list[int], **where: Any) -> None:
        """Publish devices, or publish them again."""
        devices = [
            {"name": f"d{at}", "attributes": {"v": {"int": value}}, **MORE[self.way]}
            for at, value in enumerate(values)
        ]
        contents: list[dict[str, Any]] = [{"devices": devices}]
        if self.way == "counted":
            left = {"n": {"value": "1" if name == "n0" else "2"}}
            contents.append({"sharedCounters": [{"name": "c", "counters": left}]})
        pool = {"name": name, "generation": 1, "resourceSliceCount": len(contents)}
        for number, content in enumerate(contents):
            key = f"{name}-{number}"
            tree = {"metadata": {"name": key}, "spec": {"driver": "d", "pool": pool, **content}}
            tree["spec"] |= where
            self.objects.resource_slices[key] = convert(ResourceSlice, tree)

    def place(self, shape: dict[str, Any]) -> None:
        """Decide about a pod as a plugin does that remembers nothing, and write it down."""
        name = f"c{next(self.numbers)}"
        meta = {"name": name, "namespace": "ns", "uid": name, "resourceVersion": "1"}
        claim = convert(ResourceClaim, {"metadata": meta, "spec": {"devices": shape}})
        self.objects.resource_claims[claim.metadata.key] = claim
        entry = {"name": "c", "resourceClaimName": name}
        tree = {"metadata": meta, "spec": {"resourceClaims": [entry]}}
        pod, state, snapshot = PodInfo(convert(Pod, tree)), CycleState(), self.cluster.snapshot()
        assert self.plugin.pre_filter(state, pod, snapshot).status.ok
        verdicts = self.plugin.filter_all(state, pod, snapshot, snapshot.rows)
        together = [
            Status() if verdicts is None else verdicts.status(position)
            for position in range(len(snapshot.rows))
        ]
        alone, scores = self.one_by_one(pod)
        assert [(status.code, status.reasons) for status in together] == alone
        good = snapshot.rows[[status.ok for status in together]]
        assert [self.plugin.score(state, pod, snapshot.at(int(row))) for row in good] == scores
        for row in good[:1]:
            node = snapshot.at(int(row))
            assert self.plugin.confirm(state, pod, node).ok
            assert self.plugin.reserve(state, pod, node).ok
            assert finished(self.plugin.pre_bind(state, pod, node.name)).ok

    def one_by_one(self, pod: PodInfo) -> tuple[list[tuple[object, ...]], list[int]]:
        """Return what a plugin says of each node that remembers nothing, and the scores."""
        found: list[tuple[object, ...]] = []
        scores: list[int] = []
        for node in self.cluster.nodes():
            plugin, state = self.fresh(), CycleState()
            assert plugin.pre_filter(state, pod, self.cluster.snapshot()).status.ok
            status = plugin.filter(state, pod, node)
            found.append((status.code, status.reasons))
            if status.ok:
                scores.append(plugin.score(state, pod, node))
        return found, scores

    def release(self, number: int) -> None:
        """Let a claim give back what it has."""
        claim = self.objects.resource_claims.get(f"ns/c{number}")
        if claim is not None and claim.status.allocation is not None:
            freed = replace(claim, status=ResourceClaimStatus())
            finished(self.api.set_status(freed, allocation=True))


_VALUES = st.lists(st.integers(0, 1), min_size=1, max_size=3)
_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("place"), st.sampled_from(SHAPES)),
        st.tuples(st.just("release"), st.integers(0, 9)),
        st.tuples(st.just("offer"), st.tuples(st.integers(0, NODES - 1), _VALUES)),
    ),
    min_size=4,
    max_size=14,
)


@settings(max_examples=60, deadline=None)
@given(
    offers=st.lists(_VALUES, min_size=NODES, max_size=NODES),
    everywhere=st.booleans(),
    way=st.sampled_from(sorted(MORE)),
    steps=_STEPS,
)
def test_remembering_changes_no_decision(
    offers: list[list[int]], everywhere: bool, way: str, steps: list[tuple[str, Any]]
) -> None:
    """While claims come and go, and devices are published again."""
    claims = Claims(offers, everywhere=everywhere, way=way)
    for what, value in steps:
        if what == "place":
            claims.place(value)
        elif what == "release":
            claims.release(value)
        else:
            number, values = value
            claims.offer(f"n{number}", values, nodeName=f"n{number}")


@pytest.mark.parametrize(("way", "wanted"), [("shared", SHARE), ("counted", ONE), ("counted", TWO)])
def test_nodes_differ_by_what_is_left_of_shares_and_counters(
    way: str, wanted: dict[str, Any]
) -> None:
    """Until they are used up; nodes on which the same is left are alike."""
    claims = Claims([[0, 0]] * 3, everywhere=False, way=way)
    for _ in range(13):
        claims.place({"requests": [wanted]})


def test_nodes_that_failed_the_final_check_are_not_checked_again() -> None:
    """Or else, if there are more than one cycle checks, the pod never gets to the others."""
    world = World()
    for number in range(150):
        world.add_node(f"n{number}", machine=SHAPE)
        offer(world, f"n{number}", device("far", 1))
    claim(world, "gpu")
    lasting = scheduler(world)
    decisions = [lasting.decide(claiming("p", "gpu")) for _ in range(3)]
    assert [isinstance(decision, Refused) and decision.unfinished for decision in decisions] == [
        True,
        True,
        False,
    ]
    offer(world, "n7", device("near", 0))
    fresh = world.objects.resource_slices["n7"]
    cluster = lasting.engine.cluster
    cluster.objects.resource_slices["n7"] = fresh
    cluster.objects_changed()
    again = [lasting.decide(claiming("p", "gpu")) for _ in range(3)]
    assert isinstance(again[-1], Chosen)
    assert again[-1].node == "n7"


@pytest.mark.parametrize("policy", ["single-numa-node", "best-effort"])
def test_devices_near_cpus_are_chosen_as_if_no_other_node_were_known(policy: str) -> None:
    """On nodes with equal devices, where the kubelet takes CPUs of one NUMA node or the other."""
    world, hostname = World(), "kubernetes.io/hostname"
    offers = [device("a", 1), device("b", 0)], [device("a", 0)]
    for number in range(8):
        name = f"n{number}"
        world.add_node(name, policy, machine=SHAPE)
        offer(world, name, *offers[number // 4])
        if number % 2:
            world.run(pod(f"busy-{number}", "4"), name)
    claim(world, "gpu")
    lasting = scheduler(world)
    for name in world.nodes:
        one = claiming("p", "gpu", node_selector={hostname: name})
        decision, expected = lasting.decide(one), decide(world, one)
        assert type(decision) is type(expected)
        if isinstance(decision, Chosen):
            assert allocations(decision) == allocations(expected)
            assert _far(decision) == _far(expected)


def test_a_node_that_is_as_one_that_failed_is_refused_without_the_final_check() -> None:
    """It has the same devices, and the kubelet will take the same CPUs; a third one differs."""
    world = World()
    for name, at in {"n0": 1, "n1": 1, "n2": 0}.items():
        world.add_node(name, machine=SHAPE)
        offer(world, name, device("a", at))
    claim(world, "gpu")
    lasting = scheduler(world)
    decisions = [
        lasting.decide(claiming("p", "gpu", node_selector={"kubernetes.io/hostname": name}))
        for name in world.nodes
    ]
    assert [_confirmed(decision) for decision in decisions[:2]] == [[True], [False]]
    assert isinstance(decisions[2], Chosen)


def test_a_search_that_had_to_stop_is_tried_again() -> None:
    """Of a node that failed for lack of time nothing is remembered."""

    class Clock(ReplayedApi):
        """Each look takes an hour while it is slow."""

        slow = False
        time = datetime(2026, 1, 1, tzinfo=UTC)

        def now(self) -> datetime:
            Clock.time += timedelta(hours=Clock.slow)
            return Clock.time

    world = World()
    world.add_node("n0", machine=SHAPE)
    offer(world, "n0", device("a", 1), device("b", 0))
    claim(world, "gpu")
    lasting = scheduler(world, Clock)
    assert isinstance(lasting.decide(claiming("first", "gpu", cpu="2")), Chosen)
    Clock.slow = True
    assert isinstance(lasting.decide(claiming("p", "gpu")), Refused)
    Clock.slow = False
    assert names(lasting.decide(claiming("p", "gpu"))) == ["b"]


def _confirmed(decision: Chosen | Refused) -> list[bool]:
    """Whether DynamicResources refused in the final check, each time it did."""
    assert isinstance(decision, Refused)
    runs = decision.diagnosis.runs
    return [one.confirmed for one in runs if one.plugin == DynamicResources.name]


def _far(decision: Chosen | Refused) -> dict[str, str]:
    assert isinstance(decision, Chosen)
    known = decision.state.read(CYCLE_CLAIMS)
    assert known is not None
    return known.far


def test_what_was_assumed_of_a_claim_is_taken_back() -> None:
    """Then it is what the server tells."""
    told = convert(ResourceClaim, {"metadata": {"name": "a", "namespace": "d", "uid": "u"}})
    objects, tracker = ClusterObjects(), ClaimTracker(Features())
    objects.resource_claims["d/a"] = told
    written = replace(told, status=ResourceClaimStatus(allocation=AllocationResult()))
    tracker.assume(written)
    assert tracker.find(objects, "d/a") is written
    tracker.restore(written)
    assert tracker.find(objects, "d/a") is told
