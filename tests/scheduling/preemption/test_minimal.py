"""Whatever runs on a node, no victim could have been spared, and the kubelet then takes the pod."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.scheduling.numa.caches.reported_node import ReportedNode, pod
from tests.scheduling.preemption.room import PlainFilters, full_node

from numakube.api.pod import Pod
from numakube.scheduling.framework.cycle_state import CycleState
from numakube.scheduling.preemption.victims import Victims, find_victims
from numakube.scheduling.preemption.what_if_node import Trial
from numakube.scheduling.snapshot.cluster import Cluster
from numakube.scheduling.snapshot.nodes import NodeInfo
from numakube.scheduling.snapshot.pods import PodInfo

shapes = st.tuples(st.integers(1, 6), st.integers(0, 1), st.integers(0, 3))
policies = st.sampled_from(("single-numa-node", "restricted", "best-effort", "none"))


def fits(node: NodeInfo, who: Pod, gone: tuple[str, ...]) -> bool:
    """Tell whether *who* fits *node* without those pods."""
    one = PodInfo(who)
    trial = Trial(PlainFilters(), CycleState(), one, node)
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
    found = find_victims(one, node, (), lambda: Trial(PlainFilters(), CycleState(), one, node))
    uids = list(node.pods)
    feasible = [
        subset
        for size in range(len(uids) + 1)
        for subset in combinations(uids, size)
        if fits(node, who, subset)
    ]
    if not isinstance(found, Victims):
        assert tuple(uids) not in feasible
        return
    chosen = tuple(victim.uid for victim in found.pods)
    assert fits(node, who, chosen)
    for spared in chosen:
        assert not fits(node, who, tuple(uid for uid in chosen if uid != spared))
    if chosen and () not in feasible:
        best = min(max(node.pods[uid].priority for uid in subset) for subset in feasible)
        assert max(victim.priority for victim in found.pods) == best
