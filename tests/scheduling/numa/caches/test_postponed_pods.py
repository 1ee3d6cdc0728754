"""Pods that wait before they are bound: their kubelet meets those that come meanwhile first."""

from __future__ import annotations

import pytest
from tests.scheduling.numa.caches.reported_node import ReportedNode, machine, pod

from numakube.kubelet.admission_outcome import Admitted, Rejected
from numakube.scheduling.numa.caches.model_belief import ExactBelief, rejection_of
from numakube.scheduling.numa.caches.overreserve import OverReserve
from numakube.scheduling.numa.caches.passthrough import Passthrough
from numakube.scheduling.numa.caches.predict import Predict
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.scheduling.snapshot.zone_belief import (
    NOTHING,
    TAKES_A_PLACE,
    ChangeCause,
    KubeletRejection,
)
from numakube.testing import bound

WAITS = PodInfo(pod("waits", cpus=6, gpus=1))
"""Needs all but one CPU of the first zone, and the GPU that is left."""
OTHER = PodInfo(pod("other", cpus=6))
"""Gets the first zone if it comes first, and finds room in the second one if not."""


@pytest.fixture
def cache() -> Predict:
    """A node of two zones; the first has 7 CPUs and a GPU, the second 6 CPUs."""
    site, cache = ReportedNode.make(on=machine(gpus=1)), Predict()
    assert site.admit(pod("leaves", cpus=7))
    assert site.admit(pod("stays", cpus=2, gpus=1))
    site.remove("leaves")
    cache.set_report(site.report())
    return cache


def believed(cache: Predict) -> ExactBelief:
    """What *cache* believes of the node."""
    belief = cache.belief("n1")
    assert isinstance(belief, ExactBelief)
    return belief


def places(cache: Predict, uid: str) -> set[int]:
    """Where a pod is expected."""
    return set(believed(cache).places_of(uid))


def test_a_pod_that_waits_lets_others_come_before_it(cache: Predict) -> None:
    """Unless it would be refused then."""
    cache.reserve(WAITS, "n1")
    assert isinstance(believed(cache).outcome_of(OTHER), Admitted)
    cache.postpone("waits", "n1")
    assert believed(cache).outcome_of(OTHER) is TAKES_A_PLACE
    assert isinstance(believed(cache).outcome_of(PodInfo(pod("small", cpus=1))), Admitted)


def test_who_comes_while_a_pod_waits_is_expected_where_it_would_be_without(cache: Predict) -> None:
    """And the pod that waits where it fits then."""
    cache.reserve(PodInfo(pod("waits", cpus=2)), "n1")
    cache.postpone("waits", "n1")
    cache.reserve(PodInfo(pod("comes", cpus=6)), "n1")
    assert places(cache, "comes") == {0}
    assert places(cache, "waits") == {1}
    cache.pod_seen(PodInfo(bound(pod("comes", cpus=6), "n1")))
    assert places(cache, "comes") == {0}
    assert places(cache, "waits") == {1}


def test_a_pod_that_goes_on_comes_before_those_that_still_wait(cache: Predict) -> None:
    """Which of them do not fit any more is foreseen."""
    cache.reserve(OTHER, "n1")
    cache.postpone("other", "n1")
    cache.reserve(WAITS, "n1")
    cache.postpone("waits", "n1")
    assert places(cache, "waits") == {0}
    assert places(cache, "other") == {1}
    cache.resume("other", "n1")
    assert places(cache, "other") == {0}
    refusal = rejection_of(believed(cache), "waits")
    assert isinstance(refusal, KubeletRejection)
    assert refusal.reason == "TopologyAffinityError"
    assert rejection_of(believed(cache), "other") is None


def test_the_end_of_a_wait_makes_room_only_if_somebody_was_refused_for_it(cache: Predict) -> None:
    """Or the pods that wait for the node would be tried again for nothing, each time."""
    cache.reserve(WAITS, "n1")
    cache.postpone("waits", "n1")
    (change,) = cache.resume("waits", "n1").changes
    assert (change.cause, change.frees) == (ChangeCause.RESERVED, False)
    cache.postpone("waits", "n1")
    believed(cache).outcome_of(OTHER)
    (change,) = cache.resume("waits", "n1").changes
    assert change.frees
    assert isinstance(believed(cache).outcome_of(OTHER), Admitted)
    cache.postpone("waits", "n1")
    (change,) = cache.resume("waits", "n1").changes
    assert not change.frees


def test_what_if_a_pod_were_gone_is_answered_beside_those_that_wait(cache: Predict) -> None:
    """They come after whoever asks, and one that is itself gone keeps nobody out."""
    cache.reserve(WAITS, "n1")
    cache.postpone("waits", "n1")
    belief = believed(cache)
    assert isinstance(belief.without(["waits"]).outcome_of(OTHER), Admitted)
    # With the GPU of the second zone, the pod that waits has another place.
    assert isinstance(belief.without(["stays"]).outcome_of(OTHER), Admitted)
    assert belief.outcome_of(OTHER) is TAKES_A_PLACE


def test_pods_that_are_alike_need_not_fit_one_after_the_other(cache: Predict) -> None:
    """Whichever of them waits, as many of them fit."""
    alike = [PodInfo(pod(f"alike-{number}", cpus=3)) for number in range(5)]
    for one in alike[:4]:
        assert isinstance(believed(cache).outcome_of(one), Admitted)
        cache.reserve(one, "n1")
        cache.postpone(one.uid, "n1")
    assert isinstance(believed(cache).outcome_of(alike[4]), Rejected)
    cache.unreserve("alike-0", "n1")
    assert isinstance(believed(cache).outcome_of(alike[4]), Admitted)


def test_a_pod_that_gets_nothing_of_its_own_may_come_at_any_time(cache: Predict) -> None:
    """So its wait changes nothing, and is not worth the work."""
    cache.reserve(PodInfo(pod("shares", guaranteed=False)), "n1")
    assert cache.postpone("shares", "n1") == NOTHING
    assert cache.resume("shares", "n1") == NOTHING
    cache.reserve(OTHER, "n1")
    assert places(cache, "other") == {0}


def test_only_a_pod_that_is_reserved_for_waits(cache: Predict) -> None:
    """One that was bound meanwhile, perhaps by another scheduler, is where it is."""
    assert cache.postpone("unknown", "n1") == NOTHING
    cache.pod_seen(PodInfo(bound(pod("waits", cpus=6, gpus=1), "n1")))
    assert cache.postpone("waits", "n1") == NOTHING
    assert cache.resume("waits", "n1") == NOTHING
    cache.reserve(OTHER, "n1")
    assert cache.postpone("other", "n2") == NOTHING


@pytest.mark.parametrize("other", [Passthrough, OverReserve])
def test_caches_that_count_alone_do_not_care_who_comes_first(
    other: type[Passthrough | OverReserve],
) -> None:
    """What they take off the zones is the same."""
    one = other()
    one.set_report(ReportedNode.make(exact=False).report())
    one.reserve(WAITS, "n1")
    before = one.belief("n1")
    assert one.postpone("waits", "n1") == NOTHING
    assert one.resume("waits", "n1") == NOTHING
    assert one.belief("n1") is before
