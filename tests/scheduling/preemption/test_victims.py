"""As few and as unimportant pods as possible go, and only if that helps."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.scheduling.numa.caches.reported_node import ReportedNode, pod
from tests.scheduling.preemption.room import PlainFilters, full_node

from numakube.api.pod import Pod
from numakube.scheduling.cycle import Chosen
from numakube.scheduling.framework.cycle_state import CycleState
from numakube.scheduling.framework.status import Code, Status
from numakube.scheduling.preemption.victims import (
    Budget,
    ChosenVictims,
    EvictionTrial,
    find_victims,
    split_by_violation,
)
from numakube.scheduling.snapshot.cluster import Cluster
from numakube.scheduling.snapshot.nodes import NodeInfo
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing import World
from numakube.testing import pod as plain_pod


class Everything:
    """Matches all labels."""

    def matches(self, labels: object) -> bool:
        """Tell so."""
        return labels is not None


def labelled(one: Pod, **labels: str) -> Pod:
    """Return the pod with labels."""
    return msgspec.structs.replace(
        one, metadata=msgspec.structs.replace(one.metadata, labels=labels)
    )


def victims(
    one: Pod,
    node: NodeInfo,
    *,
    budgets: Sequence[Budget] = (),
    nominated: Sequence[PodInfo] = (),
) -> ChosenVictims | Status:
    """Find who must leave *node* for *one*."""
    filters = PlainFilters()
    who = PodInfo(one)
    return find_victims(
        who,
        node,
        budgets,
        lambda: EvictionTrial(filters, CycleState(), who, node, nominated=nominated),
    )


def names(found: ChosenVictims | Status) -> list[str]:
    """The victims by name."""
    assert isinstance(found, ChosenVictims)
    return [one.name for one in found.pods]


@pytest.fixture
def cluster() -> Cluster:
    """A cluster."""
    return Cluster()


def test_pods_of_equal_or_higher_priority_are_safe(cluster: Cluster) -> None:
    """Otherwise two pods could evict each other in turn."""
    node = full_node(cluster, [pod("a", cpus=14, priority=5), pod("b", cpus=1, priority=9)])
    found = victims(pod("new", cpus=4, priority=5), node)
    assert isinstance(found, Status)
    assert found.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert found.message == "No preemption victims found for incoming pod"


def test_the_least_important_pods_go(cluster: Cluster) -> None:
    """Everybody else is put back, the most important first."""
    pods = [pod(f"p{level}", cpus=3, priority=level) for level in range(5)]
    assert names(victims(pod("new", cpus=6, priority=9), full_node(cluster, pods))) == ["p1", "p0"]


def test_nobody_goes_if_that_does_not_help(cluster: Cluster) -> None:
    """A pod that is larger than the node stays out."""
    found = victims(pod("new", cpus=16, priority=9), full_node(cluster, [pod("a", cpus=14)]))
    assert isinstance(found, Status)
    assert found.message == "Insufficient cpu"


def test_nobody_goes_if_the_kubelet_would_refuse_the_pod_all_the_same(cluster: Cluster) -> None:
    """Nine CPUs are free then, but not in one zone."""
    node = full_node(cluster, [pod("a", cpus=7)], site=ReportedNode.make())
    found = victims(pod("new", cpus=9, priority=9), node)
    assert isinstance(found, Status)
    assert found.message == "cannot align pod"


def test_the_victim_is_the_one_in_the_right_zone(cluster: Cluster) -> None:
    """Upstream's dry run frees CPUs of the node, and the NUMA filter does not see them."""
    pods = [pod("zone-0", cpus=4, priority=1), pod("zone-1", cpus=8, priority=2)]
    node = full_node(cluster, pods, site=ReportedNode.make())
    assert names(victims(pod("new", cpus=7, priority=9), node)) == ["zone-0"]
    assert names(victims(pod("new", cpus=8, priority=9), node)) == ["zone-1"]


def test_one_pod_of_one_zone_rather_than_two_of_another(cluster: Cluster) -> None:
    """Putting back the first one would cost the other two."""
    pods = [pod("a", cpus=8), pod("b", cpus=3), pod("c", cpus=4)]
    node = full_node(cluster, pods, site=ReportedNode.make())
    assert names(victims(pod("new", cpus=7, priority=9), node)) == ["a"]


@pytest.mark.parametrize("policy", ["restricted", "best-effort", "none"])
def test_every_policy_gets_no_more_victims_than_it_needs(cluster: Cluster, policy: str) -> None:
    """The model is asked, whatever the policy is."""
    pods = [pod(f"p{number}", cpus=3, priority=number) for number in range(4)]
    node = full_node(cluster, pods, site=ReportedNode.make(policy=policy))
    found = victims(pod("new", cpus=5, priority=9), node)
    assert isinstance(found, ChosenVictims)
    assert 1 <= len(found.pods) <= 2
    rest = [one for one in pods if one.metadata.name not in names(found)]
    site = ReportedNode.make(policy=policy)
    for other in (*rest, pod("new", cpus=5, priority=9)):
        assert site.admit(other)


def test_a_victim_whose_place_is_unknown_gives_no_credit(cluster: Cluster) -> None:
    """Reports without names and placements tell how much is free, but not who has the rest."""
    site = ReportedNode.make(exact=False)
    node = full_node(cluster, [pod("a", cpus=7), pod("b", cpus=8)], site=site)
    found = victims(pod("new", cpus=7, priority=9), node)
    assert isinstance(found, Status)
    assert found.message == "cannot align pod"


def test_a_victim_with_nothing_exclusive_helps_where_only_the_node_lacked_room(
    cluster: Cluster,
) -> None:
    """Upstream refuses such victims once placements are known (derived limitation 6)."""
    pods = [pod("shared", cpus=12, guaranteed=False, priority=1), pod("keep", cpus=1, priority=9)]
    node = full_node(cluster, pods, site=ReportedNode.make())
    assert names(victims(pod("new", cpus=6, priority=5), node)) == ["shared"]


def test_pods_within_their_budget_go_rather_than_protected_ones(cluster: Cluster) -> None:
    """Even if they are more important."""
    pods = [
        labelled(pod("guarded", cpus=7, priority=1), app="db"),
        pod("other", cpus=7, priority=2),
    ]
    budget = Budget("default", Everything(), allowed=0)
    found = victims(pod("new", cpus=6, priority=9), full_node(cluster, pods), budgets=[budget])
    assert names(found) == ["other"]
    assert isinstance(found, ChosenVictims)
    assert found.violations == 0


def test_a_budget_is_violated_if_nothing_else_helps(cluster: Cluster) -> None:
    """And each violation is counted."""
    pods = [labelled(pod(f"p{number}", cpus=7, priority=1), app="db") for number in range(2)]
    budget = Budget("default", Everything(), allowed=1)
    found = victims(pod("new", cpus=14, priority=9), full_node(cluster, pods), budgets=[budget])
    assert isinstance(found, ChosenVictims)
    assert (len(found.pods), found.violations) == (2, 1)


def test_budgets_are_about_labelled_pods_of_their_namespace_that_are_not_leaving_yet() -> None:
    """As the API server counts them."""
    guarded = PodInfo(labelled(pod("a"), app="db"))
    assert split_by_violation([guarded], [Budget("default", Everything(), 0)])[0] == [guarded]
    for harmless in (
        Budget("other", Everything(), 0),
        Budget("default", Everything(), 0, frozenset({"a"})),
        Budget("default", Everything(), 1),
    ):
        assert split_by_violation([guarded], [harmless])[0] == []
    assert split_by_violation([PodInfo(pod("a"))], [Budget("default", Everything(), 0)])[0] == []


def test_room_made_for_a_nominated_pod_is_not_taken(cluster: Cluster) -> None:
    """It may come any moment."""
    pods = [pod(f"p{number}", cpus=5, priority=number) for number in range(3)]
    node = full_node(cluster, pods)
    other = PodInfo(pod("nominated", cpus=4, priority=9))
    found = victims(pod("new", cpus=4, priority=9), node, nominated=[other])
    assert names(found) == ["p1", "p0"]


def test_room_made_for_a_nominated_pod_is_not_taken_in_its_zone(cluster: Cluster) -> None:
    """The node has CPUs enough for both, but no zone has them."""
    pods = [pod("a", cpus=7, priority=1), pod("b", cpus=5, priority=2)]
    node = full_node(cluster, pods, site=ReportedNode.make())
    other = PodInfo(pod("nominated", cpus=6, priority=9))
    assert names(victims(pod("new", cpus=6, priority=9), node)) == ["a"]
    found = victims(pod("new", cpus=6, priority=9), node, nominated=[other])
    assert names(found) == ["b", "a"]


# ------------------------------------------------------------------------------------------------
# A node in thought: pods that are taken away free their zones, pods that will come take theirs.


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize(
    ("cpu", "nominated", "fits"),
    [
        ("7", ["4"], True),
        ("7", ["7"], True),
        ("7", ["8"], True),
        ("8", ["7"], True),
        ("8", ["8"], False),
        ("8", ["3", "3"], True),
        ("7", ["4", "4"], False),
        ("4", ["7", "5"], False),
    ],
)
def test_a_nominated_pod_takes_its_zone_once(
    cpu: str, nominated: list[str], fits: bool, plain: bool
) -> None:
    """Whether the plugins see to that or leave it to us; zones have 7 and 8 free CPUs."""
    world = World()
    world.add_node("n0")
    deciding = world.scheduler()
    one = PodInfo(plain_pod("new", cpu))
    decision = deciding.decide(one.pod)
    assert isinstance(decision, Chosen)
    node = deciding.engine.cluster.node("n0")
    assert node is not None
    runtime = PlainFilters() if plain else deciding.runtime
    state = CycleState() if plain else decision.state
    others = [
        PodInfo(plain_pod(f"nominated-{number}", wanted, priority=9))
        for number, wanted in enumerate(nominated)
    ]
    assert EvictionTrial(runtime, state, one, node, nominated=others).verdict().ok is fits
    assert EvictionTrial(runtime, state, one, node).verdict().ok


# ------------------------------------------------------------------------------------------------
# Whatever runs on a node, no victim could have been spared, and the kubelet then takes the pod.

shapes = st.tuples(st.integers(1, 6), st.integers(0, 1), st.integers(0, 3))
policies = st.sampled_from(("single-numa-node", "restricted", "best-effort", "none"))


def fits(node: NodeInfo, who: Pod, gone: tuple[str, ...]) -> bool:
    """Tell whether *who* fits *node* without those pods."""
    one = PodInfo(who)
    trial = EvictionTrial(PlainFilters(), CycleState(), one, node)
    trial.remove([node.pods[uid] for uid in gone])
    return trial.verdict().ok


@settings(max_examples=40, deadline=None)
@given(
    pods=st.lists(shapes, min_size=1, max_size=5),
    wanted=st.tuples(st.integers(1, 8), st.integers(0, 2)),
    policy=policies,
)
def test_victims_are_minimal_and_their_eviction_helps(
    pods: list[tuple[int, int, int]], wanted: tuple[int, int], policy: str
) -> None:
    """No other choice has a lower highest priority either."""
    site = ReportedNode.make(policy=policy)
    running = [
        pod(f"p{at}", cpus=cpus, gpus=gpus, priority=priority)
        for at, (cpus, gpus, priority) in enumerate(pods)
    ]
    running = [one for one in running if site.admit(one)]
    node = full_node(Cluster(), running, site=ReportedNode.make(policy=policy))
    who = pod("new", cpus=wanted[0], gpus=wanted[1], priority=9)
    one = PodInfo(who)
    found = find_victims(
        one, node, (), lambda: EvictionTrial(PlainFilters(), CycleState(), one, node)
    )
    uids = list(node.pods)
    feasible = [
        subset
        for size in range(len(uids) + 1)
        for subset in combinations(uids, size)
        if fits(node, who, subset)
    ]
    if not isinstance(found, ChosenVictims):
        assert tuple(uids) not in feasible
        return
    chosen = tuple(victim.uid for victim in found.pods)
    assert fits(node, who, chosen)
    for spared in chosen:
        assert not fits(node, who, tuple(uid for uid in chosen if uid != spared))
    if chosen and () not in feasible:
        best = min(max(node.pods[uid].priority for uid in subset) for subset in feasible)
        assert max(victim.priority for victim in found.pods) == best
