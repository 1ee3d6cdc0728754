"""What is believed of pods whose end nobody has told of, where only surprises are reported."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.scheduling.numa.caches.reported_node import (
    ReportedNode,
    ended,
    machine,
    of_surprises,
    pod,
    taken,
)

from numakube.api.codec import convert
from numakube.api.pod import Pod
from numakube.scheduling.numa.caches.model_belief import (
    ExactBelief,
    ModelShelf,
    asks_the_same,
    rejection_of,
)
from numakube.scheduling.numa.caches.predict import Predict
from numakube.scheduling.numa.caches.since_report import DOUBT_SECONDS
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing import bound
from numakube.topology.exact_report import Holding
from numakube.topology.nrt_names import FORESEEN


@pytest.fixture
def site() -> ReportedNode:
    """A node with one zone of 8 CPUs and 16 GiB; CPU 0 and 1 GiB are reserved."""
    return ReportedNode.make(on=machine(zones=1, gpus=0))


def see(cache: Predict, *pods: Pod) -> None:
    """Let *cache* see versions of pods."""
    for one in pods:
        cache.pod_seen(PodInfo(one))


def free(cache: Predict) -> object:
    """What *cache* believes to be free."""
    belief = cache.belief("n1")
    assert isinstance(belief, ExactBelief)
    return belief.available


def test_memory_is_counted_without_a_pod_that_is_proved_gone_by_one_that_came_later(
    site: ReportedNode,
) -> None:
    """The first pod that came does not fit beside it, and only the second one has its CPUs."""
    stays = bound(pod("stays", memory_gib=6), "n1")
    site.admit(pod("gone", memory_gib=6))
    site.admit(stays)
    report = of_surprises(site.report())
    site.remove("gone")
    first = site.admit_as_foreseen(bound(pod("first", cpus=0.5, memory_gib=5), "n1"))
    second = site.admit_as_foreseen(bound(pod("second", memory_gib=1), "n1"))
    cache = Predict()
    cache.set_report(report)
    see(cache, taken(stays), taken(first), taken(second))
    assert free(cache) == site.free


def test_memory_of_a_pod_that_ended_after_others_came_can_be_had_by_the_next(
    site: ReportedNode,
) -> None:
    """Also if there are pods of which nobody knows whether they have left."""
    leaves, stays = (bound(pod(uid, memory_gib=6), "n1") for uid in ("leaves", "stays"))
    unforeseen = bound(pod("unforeseen", guaranteed=False), "n1")
    site.admit(pod("unknown", guaranteed=False))
    site.admit(leaves)
    site.admit(stays)
    cache = Predict()
    cache.set_report(of_surprises(site.report()))
    site.admit(unforeseen)
    site.remove("leaves")
    see(cache, taken(leaves), taken(stays), taken(unforeseen), ended(leaves))
    came = site.admit_as_foreseen(bound(pod("came", cpus=0.5, memory_gib=5), "n1"))
    see(cache, came, taken(came))
    assert free(cache) == site.free


def test_a_reported_pod_that_is_seen_at_last_is_there(site: ReportedNode) -> None:
    """Another pod, whose end is not known yet, was foreseen in its place."""
    cache = Predict()
    cache.set_report(of_surprises(site.report()))
    before = site.admit_as_foreseen(bound(pod("before", memory_gib=1), "n1"))
    see(cache, before, taken(before))
    site.remove("before")
    reported = bound(pod("reported", memory_gib=5), "n1")
    site.admit(reported)
    true = site.free
    cache.set_report(of_surprises(site.report()))
    see(cache, taken(reported))
    site.admit(before)
    assert free(cache) == site.free
    see(cache, ended(before))
    assert free(cache) == true


def test_a_binding_tells_what_was_foreseen_for_its_pod(site: ReportedNode) -> None:
    """Where the exporter reports surprises only; nothing of pods that do not come."""
    cache = Predict()
    for report, tells in ((site.report(), False), (of_surprises(site.report()), True)):
        cache.set_report(report)
        cache.reserve(PodInfo(pod("comes")), "n1")
        belief = cache.belief("n1")
        assert isinstance(belief, ExactBelief)
        assert (FORESEEN in belief.annotations_for("comes")) is tells
        assert belief.annotations_for("elsewhere") == {}
        if tells:
            admitted = site.admit_as_foreseen(pod("comes"))
            assert belief.annotations_for("comes") == admitted.metadata.annotations


def test_a_place_that_the_model_doubts_is_believed_after_a_while() -> None:
    """However often it is looked meanwhile: by then the exporter would have contradicted."""
    site, cache = ReportedNode.make(on=machine(gpus=0)), Predict()
    first = site.admit_as_foreseen(bound(pod("first", cpus=6), "n1"))
    cache.set_report(of_surprises(site.report()))
    second = site.admit_as_foreseen(bound(pod("second", cpus=6), "n1"))
    see(cache, taken(first), second, ended(first), taken(second))
    site.remove("first")
    assert free(cache) != site.free
    for now in range(int(DOUBT_SECONDS)):
        cache.resync(float(now))
        assert free(cache) != site.free
    assert cache.resync(DOUBT_SECONDS)
    assert free(cache) == site.free


def test_the_models_that_were_asked_last_are_kept() -> None:
    """One that is asked again stays longer than those that were not."""
    beliefs = {}
    for name in ("n1", "n2", "n3"):
        cache = Predict()
        cache.set_report(ReportedNode.make(name, on=machine(zones=1, gpus=0)).report())
        belief = cache.belief(name)
        assert isinstance(belief, ExactBelief)
        assert belief.model() is not None
        assert belief.has_model
        beliefs[name] = belief
    shelf = ModelShelf(size=2)
    for name in ("n1", "n2", "n1", "n3"):
        shelf.keep(beliefs[name])
    assert {name for name, one in beliefs.items() if one.has_model} == {"n1", "n3"}


CONTAINER = {"name": "c", "resources": {"requests": {"cpu": "2"}}}
LARGER = {"name": "c", "resources": {"requests": {"cpu": "3"}}}


@pytest.mark.parametrize(
    ("changed", "same"),
    [
        ({}, True),
        ({"priority": 9}, True),
        ({"containers": [LARGER]}, False),
        ({"containers": [CONTAINER, LARGER]}, False),
        ({"initContainers": [CONTAINER]}, False),
        ({"resources": {"requests": {"cpu": "4"}}}, False),
    ],
)
def test_two_versions_of_a_pod_ask_the_kubelet_for_what_their_containers_and_the_pod_ask_for(
    changed: dict[str, Any], same: bool
) -> None:
    spec: dict[str, Any] = {"containers": [CONTAINER]}
    one, other = (
        PodInfo(convert(Pod, {"metadata": {"name": "p", "uid": "p"}, "spec": tree}))
        for tree in (spec, {**spec, **changed})
    )
    assert asks_the_same(one, other) is same


SIZES = ((1, 0), (2, 0), (3, 1), (6, 0), (7, 1), (9, 0))
COMERS = [PodInfo(pod(f"p{at}", cpus=cpus, gpus=gpus)) for at, (cpus, gpus) in enumerate(SIZES)]
ACTS = st.tuples(
    st.sampled_from(("reserve", "reserve", "postpone", "resume", "seen", "unreserve")),
    st.sampled_from(COMERS),
)


def told(belief: ExactBelief) -> list[object]:
    """Return all that a belief says."""
    places = [belief.places_of(one.uid) for one in (*COMERS, *COMERS)]
    refusals = [rejection_of(belief, one.uid) for one in COMERS]
    asked = [belief.outcome_of(PodInfo(pod("probe", cpus=cpus, gpus=gpus))) for cpus, gpus in SIZES]
    return [belief.available, belief.foreseen, places, refusals, asked]


@settings(max_examples=60)
@given(st.lists(ACTS, max_size=12), st.sets(st.sampled_from(COMERS), max_size=2), st.booleans())
def test_what_follows_from_a_belief_is_what_is_worked_out_anew(
    acts: list[tuple[str, PodInfo]], gone: set[PodInfo], drops: bool
) -> None:
    """After one more pod, and without some, also when the model was given up meanwhile."""
    site, cache = ReportedNode.make(on=machine(gpus=1)), Predict()
    site.admit(pod("stays", cpus=2, gpus=1))
    site.admit(pod("leaves", cpus=3))
    cache.set_report(site.report())
    for act, one in acts:
        if act == "reserve":
            cache.reserve(one, "n1")
        elif act == "postpone":
            cache.postpone(one.uid, "n1")
        elif act == "resume":
            cache.resume(one.uid, "n1")
        elif act == "unreserve":
            cache.unreserve(one.uid, "n1")
        else:
            cache.pod_seen(PodInfo(bound(one.pod, "n1")))
    belief = cache.belief("n1")
    assert isinstance(belief, ExactBelief)
    probe = PodInfo(pod("one more", cpus=3))
    after, without = (
        belief.followed_by(probe),
        belief.without({one.uid for one in gone} | {"leaves"}),
    )
    assert after is not None
    assert belief.followed_by(probe) is after
    if drops:
        belief.drop_model()
        after.drop_model()
    for derived in (belief, after, without):
        assert told(derived) == told(ExactBelief(derived.basis, shelf=ModelShelf()))
    incoming = {one.uid for one in without.basis.incoming}
    assert incoming == {one.uid for one in belief.basis.incoming} - {one.uid for one in gone}
    assert {one.uid for one in after.basis.incoming} == {
        "one more", *(one.uid for one in belief.basis.incoming)
    }  # fmt: skip


def test_a_report_of_which_no_model_can_be_made_foresees_nothing() -> None:
    """Whoever waits, and whoever asks."""
    site, cache = ReportedNode.make(on=machine(gpus=1)), Predict()
    cache.set_report(site.report())
    cache.reserve(COMERS[3], "n1")
    cache.postpone(COMERS[3].uid, "n1")
    belief = cache.belief("n1")
    assert isinstance(belief, ExactBelief)
    basis = belief.basis
    wrong = replace(
        basis.exact, kubernetes="0.1", settings=replace(basis.exact.settings, topology_policy="odd")
    )
    for late in (0, 1):
        one = ExactBelief(replace(basis, exact=wrong, late=late), shelf=ModelShelf())
        assert one.model() is None
        assert one.outcome_of(COMERS[0]) is None
        assert one.followed_by(COMERS[0]) is None
        assert one.foreseen == {}
        assert one.available == tuple(zone.available for zone in one.topology.zones)
        assert one.without(["x"]).model() is None
        assert not one.holds(COMERS[3].uid, Holding())
