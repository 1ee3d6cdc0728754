"""filter, prioritize, preempt and bind on a handful of nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.apps.extender.place import Place, asked, binding

from numakube.api.pod import Pod
from numakube.apps.extender.extender_messages import MetaPod, MetaVictims, PreemptionArgs
from numakube.apps.extender.filter_nodes import MARK, on_scale
from numakube.apps.extender.preemption import Rooms
from numakube.kube.catalog import PODS
from numakube.kube.client import strategic_patch
from numakube.scheduling.numa.topology_match_args import read_args
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing import until

TOO_FULL = f"{MARK}cannot align container main (cpu)"


async def test_filter_keeps_the_nodes_with_a_zone_that_has_room(place: Place) -> None:
    """And says of the others why they do not, in a text without amounts."""
    extender = await place.start()
    await place.node("free", 8, 8)
    await place.node("split", 4, 4)
    pod = await place.pod("p")
    result = extender.verbs.filter(asked(pod, "split", "free"))
    assert result.node_names == ("free",)
    assert result.failed_nodes == {"split": TOO_FULL}
    assert result.failed_and_unresolvable_nodes == {}
    assert result.error == ""


async def test_a_refusal_reads_the_same_while_amounts_change(place: Place) -> None:
    """A text that changes would wake the pod again and again."""
    extender = await place.start()
    await place.node("n", 5, 4)
    pod = await place.pod("p")
    before = extender.verbs.filter(asked(pod, "n"))
    await place.report("n", 4, 3)
    await place.seen(lambda one: one.mirror.cluster.node("n").numa.available[0]["cpu"] == 4000)
    after = extender.verbs.filter(asked(pod, "n"))
    assert before == after
    assert not before.node_names


async def test_a_node_that_is_too_small_is_beyond_help(place: Place) -> None:
    """Nobody's leaving makes a zone larger."""
    extender = await place.start()
    await place.node("small", 8, 8)
    pod = await place.pod("p", "10")
    result = extender.verbs.filter(asked(pod, "small"))
    assert result.failed_nodes == {}
    assert result.failed_and_unresolvable_nodes == {"small": TOO_FULL}


async def test_kube_scheduler_is_kept_from_preempting_where_it_sees_no_reason(
    place: Place,
) -> None:
    """It would find no victims and complain in ever new words; unless the pod never preempts."""
    extender = await place.start()
    await place.node("n", 8, 5)
    low = await place.pod("low", "5")
    assert not (await extender.verbs.bind(binding(low, "n"))).error
    vip = await place.pod("vip", priorityClassName="high")
    result = extender.verbs.filter(asked(vip, "n"))
    assert list(result.failed_and_unresolvable_nodes) == ["n"]
    meek = await place.pod("meek", priorityClassName="meek")
    assert list(extender.verbs.filter(asked(meek, "n")).failed_nodes) == ["n"]
    equal = await place.pod("equal")
    assert list(extender.verbs.filter(asked(equal, "n")).failed_nodes) == ["n"]


async def test_a_node_that_is_not_known_never_fits(place: Place) -> None:
    """Even if everything else does."""
    extender = await place.start()
    await place.node("known", 8)
    result = extender.verbs.filter(asked(await place.pod("p"), "ghost", "known"))
    assert result.node_names == ("known",)
    assert list(result.failed_and_unresolvable_nodes) == ["ghost"]


async def test_b21_a_strict_extender_refuses_nodes_without_a_report(place: Place) -> None:
    """So does one that is not strict, for a pod that is."""
    strict = await place.start(numa=read_args({"missingData": "Refuse"}))
    lenient = await place.start()
    await place.node("known", 8)
    await place.node("plain")
    metadata = {"annotations": {"topology.numakube.dev/missing-data": "Refuse"}}
    pod, asking = await place.pod("p", "2"), await place.pod("q", "2", metadata=metadata)
    refused = {"plain": f"{MARK}node(s) without a usable NodeResourceTopology"}
    for extender, one in ((strict, pod), (strict, asking), (lenient, asking)):
        result = extender.verbs.filter(asked(one, "known", "plain"))
        assert result.node_names == ("known",)
        assert result.failed_and_unresolvable_nodes == refused
    assert lenient.verbs.filter(asked(pod, "known", "plain")).node_names == ("known", "plain")


async def test_a_node_without_a_report_is_left_to_kube_scheduler(place: Place) -> None:
    """As the Go plugin does."""
    extender = await place.start()
    await place.node("plain")
    result = extender.verbs.filter(asked(await place.pod("p"), "plain"))
    assert result.node_names == ("plain",)


async def test_prioritize_rates_every_host_and_the_better_one_higher(place: Place) -> None:
    """A host without an entry would lose every tie."""
    extender = await place.start()
    for name, free in {"a": (8, 8), "b": (6, 8), "c": (8, 7)}.items():
        await place.node(name, *free)
    pod = await place.pod("p")
    names = ("c", "a", "b")
    extender.verbs.filter(asked(pod, *names))
    found = {verb.host: verb.score for verb in extender.verbs.prioritize(asked(pod, *names))}
    assert list(found) == list(names)
    assert all(0 <= score <= 10 for score in found.values())
    # The zone of b is filled exactly; the others would be left with odd ends.
    assert found["b"] == 10
    assert max(found["a"], found["c"]) < 10


@given(st.lists(st.integers(-1, 100), min_size=1, max_size=50))
def test_the_scale_keeps_the_order_and_never_leaves_its_range(scores: list[int]) -> None:
    """The best gets ten, nodes without a score get nothing."""
    scaled = on_scale(np.array(scores, dtype=np.int64)).tolist()
    assert all(0 <= one <= 10 for one in scaled)
    best = max(scores)
    for score, points in zip(scores, scaled, strict=True):
        assert points == (0 if score < 0 else points)
        assert (points == 10) or score < best or best < 0
        for other, others in zip(scores, scaled, strict=True):
            assert not (score > other) or points >= others


async def test_two_pods_that_saw_the_same_zone_never_both_get_it(place: Place) -> None:
    """The second bind is refused, and nothing is left of it."""
    extender = await place.start()
    await place.node("n", 8)
    first, second = await place.pod("first"), await place.pod("second")
    for pod in (first, second):
        assert extender.verbs.prioritize(asked(pod, "n"))
    answers = await asyncio.gather(
        extender.verbs.bind(binding(first, "n")), extender.verbs.bind(binding(second, "n"))
    )
    assert answers[0].error == ""
    assert answers[1].error == f"{MARK}all zones together lack cpu for pod"
    assert [await place.on("first"), await place.on("second")] == ["n", ""]
    third = await place.pod("third", "2")
    assert not (await extender.verbs.bind(binding(third, "n"))).error


async def test_a_pod_on_its_way_is_heeded_before_it_is_bound(place: Place) -> None:
    """With a single node left, kube-scheduler can only have taken that one."""
    extender = await place.start(hold_seconds=30.0)
    await place.node("n", 8)
    first, second = await place.pod("first"), await place.pod("second")
    assert extender.verbs.filter(asked(first, "n")).node_names == ("n",)
    refused = extender.verbs.filter(asked(second, "n"))
    assert refused.node_names == ()
    assert list(refused.failed_nodes) == ["n"]
    # The first is tried again and has not been bound: it does not stand in its own way.
    assert extender.verbs.filter(asked(first, "n")).node_names == ("n",)


async def test_an_abandoned_attempt_frees_its_hold(place: Place) -> None:
    """And the pod that was refused for it is woken."""
    extender = await place.start(hold_seconds=0.3)
    await place.node("n", 8)
    first, second = await place.pod("first"), await place.pod("second")
    extender.verbs.filter(asked(first, "n"))
    assert extender.verbs.filter(asked(second, "n")).node_names == ()
    await place.seen(lambda one: _woken(one, "second"))
    assert extender.verbs.filter(asked(second, "n")).node_names == ("n",)
    assert first.metadata.name


async def test_a_likely_hold_never_leaves_a_pod_without_a_node(place: Place) -> None:
    """Where the other pod goes is a guess as long as it has a choice."""
    extender = await place.start(hold_seconds=30.0)
    await place.node("tight", 6)
    await place.node("wide", 8)
    first, second = await place.pod("first"), await place.pod("second")
    extender.verbs.filter(asked(first, "tight", "wide"))
    extender.verbs.prioritize(asked(first, "tight", "wide"))
    assert extender.verbs.filter(asked(second, "tight", "wide")).node_names == ("wide",)
    assert extender.verbs.filter(asked(second, "tight")).node_names == ("tight",)


async def test_binding_twice_is_binding_once(place: Place) -> None:
    """kube-scheduler may have given up on the first call."""
    extender = await place.start()
    await place.node("n", 8)
    await place.node("other", 8)
    pod = await place.pod("p")
    answers = await asyncio.gather(*(extender.verbs.bind(binding(pod, "n")) for _ in range(3)))
    assert [answer.error for answer in answers] == ["", "", ""]
    assert not (await extender.verbs.bind(binding(pod, "n"))).error
    await place.seen(lambda one: one.mirror.pods.store and _bound(one, pod))
    assert "already" in (await extender.verbs.bind(binding(pod, "other"))).error


async def test_a_bind_that_cannot_be_leaves_nothing_behind(place: Place) -> None:
    """Gone pods, replaced pods and unknown nodes are told, and hold no room."""
    extender = await place.start()
    await place.node("n", 8)
    pod = await place.pod("p")
    assert "not known" in (await extender.verbs.bind(binding(pod, "ghost"))).error
    await place.client.delete(PODS, "p", namespace="default", grace_seconds=0)
    assert (await extender.verbs.bind(binding(pod, "n"))).error
    again = await place.pod("p")
    assert "another has its name" in (await extender.verbs.bind(binding(pod, "n"))).error
    assert not (await extender.verbs.bind(binding(again, "n"))).error


async def test_pods_of_others_take_their_zones(place: Place) -> None:
    """No matter who bound them, and though they never came to us."""
    extender = await place.start()
    await place.node("n", 8)
    await place.pod("foreign", nodeName="n", schedulerName="somebody-else")
    pod = await place.pod("p")
    assert extender.verbs.filter(asked(pod, "n")).node_names == ()


async def test_a_change_of_a_report_wakes_exactly_the_pods_that_fit(place: Place) -> None:
    """kube-scheduler would not look at them for five minutes."""
    extender = await place.start()
    await place.node("n", 2, 2)
    small, large = await place.pod("small", "5"), await place.pod("large", "7")
    for pod in (small, large):
        assert extender.verbs.filter(asked(pod, "n")).node_names == ()
    await place.report("n", 6, 2)
    await place.seen(lambda one: _woken(one, "small"))
    assert not _woken(extender, "large")
    assert extender.metrics.woken._value.get() == 1


async def test_refused_pods_are_known_again_after_a_restart(place: Place) -> None:
    """From what kube-scheduler wrote on them; and of two replicas one wakes each pod."""
    await place.node("n", 2, 2)
    pod = await place.pod("p", "5")
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": f"0/1 nodes are available: 1 {TOO_FULL}.",
    }
    patch = strategic_patch({"status": {"conditions": [condition]}})
    await place.client.patch(PODS, "p", patch, namespace="default", subresource="status")
    first, second = await place.start(), await place.start()
    await place.report("n", 6, 2)
    await place.seen(lambda one: _woken(one, "p"))
    counts = [process.metrics.woken._value for process in (first, second)]
    await until(lambda: sum(count.get() for count in counts) == 1)
    assert pod.metadata.name == "p"


async def test_preemption_keeps_victims_that_make_room(place: Place) -> None:
    """And drops nodes on which nothing helps, or that we do not know."""
    extender = await place.start()
    await place.node("helps", 8)
    await place.node("small", 4)
    victims = {}
    for node in ("helps", "small"):
        victim = await place.pod(f"low-{node}", "3")
        assert not (await extender.verbs.bind(binding(victim, node))).error
        victims[node] = [victim.metadata.uid]
    vip = await place.pod("vip", "7", priorityClassName="high")
    found = extender.verbs.preempt(_preempt(vip, {**victims, "ghost": ["nobody"]}))
    assert found.node_name_to_meta_victims == {
        "helps": MetaVictims(pods=(MetaPod(uid=victims["helps"][0]),))
    }


async def test_preemption_adds_victims_until_one_zone_is_clear(place: Place) -> None:
    """kube-scheduler counts the node as a whole and would evict one of two in vain."""
    extender = await place.start()
    await place.node("n", 8)
    lows = [await place.pod(f"low{number}", "3") for number in range(2)]
    for low in lows:
        assert not (await extender.verbs.bind(binding(low, "n"))).error
    vip = await place.pod("vip", "8", priorityClassName="high")
    found = extender.verbs.preempt(_preempt(vip, {"n": [lows[0].metadata.uid]}))
    chosen = found.node_name_to_meta_victims["n"]
    assert {pod.uid for pod in chosen.pods or ()} == {low.metadata.uid for low in lows}


async def test_nobody_else_is_evicted_while_room_is_being_made(place: Place) -> None:
    """kube-scheduler may see victims gone before we do, and must not look for others then."""
    extender = await place.start()
    victims = {}
    for node in ("n", "other"):
        await place.node(node, 8)
        low = await place.pod(f"low-{node}", "5")
        assert not (await extender.verbs.bind(binding(low, node))).error
        victims[node] = [low.metadata.uid]
    await place.pod("vip", "7", priorityClassName="high")
    patch = strategic_patch({"status": {"nominatedNodeName": "n"}})
    before = await place.client.get(PODS, "vip", namespace="default")
    found = extender.verbs.preempt(_preempt(before, victims))
    assert set(found.node_name_to_meta_victims) == {"n", "other"}
    vip = await place.client.patch(PODS, "vip", patch, namespace="default", subresource="status")
    again = extender.verbs.preempt(_preempt(vip, {"other": victims["other"]}))
    assert again.node_name_to_meta_victims == {}
    # Another pod has taken the room: now others may go.
    taken = await place.pod("taken", "3", priorityClassName="high")
    assert not (await extender.verbs.bind(binding(taken, "n"))).error
    again = extender.verbs.preempt(_preempt(vip, {"other": victims["other"]}))
    assert set(again.node_name_to_meta_victims) == {"other"}


async def test_a_victim_that_leaves_tells_of_room_that_is_being_made(place: Place) -> None:
    """Also while kube-scheduler does not know of its own nomination, and others have yet to go."""
    extender = await place.start()
    victims: dict[str, list[str]] = {}
    for node in ("n", "other"):
        await place.node(node, 8)
        for number in range(2):
            low = await place.pod(f"low{number}-{node}", "3", terminationGracePeriodSeconds=300)
            assert not (await extender.verbs.bind(binding(low, node))).error
            victims.setdefault(node, []).append(low.metadata.uid)
    vip = await place.pod("vip", "7", priorityClassName="high")
    for _ in range(2):  # Nobody has been evicted yet.
        found = extender.verbs.preempt(_preempt(vip, victims))
        assert set(found.node_name_to_meta_victims) == {"n", "other"}
    await place.client.delete(PODS, "low0-n", namespace="default")
    rest = _preempt(vip, {"other": victims["other"]})
    await place.seen(lambda one: not one.verbs.preempt(rest).node_name_to_meta_victims)


async def test_room_for_a_pod_that_we_have_yet_to_hear_of_is_made_once(place: Place) -> None:
    """kube-scheduler may know a pod, and have evicted others for it, before we are told of it."""
    extender = await place.start()
    victims = {}
    for node in ("n", "other"):
        await place.node(node, 8)
        low = await place.pod(f"low-{node}", "5")
        assert not (await extender.verbs.bind(binding(low, node))).error
        victims[node] = [low.metadata.uid]
    like = await place.pod("like", "7", priorityClassName="high")
    unseen = _renamed(like, "vip")
    found = extender.verbs.preempt(_preempt(unseen, victims))
    assert set(found.node_name_to_meta_victims) == {"n", "other"}
    await place.client.delete(PODS, "low-n", namespace="default", grace_seconds=0)
    await place.seen(lambda one: one.mirror.cluster.pod(victims["n"][0]) is None)
    again = extender.verbs.preempt(_preempt(unseen, {"other": victims["other"]}))
    assert again.node_name_to_meta_victims == {}


def test_room_is_remembered_for_the_latest_pods_alone() -> None:
    """Whoever may call the extender cannot fill its memory with pods that do not exist."""
    rooms = Rooms()
    for number in range(1500):
        pod = PodInfo(_renamed(Pod(), f"p{number}"))
        rooms.note(pod, {"n": MetaVictims(pods=(MetaPod(uid="low"),))}, now=0.0)
    assert len(rooms) == 1000


async def test_room_that_is_being_made_is_kept_for_whom_it_is_made(place: Place) -> None:
    """A pod of no higher priority must not slip in."""
    extender = await place.start()
    await place.node("n", 8)
    vip = await place.pod("vip", "7", priorityClassName="high")
    patch = strategic_patch({"status": {"nominatedNodeName": "n"}})
    await place.client.patch(PODS, "vip", patch, namespace="default", subresource="status")
    other = await place.pod("other", "4")
    await place.seen(lambda one: not one.verbs.filter(asked(other, "n")).node_names)
    assert extender.verbs.filter(asked(vip, "n")).node_names == ("n",)


def _preempt(pod: Pod, victims: Mapping[str, Sequence[str]]) -> PreemptionArgs:
    return PreemptionArgs(
        pod=pod,
        node_name_to_meta_victims={
            node: MetaVictims(pods=tuple(MetaPod(uid=uid) for uid in uids))
            for node, uids in victims.items()
        },
    )


def _renamed(pod: Pod, name: str) -> Pod:
    metadata = msgspec.structs.replace(pod.metadata, name=name, uid=f"uid-of-{name}")
    return msgspec.structs.replace(pod, metadata=metadata)


def _bound(process: object, pod: Pod) -> bool:
    store = process.mirror.pods.store  # type: ignore[attr-defined]
    return any(one.metadata.uid == pod.metadata.uid and one.spec.node_name for one in store)


def _woken(process: object, name: str) -> bool:
    store = process.mirror.pods.store  # type: ignore[attr-defined]
    return any(
        one.metadata.name == name and "numakube.dev/woken" in one.metadata.annotations
        for one in store
    )


pytestmark = pytest.mark.timeout(60)
