"""NodeNUMAResource: where pods go, what they are given there, and what that leaves."""

from __future__ import annotations

import json

import pytest
from tests.scheduling.koordinator.town import Town, bound_to, cpus, given, pod

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
from numakube.koordinator.refusals import Why
from numakube.scheduling.cycle import Chosen, Refused
from numakube.scheduling.framework.events import ClusterEvent, EventKind
from numakube.scheduling.framework.state import CycleState
from numakube.scheduling.snapshot.pods import PodInfo

SINGLE = {"numaTopologyPolicy": "SingleNUMANode"}
SINGLE_NODE = {keys.NODE_POLICY: "SingleNUMANode"}
CONTAINERS = {**SINGLE, "numaTopologyScope": "container"}


@pytest.fixture
def town() -> Town:
    """A cluster of one node."""
    town = Town()
    town.add_node("n")
    return town


# Ordinary pods.


def test_an_ordinary_pod_is_none_of_our_business(town: Town) -> None:
    """Nothing is read, judged, rated or written."""
    decision = town.try_pod(pod("p"))
    assert isinstance(decision, Chosen)
    assert town.plugin.name in decision.state.skipped_filters
    assert keys.RESOURCE_STATUS not in town.run(pod("p")).metadata.annotations


def test_a_label_makes_ordinary_pods_special_on_its_node_only(town: Town) -> None:
    """Nine CPUs are no NUMA node's, but the node without a label does not mind."""
    town.add_node("strict", labels={**SINGLE_NODE, "where": "there"})
    decision = town.try_pod(pod("p", cpu="9"))
    assert isinstance(decision, Chosen)
    assert decision.node == "n"
    small = town.run(pod("small", cpu="1", node_selector={"where": "there"}))
    assert given(small).total.mask in (0b01, 0b10)


@pytest.mark.parametrize("word", ["None", "none", "Nonsense", ""])
def test_labels_that_mean_nothing_change_nothing(word: str) -> None:
    """They neither crash the scheduler nor make pods special."""
    town = Town()
    town.add_node("n", labels={keys.NODE_POLICY: word})
    assert keys.RESOURCE_STATUS not in town.run(pod("p")).metadata.annotations


# What pods get.


def test_a_pod_gets_one_numa_node_and_the_next_one_the_other(town: Town) -> None:
    """The emptiest first."""
    first = town.run(pod("a", cpu="5", spec=SINGLE))
    second = town.run(pod("b", cpu="5", spec=SINGLE))
    assert {given(first).total.mask, given(second).total.mask} == {0b01, 0b10}
    assert town.reasons(pod("c", cpu="5", spec=SINGLE)) == {Why.UNALIGNED.value}


def test_bound_cpus_are_written_and_never_given_twice(town: Town) -> None:
    """Whole cores of one NUMA node."""
    first = town.run(pod("a", cpu="4", bound=True, spec=SINGLE))
    second = town.run(pod("b", cpu="4", bound=True, spec=SINGLE))
    third = town.run(pod("c", cpu="4", bound=True, spec=SINGLE))
    held = [given(one).total.cpus for one in (first, second, third)]
    assert [one.bit_count() for one in held] == [4, 4, 4]
    assert held[0] & held[1] == held[0] & held[2] == held[1] & held[2] == 0
    assert json.loads(first.metadata.annotations[keys.RESOURCE_STATUS])["cpuset"] == cpus(first)


def test_an_assumed_pod_counts_before_the_server_has_told_of_it(town: Town) -> None:
    """Two decisions may come between a decision and its echo."""
    first = town.assume(pod("a", cpu="8", bound=True, spec=SINGLE))
    second = town.assume(pod("b", cpu="8", bound=True, spec=SINGLE))
    assert given(first.pod).total.cpus & given(second.pod).total.cpus == 0
    assert isinstance(town.try_pod(pod("c", cpu="2", bound=True, spec=SINGLE)), Refused)
    town.forget("a")
    assert isinstance(town.try_pod(pod("c", cpu="2", bound=True, spec=SINGLE)), Chosen)


def test_the_ledger_is_the_same_before_and_after_the_echo(town: Town) -> None:
    """The annotations are the only record."""
    assumed = town.assume(pod("a", cpu="4", bound=True, spec=SINGLE))
    node = town.cluster.node("n")
    assert node is not None
    before = town.plugin.ledgers.of(node)
    town.see(bound_to(assumed.pod, "n"))
    assert town.plugin.ledgers.of(node).key == before.key


def test_containers_are_placed_one_by_one_where_the_pod_says_so(town: Town) -> None:
    """Two containers of five CPUs fit no NUMA node together, and one each."""
    two = {"one": "5", "two": "5"}
    assert town.reasons(pod("a", containers=two, spec=SINGLE)) == {Why.UNALIGNED.value}
    shares = given(town.run(pod("b", containers=two, spec=CONTAINERS))).containers
    assert {name: share.mask for name, share in shares.items()} == {"one": 0b01, "two": 0b10}


@pytest.mark.parametrize("scope", ["pod", "container"])
def test_the_scope_of_the_node_counts_for_pods_that_say_nothing(scope: str) -> None:
    """Else it is the pod as a whole."""
    town = Town()
    town.add_node("n", labels={**SINGLE_NODE, keys.NODE_SCOPE: scope})
    decision = town.try_pod(pod("p", containers={"one": "5", "two": "5"}))
    assert isinstance(decision, Chosen if scope == "container" else Refused)


def test_results_that_a_pod_brings_along_do_not_hold(town: Town) -> None:
    """A manifest that was copied from a running pod takes nothing from anybody."""
    stale = {keys.RESOURCE_STATUS: '{"cpuset":"0-15"}', keys.DEVICE_ALLOCATED: '{"gpu":[]}'}
    one = town.run(pod("a", cpu="2", annotations=stale))
    assert one.metadata.annotations[keys.RESOURCE_STATUS] == "{}"
    assert given(town.run(pod("b", cpu="8", bound=True, spec=SINGLE))).total.cpus


def test_pods_of_others_count_by_their_annotations(town: Town) -> None:
    """Koordinator's scheduler may be at work beside us, or somebody bound a pod by hand."""
    status = {keys.RESOURCE_STATUS: '{"cpuset":"0-3,8-11"}'}
    town.see(bound_to(pod("theirs", cpu="8", annotations=status), "n"))
    assert cpus(town.run(pod("ours", cpu="8", bound=True, spec=SINGLE))) == "4-7,12-15"
    assert isinstance(town.try_pod(pod("more", cpu="2", bound=True, spec=SINGLE)), Refused)


def test_a_pod_that_goes_gives_back_what_it_held(town: Town) -> None:
    """At once, without anybody releasing it."""
    town.run(pod("a", cpu="8", spec=SINGLE))
    town.run(pod("b", cpu="8", spec=SINGLE))
    assert isinstance(town.try_pod(pod("c", cpu="1", spec=SINGLE)), Refused)
    town.forget("a")
    assert isinstance(town.try_pod(pod("c", cpu="1", spec=SINGLE)), Chosen)


# Refusals.


def test_problems_of_the_pod_are_named_and_no_node_is_asked(town: Town) -> None:
    """No eviction helps."""
    decision = town.try_pod(pod("p", spec={"numaTopologyPolicy": "Sometimes"}))
    assert isinstance(decision, Refused)
    status = decision.diagnosis.pre_filter
    assert status is not None
    assert "numaTopologyPolicy" in status.message
    assert status.code.label == "UnschedulableAndUnresolvable"


def test_a_live_kubelet_decides_for_itself(town: Town) -> None:
    """A pod that wants what it does passes, one that wants something else does not."""
    town = Town()
    town.add_node("n", policy="single-numa-node", scope="container")
    assert town.reasons(pod("a", spec={"numaTopologyPolicy": "Restricted"})) == {
        Why.KUBELET_POLICY.value
    }
    assert town.reasons(pod("b", spec={**SINGLE, "numaTopologyScope": "pod"})) == {
        Why.KUBELET_SCOPE.value
    }
    taken = town.run(pod("c", spec=CONTAINERS))
    assert keys.RESOURCE_STATUS not in taken.metadata.annotations


def test_a_pod_and_a_label_that_differ_do_not_go_together() -> None:
    """Preemption does not try such nodes."""
    town = Town()
    town.add_node("n", labels={keys.NODE_POLICY: "Restricted"})
    decision = town.try_pod(pod("p", spec=SINGLE))
    assert isinstance(decision, Refused)
    ((_, status),) = list(decision.diagnosis.groups())
    assert status.reasons == (Why.POLICY_CONFLICT.value,)
    assert status.code.label == "UnschedulableAndUnresolvable"


def test_bound_cpus_count_amplified() -> None:
    """A node that says it has twice its CPUs gives out each of them once."""
    town = Town()
    ratio = {keys.NODE_AMPLIFICATION: '{"cpu":2}'}
    town.add_node("n", annotations=ratio, offers={"cpu": "32"})
    town.run(pod("a", cpu="15", bound=True))
    assert town.reasons(pod("b", cpu="3")) == {Why.AMPLIFIED_CPU.value}
    town.run(pod("c", cpu="2"))
    assert town.reasons(pod("d", cpu="1")) == {Why.AMPLIFIED_CPU.value}


# Equal nodes, copies of nodes, events.


def test_nodes_that_are_alike_are_decided_once(town: Town) -> None:
    """And a pod like the last one asks only the node that has changed since."""
    for index in range(20):
        town.add_node(f"n{index}")
    town.run(pod("a", cpu="4", spec=SINGLE))
    known = next(iter(town.plugin._known.values()))
    assert len(known) == 1
    town.run(pod("b", cpu="4", spec=SINGLE))
    assert len(known) == 2


def test_one_node_and_all_nodes_are_judged_alike(town: Town) -> None:
    """The two forms of the filter and the score agree."""
    town.add_node("full")
    town.add_node("strict", labels={keys.NODE_POLICY: "Restricted"})
    town.see(bound_to(pod("x", annotations={keys.RESOURCE_STATUS: '{"cpuset":"0-15"}'}), "full"))
    info, snapshot, state = PodInfo(pod("p", bound=True, spec=SINGLE)), None, CycleState()
    snapshot = town.cluster.snapshot()
    plugin = town.plugin
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


def test_nodes_are_rated_only_where_something_is_given(town: Town) -> None:
    """Ordinary pods are not drawn to nodes with settings, nor is anybody where kubelets decide."""
    town.add_node("other")
    labelled = {**SINGLE_NODE, "pool": "made"}
    assert "score" in rated(town, pod("a", spec=SINGLE))
    assert "score" not in rated(town, pod("b"))
    town.add_node("m1", labels=labelled)
    town.add_node("m2", labels=labelled)
    assert "score" not in rated(town, pod("c"))
    assert "score" in rated(town, pod("d", node_selector={"pool": "made"}))
    for name in ("k1", "k2"):
        town.add_node(name, policy="single-numa-node", labels={"pool": "kubelets"})
    assert "score" not in rated(town, pod("e", spec=CONTAINERS, node_selector={"pool": "kubelets"}))


def rated(town: Town, one: Pod) -> set[str]:
    """Return ``score`` if the plugin rated the nodes for a pod."""
    decision = town.try_pod(one)
    assert isinstance(decision, Chosen)
    assert decision.scores is not None
    return {"score"} if town.plugin.name in decision.scores.by_plugin else set()


def test_preemption_evicts_whoever_holds_what_is_wanted(town: Town) -> None:
    """The one pod that has the NUMA node, not those that share the other."""
    town.run(pod("big", cpu="7", spec=SINGLE))
    town.run(pod("small-1", cpu="4", spec=SINGLE))
    town.run(pod("small-2", cpu="4", spec=SINGLE))
    decision = town.try_pod(pod("urgent", cpu="7", spec=SINGLE, priority=100))
    assert isinstance(decision, Refused)
    assert decision.nomination is not None
    assert [one.name for one in decision.nomination.victims] == ["big"]


def test_room_that_is_kept_for_a_nominated_pod_is_not_given_away(town: Town) -> None:
    """What it will hold is worked out on a copy of the node."""
    town.run(pod("a", cpu="8", spec=SINGLE))
    waiting = PodInfo(pod("first", cpu="8", spec=SINGLE, priority=100))
    town.parts.nominations.nominate(waiting, "n")
    assert isinstance(town.try_pod(pod("second", cpu="2", spec=SINGLE)), Refused)
    town.parts.nominations.drop("first")
    assert isinstance(town.try_pod(pod("second", cpu="2", spec=SINGLE)), Chosen)


def test_a_pod_that_held_nothing_wakes_nobody(town: Town) -> None:
    """One that did, does."""
    plain = PodInfo(bound_to(pod("plain"), "n"))
    holder = PodInfo(town.run(pod("holder", spec=SINGLE)))
    waiting = PodInfo(pod("w", spec=SINGLE))
    for gone, wakes in ((plain, False), (holder, True)):
        event = ClusterEvent(kind=EventKind.POD_DELETED, node="n", pod=gone)
        assert town.plugin.wakes(waiting, event) is wakes
    assert EventKind.TOPOLOGY_CHANGED in town.plugin.wakes_on
    town.add_node("twice", annotations={keys.NODE_AMPLIFICATION: '{"cpu":2}'})
    event = ClusterEvent(kind=EventKind.POD_DELETED, node="twice", pod=plain)
    assert town.plugin.wakes(waiting, event)


def test_what_the_scheduler_gives_does_not_confuse_the_cache_of_kubelets(town: Town) -> None:
    """A kubelet that aligns nothing reports nothing of it, and nothing was foreseen."""
    one = town.run(pod("a", cpu="4", bound=True, spec=SINGLE))
    cache = town.parts.cache
    told = [cache.bound("a", "n"), cache.set_report(town.report("n", one)), cache.resync(1e6)]
    assert [changes.mispredictions for changes in told] == [(), (), ()]
    assert not [fact for changes in told for fact in changes.facts]
    belief = cache.belief("n")
    assert belief is not None
    assert not belief.blocked


def test_devices_are_given_with_cpus_of_the_same_numa_node(town: Town) -> None:
    """And the ledger knows them afterwards."""
    town.add_node("n", offers={"koordinator.sh/gpu": "200"})
    town.set_device(device("n", 1, 1))
    one = town.run(gpu_pod("a"))
    share = given(one).total
    assert share.mask == 0b10
    assert [(held.type, held.minor) for held in share.devices] == [(GPU, 0)]
    assert [held.minor for held in given(town.run(gpu_pod("b"))).total.devices] == [1]
    assert isinstance(town.try_pod(gpu_pod("c")), Refused)


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
