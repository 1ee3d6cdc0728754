"""NodeNUMAResource: where pods go, what they are given there, and what that leaves."""

from __future__ import annotations

import json

import pytest
from packages.placement.tests.plugins.wishes import KoordinatorScheduler, cpus, given, pod

from numakube.api.koordinator import keys
from numakube.api.koordinator.devices import (
    GPU,
    GPU_CORE,
    GPU_MEMORY_RATIO,
    DeviceCr,
    DeviceInfo,
    DeviceSpec,
    DeviceTopology,
)
from numakube.api.meta import ObjectMeta
from numakube.api.pod import Pod
from numakube.scheduling.cycle import Chosen, Refused
from numakube.scheduling.framework.cluster_events import ClusterEvent, EventKind
from numakube.scheduling.framework.cycle_state import CycleState
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing import running
from numakube_placement.koordinator.placement_rule import Why
from numakube_placement.plugins.node_numa_resource_args import read_args

SINGLE = {"numaTopologyPolicy": "SingleNUMANode"}
SINGLE_NODE = {keys.NODE_POLICY: "SingleNUMANode"}
CONTAINERS = {**SINGLE, "numaTopologyScope": "container"}


@pytest.fixture
def scheduler() -> KoordinatorScheduler:
    """A cluster of one node."""
    scheduler = KoordinatorScheduler()
    scheduler.add_node("n")
    return scheduler


# Ordinary pods.


def test_an_ordinary_pod_is_none_of_our_business(scheduler: KoordinatorScheduler) -> None:
    """Nothing is read, judged, rated or written."""
    decision = scheduler.decide(pod("p"))
    assert isinstance(decision, Chosen)
    assert scheduler.numa.name in decision.state.skipped_filters
    assert keys.RESOURCE_STATUS not in scheduler.run(pod("p")).metadata.annotations


def test_a_label_makes_ordinary_pods_special_on_its_node_only(
    scheduler: KoordinatorScheduler,
) -> None:
    """Nine CPUs are no NUMA node's, but the node without a label does not mind."""
    scheduler.add_node("strict", labels={**SINGLE_NODE, "where": "there"})
    decision = scheduler.decide(pod("p", cpu="9"))
    assert isinstance(decision, Chosen)
    assert decision.node == "n"
    small = scheduler.run(pod("small", cpu="1", node_selector={"where": "there"}))
    assert given(small).total.mask in (0b01, 0b10)


@pytest.mark.parametrize("word", ["None", "none", "Nonsense", ""])
def test_labels_that_mean_nothing_change_nothing(word: str) -> None:
    """They neither crash the scheduler nor make pods special."""
    scheduler = KoordinatorScheduler()
    scheduler.add_node("n", labels={keys.NODE_POLICY: word})
    assert keys.RESOURCE_STATUS not in scheduler.run(pod("p")).metadata.annotations


# What pods get.


def test_a_pod_gets_one_numa_node_and_the_next_one_the_other(
    scheduler: KoordinatorScheduler,
) -> None:
    """The emptiest first."""
    first = scheduler.run(pod("a", cpu="5", spec=SINGLE))
    second = scheduler.run(pod("b", cpu="5", spec=SINGLE))
    assert {given(first).total.mask, given(second).total.mask} == {0b01, 0b10}
    assert scheduler.reasons(pod("c", cpu="5", spec=SINGLE)) == {Why.UNALIGNED.value}


def test_bound_cpus_are_written_and_never_given_twice(scheduler: KoordinatorScheduler) -> None:
    """Whole cores of one NUMA node."""
    first = scheduler.run(pod("a", cpu="4", bound=True, spec=SINGLE))
    second = scheduler.run(pod("b", cpu="4", bound=True, spec=SINGLE))
    third = scheduler.run(pod("c", cpu="4", bound=True, spec=SINGLE))
    held = [given(one).total.cpus for one in (first, second, third)]
    assert [mask.bit_count() for mask in held] == [4, 4, 4]
    assert held[0] & held[1] == held[0] & held[2] == held[1] & held[2] == 0
    assert json.loads(first.metadata.annotations[keys.RESOURCE_STATUS])["cpuset"] == cpus(first)


def test_an_assumed_pod_counts_before_the_server_has_told_of_it(
    scheduler: KoordinatorScheduler,
) -> None:
    """Two decisions may come between a decision and its echo."""
    first = scheduler.assume(pod("a", cpu="8", bound=True, spec=SINGLE))
    second = scheduler.assume(pod("b", cpu="8", bound=True, spec=SINGLE))
    assert given(first.pod).total.cpus & given(second.pod).total.cpus == 0
    assert isinstance(scheduler.decide(pod("c", cpu="2", bound=True, spec=SINGLE)), Refused)
    scheduler.forget("a")
    assert isinstance(scheduler.decide(pod("c", cpu="2", bound=True, spec=SINGLE)), Chosen)


def test_the_ledger_is_the_same_before_and_after_the_echo(scheduler: KoordinatorScheduler) -> None:
    """The annotations are the only record."""
    assumed = scheduler.assume(pod("a", cpu="4", bound=True, spec=SINGLE))
    node = scheduler.cluster.node("n")
    assert node is not None
    before = scheduler.numa.ledgers.of(node)
    scheduler.see(running(assumed.pod, "n"))
    assert scheduler.numa.ledgers.of(node).key == before.key


def test_containers_are_placed_one_by_one_where_the_pod_says_so(
    scheduler: KoordinatorScheduler,
) -> None:
    """Two containers of five CPUs fit no NUMA node together, and one each."""
    two = {"one": "5", "two": "5"}
    assert scheduler.reasons(pod("a", containers=two, spec=SINGLE)) == {Why.UNALIGNED.value}
    shares = given(scheduler.run(pod("b", containers=two, spec=CONTAINERS))).containers
    assert {name: share.mask for name, share in shares.items()} == {"one": 0b01, "two": 0b10}


def test_the_scope_of_the_profile_counts_where_nobody_says_one(
    scheduler: KoordinatorScheduler,
) -> None:
    """Two containers of five CPUs fit no NUMA node together."""
    scheduler.numa.args = read_args({"defaultNUMATopologyScope": "container"})
    placed = scheduler.run(pod("p", containers={"one": "5", "two": "5"}, spec=SINGLE))
    shares = given(placed).containers
    assert {name: share.mask for name, share in shares.items()} == {"one": 0b01, "two": 0b10}


def test_the_event_says_what_each_resource_would_have_had(scheduler: KoordinatorScheduler) -> None:
    """In Koordinator's form; the reason by which nodes are counted stays the same."""
    scheduler.add_node("m")
    wish = pod("p", containers={"one": "5", "two": "5"}, spec=SINGLE)
    decision = scheduler.decide(wish)
    assert isinstance(decision, Refused)
    text = decision.diagnosis.message()
    assert text.startswith("0/2 nodes are available: 2 Unaligned NUMA Hint cause [cpu prefer [")
    assert scheduler.reasons(wish) == {Why.UNALIGNED.value}


@pytest.mark.parametrize("scope", ["pod", "container"])
def test_the_scope_of_the_node_counts_for_pods_that_say_nothing(scope: str) -> None:
    """Else it is the pod as a whole."""
    scheduler = KoordinatorScheduler()
    scheduler.add_node("n", labels={**SINGLE_NODE, keys.NODE_SCOPE: scope})
    decision = scheduler.decide(pod("p", containers={"one": "5", "two": "5"}))
    assert isinstance(decision, Chosen if scope == "container" else Refused)


def test_results_that_a_pod_brings_along_do_not_hold(scheduler: KoordinatorScheduler) -> None:
    """A manifest that was copied from a running pod takes nothing from anybody."""
    stale = {keys.RESOURCE_STATUS: '{"cpuset":"0-15"}', keys.DEVICE_ALLOCATED: '{"gpu":[]}'}
    one = scheduler.run(pod("a", cpu="2", annotations=stale))
    assert one.metadata.annotations[keys.RESOURCE_STATUS] == "{}"
    assert given(scheduler.run(pod("b", cpu="8", bound=True, spec=SINGLE))).total.cpus


def test_pods_of_others_count_by_their_annotations(scheduler: KoordinatorScheduler) -> None:
    """Koordinator's scheduler may be at work beside us, or somebody bound a pod by hand."""
    status = {keys.RESOURCE_STATUS: '{"cpuset":"0-3,8-11"}'}
    scheduler.see(running(pod("theirs", cpu="8", annotations=status), "n"))
    assert cpus(scheduler.run(pod("ours", cpu="8", bound=True, spec=SINGLE))) == "4-7,12-15"
    assert isinstance(scheduler.decide(pod("more", cpu="2", bound=True, spec=SINGLE)), Refused)


def test_a_pod_that_goes_gives_back_what_it_held(scheduler: KoordinatorScheduler) -> None:
    """At once, without anybody releasing it."""
    scheduler.run(pod("a", cpu="8", spec=SINGLE))
    scheduler.run(pod("b", cpu="8", spec=SINGLE))
    assert isinstance(scheduler.decide(pod("c", cpu="1", spec=SINGLE)), Refused)
    scheduler.forget("a")
    assert isinstance(scheduler.decide(pod("c", cpu="1", spec=SINGLE)), Chosen)


# Refusals.


def test_problems_of_the_pod_are_named_and_no_node_is_asked(
    scheduler: KoordinatorScheduler,
) -> None:
    """No eviction helps."""
    decision = scheduler.decide(pod("p", spec={"numaTopologyPolicy": "Sometimes"}))
    assert isinstance(decision, Refused)
    status = decision.diagnosis.pre_filter
    assert status is not None
    assert "numaTopologyPolicy" in status.message
    assert status.code.label == "UnschedulableAndUnresolvable"


def test_a_live_kubelet_decides_for_itself(scheduler: KoordinatorScheduler) -> None:
    """A pod that wants what it does passes, one that wants something else does not."""
    scheduler = KoordinatorScheduler()
    scheduler.add_node("n", policy="single-numa-node", scope="container")
    assert scheduler.reasons(pod("a", spec={"numaTopologyPolicy": "Restricted"})) == {
        Why.KUBELET_POLICY.value
    }
    assert scheduler.reasons(pod("b", spec={**SINGLE, "numaTopologyScope": "pod"})) == {
        Why.KUBELET_SCOPE.value
    }
    taken = scheduler.run(pod("c", spec=CONTAINERS))
    assert keys.RESOURCE_STATUS not in taken.metadata.annotations


def test_a_pod_and_a_label_that_differ_do_not_go_together() -> None:
    """Preemption does not try such nodes."""
    scheduler = KoordinatorScheduler()
    scheduler.add_node("n", labels={keys.NODE_POLICY: "Restricted"})
    decision = scheduler.decide(pod("p", spec=SINGLE))
    assert isinstance(decision, Refused)
    ((_, status),) = list(decision.diagnosis.groups())
    assert status.reasons == (Why.POLICY_CONFLICT.value,)
    assert status.code.label == "UnschedulableAndUnresolvable"


def test_bound_cpus_count_amplified() -> None:
    """A node that says it has twice its CPUs gives out each of them once."""
    scheduler = KoordinatorScheduler()
    ratio = {keys.NODE_AMPLIFICATION: '{"cpu":2}'}
    scheduler.add_node("n", annotations=ratio, offers={"cpu": "32"})
    scheduler.run(pod("a", cpu="15", bound=True))
    assert scheduler.reasons(pod("b", cpu="3")) == {Why.AMPLIFIED_CPU.value}
    scheduler.run(pod("c", cpu="2"))
    assert scheduler.reasons(pod("d", cpu="1")) == {Why.AMPLIFIED_CPU.value}


# Equal nodes, copies of nodes, events.


def test_nodes_that_are_alike_are_decided_once(scheduler: KoordinatorScheduler) -> None:
    """And a pod like the last one asks only the node that has changed since."""
    for index in range(20):
        scheduler.add_node(f"n{index}")
    scheduler.run(pod("a", cpu="4", spec=SINGLE))
    known = next(iter(scheduler.numa._known.values()))
    assert len(known) == 1
    scheduler.run(pod("b", cpu="4", spec=SINGLE))
    assert len(known) == 2


def test_one_node_and_all_nodes_are_judged_alike(scheduler: KoordinatorScheduler) -> None:
    """The two forms of the filter and the score agree."""
    scheduler.add_node("full")
    scheduler.add_node("strict", labels={keys.NODE_POLICY: "Restricted"})
    scheduler.see(
        running(pod("x", annotations={keys.RESOURCE_STATUS: '{"cpuset":"0-15"}'}), "full")
    )
    info, snapshot, state = PodInfo(pod("p", bound=True, spec=SINGLE)), None, CycleState()
    snapshot = scheduler.cluster.snapshot()
    plugin = scheduler.numa
    assert plugin.pre_filter(state, info, snapshot).status.ok
    verdicts = plugin.filter_all(state, info, snapshot, snapshot.rows)
    assert verdicts is not None
    scores = plugin.score_all(state, info, snapshot, snapshot.rows)
    for position, row in enumerate(snapshot.rows):
        node = snapshot.at(int(row))
        alone = plugin.filter(state, info, node)
        assert (alone.code, alone.reasons) == (
            verdicts.status(position).code,
            verdicts.status(position).reasons,
        )
        assert plugin.score(state, info, node) == scores[position]


def test_nodes_are_rated_only_where_something_is_given(scheduler: KoordinatorScheduler) -> None:
    """Ordinary pods are not drawn to nodes with settings, nor is anybody where kubelets decide."""
    scheduler.add_node("other")
    labelled = {**SINGLE_NODE, "pool": "made"}
    assert "score" in rated(scheduler, pod("a", spec=SINGLE))
    assert "score" not in rated(scheduler, pod("b"))
    scheduler.add_node("m1", labels=labelled)
    scheduler.add_node("m2", labels=labelled)
    assert "score" not in rated(scheduler, pod("c"))
    assert "score" in rated(scheduler, pod("d", node_selector={"pool": "made"}))
    for name in ("k1", "k2"):
        scheduler.add_node(name, policy="single-numa-node", labels={"pool": "kubelets"})
    assert "score" not in rated(
        scheduler, pod("e", spec=CONTAINERS, node_selector={"pool": "kubelets"})
    )


def rated(scheduler: KoordinatorScheduler, one: Pod) -> set[str]:
    """Return ``score`` if the plugin rated the nodes for a pod."""
    decision = scheduler.decide(one)
    assert isinstance(decision, Chosen)
    assert decision.scores is not None
    return {"score"} if scheduler.numa.name in decision.scores.by_plugin else set()


def test_preemption_evicts_whoever_holds_what_is_wanted(scheduler: KoordinatorScheduler) -> None:
    """The one pod that has the NUMA node, not those that share the other."""
    scheduler.run(pod("big", cpu="7", spec=SINGLE))
    scheduler.run(pod("small-1", cpu="4", spec=SINGLE))
    scheduler.run(pod("small-2", cpu="4", spec=SINGLE))
    decision = scheduler.decide(pod("urgent", cpu="7", spec=SINGLE, priority=100))
    assert isinstance(decision, Refused)
    assert decision.nomination is not None
    assert [victim.name for victim in decision.nomination.victims] == ["big"]


def test_room_that_is_kept_for_a_nominated_pod_is_not_given_away(
    scheduler: KoordinatorScheduler,
) -> None:
    """What it will hold is worked out on a copy of the node."""
    scheduler.run(pod("a", cpu="8", spec=SINGLE))
    waiting = PodInfo(pod("first", cpu="8", spec=SINGLE, priority=100))
    scheduler.engine.nominations.nominate(waiting, "n")
    assert isinstance(scheduler.decide(pod("second", cpu="2", spec=SINGLE)), Refused)
    scheduler.engine.nominations.drop("first")
    assert isinstance(scheduler.decide(pod("second", cpu="2", spec=SINGLE)), Chosen)


def test_a_pod_that_held_nothing_wakes_nobody(scheduler: KoordinatorScheduler) -> None:
    """One that did, does."""
    plain = PodInfo(running(pod("plain"), "n"))
    holder = PodInfo(scheduler.run(pod("holder", spec=SINGLE)))
    waiting = PodInfo(pod("w", spec=SINGLE))
    for gone, wakes in ((plain, False), (holder, True)):
        event = ClusterEvent(kind=EventKind.POD_DELETED, node="n", pod=gone)
        assert scheduler.numa.wakes(waiting, event) is wakes
    unknown = ClusterEvent(kind=EventKind.POD_DELETED, node="n")
    assert scheduler.numa.wakes(waiting, unknown)
    assert EventKind.TOPOLOGY_CHANGED in scheduler.numa.wakes_on
    scheduler.add_node("twice", annotations={keys.NODE_AMPLIFICATION: '{"cpu":2}'})
    event = ClusterEvent(kind=EventKind.POD_DELETED, node="twice", pod=plain)
    assert scheduler.numa.wakes(waiting, event)


def test_what_the_scheduler_gives_does_not_confuse_the_cache_of_kubelets(
    scheduler: KoordinatorScheduler,
) -> None:
    """A kubelet that aligns nothing reports nothing of it, and nothing was foreseen."""
    one = scheduler.run(pod("a", cpu="4", bound=True, spec=SINGLE))
    cache = scheduler.engine.cache
    told = [cache.bound("a", "n"), cache.set_report(scheduler.report("n", one)), cache.resync(1e6)]
    assert [changes.mispredictions for changes in told] == [(), (), ()]
    assert not [fact for changes in told for fact in changes.facts]
    belief = cache.belief("n")
    assert belief is not None
    assert not belief.blocked


def test_devices_are_given_with_cpus_of_the_same_numa_node(scheduler: KoordinatorScheduler) -> None:
    """And the ledger knows them afterwards."""
    scheduler.add_node("n", offers={"koordinator.sh/gpu": "200"})
    scheduler.set_device(device("n", 1, 1))
    one = scheduler.run(gpu_pod("a"))
    share = given(one).total
    assert share.mask == 0b10
    assert [(held.type, held.minor) for held in share.devices] == [(GPU, 0)]
    assert [held.minor for held in given(scheduler.run(gpu_pod("b"))).total.devices] == [1]
    assert isinstance(scheduler.decide(gpu_pod("c")), Refused)


def gpu_pod(name: str) -> Pod:
    """Return a pod that wants one GPU."""
    return pod(name, spec={**SINGLE, "singleNUMANodeExclusive": "Preferred"}, also={
        "koordinator.sh/gpu": "100"
    })  # fmt: skip


def device(node: str, *numas: int) -> DeviceCr:
    """Return what a node publishes of its GPUs."""
    devices = tuple(
        DeviceInfo(
            type=GPU,
            minor=minor,
            health=True,
            resources={GPU_CORE: "100", GPU_MEMORY_RATIO: "100"},
            topology=DeviceTopology(node_id=numa),
        )
        for minor, numa in enumerate(numas)
    )
    return DeviceCr(metadata=ObjectMeta(name=node), spec=DeviceSpec(devices=devices))
