"""What a cache rests on for a node, and trusting a report because somebody says so."""

from __future__ import annotations

import pytest
from tests.scheduling.numa.caches.reported_node import ReportedNode, ended, pod, taken

from numakube.scheduling.numa.caches.cache_contract import NumaCache
from numakube.scheduling.numa.caches.debug_view import examine, mode_of
from numakube.scheduling.numa.caches.overreserve import OverReserve, OverReserveOptions
from numakube.scheduling.numa.caches.passthrough import DiscardReserved, Passthrough
from numakube.scheduling.numa.caches.predict import Predict
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing import bound
from numakube.topology.exact_report import uid_hash


@pytest.mark.parametrize(
    ("cache", "mode"),
    [
        (Predict(), "predict"),
        (OverReserve(), "overreserve"),
        (DiscardReserved(), "discardreserved"),
        (Passthrough(), "passthrough"),
    ],
)
def test_caches_are_called_as_in_configurations(cache: NumaCache, mode: str) -> None:
    """By the mode that made them."""
    assert mode_of(cache) == mode


def test_pods_on_one_side_only_are_found() -> None:
    """Those that the report lacks, and those that nobody knows."""
    site, cache = ReportedNode.make(), Predict()
    seen = taken(bound(pod("seen"), "n1"))
    site.admit(seen)
    site.admit(pod("hidden"))
    cache.set_report(site.report())
    late = bound(pod("late"), "n1")
    for one in (seen, late):
        cache.pod_seen(PodInfo(one))
    belief = cache.belief("n1")
    assert belief is not None
    found = examine(belief, [PodInfo(seen), PodInfo(late)])
    assert [one.name for one in found.only_here] == ["late"]
    assert found.only_reported == (uid_hash("hidden"),)
    assert list(found.held) == ["late"]
    prints = found.fingerprints
    assert prints.reported is not None
    assert not prints.matched
    assert prints.computed != prints.reported


def test_a_report_of_the_known_pods_matches() -> None:
    """Both fingerprints are the same text."""
    site, cache = ReportedNode.make(), Predict()
    seen = taken(bound(pod("seen"), "n1"))
    site.admit(seen)
    cache.set_report(site.report())
    cache.pod_seen(PodInfo(seen))
    belief = cache.belief("n1")
    assert belief is not None
    found = examine(belief, [PodInfo(seen)])
    assert found.fingerprints.matched
    assert found.fingerprints.computed == found.fingerprints.reported
    assert (found.only_here, found.only_reported, dict(found.held)) == ((), (), {})


def test_a_pod_that_its_kubelet_has_not_taken_yet_is_not_expected_in_a_fingerprint() -> None:
    """Nor one that has ended."""
    site, cache = ReportedNode.make(), Predict()
    seen = taken(bound(pod("seen"), "n1"))
    site.admit(seen)
    cache.set_report(site.report())
    belief = cache.belief("n1")
    assert belief is not None
    others = [bound(pod("coming"), "n1"), ended(bound(pod("done"), "n1"))]
    found = examine(belief, [PodInfo(seen), *map(PodInfo, others)])
    assert found.fingerprints.computed == found.fingerprints.reported


def test_counts_show_what_they_charge() -> None:
    """In every zone where the pod may be."""
    cache = Predict()
    cache.set_report(ReportedNode.make(exact=False).report())
    cache.reserve(PodInfo(pod("a", cpus=2)), "n1")
    belief = cache.belief("n1")
    assert belief is not None
    held = examine(belief, []).held["a"]
    assert isinstance(held, dict)
    assert set(held) == {(0,), (1,)}


def test_trust_ends_the_doubts_that_a_foreign_pod_raised() -> None:
    """The node is free again at once; pods on their way stay booked."""
    site = ReportedNode.make(exact=False)
    cache = OverReserve(OverReserveOptions(profiles=frozenset({"ours"})))
    foreign = taken(bound(pod("foreign", scheduler="another"), "n1"))
    site.admit(foreign)
    site.admit(pod("ghost"))  # so the fingerprint is of pods that nobody knows
    cache.set_report(site.report())
    cache.pod_seen(PodInfo(foreign))
    cache.reserve(PodInfo(pod("mine", scheduler="ours")), "n1")
    before = cache.belief("n1")
    assert before is not None
    assert before.blocked
    changes = cache.trust("n1")
    assert changes.freed == ("n1",)
    after = cache.belief("n1")
    assert after is not None
    assert not after.blocked
    assert list(examine(after, []).held) == ["mine"]


def test_trust_ends_the_booking_of_pods_that_run() -> None:
    """Of reports without names and fingerprints nobody knows which pods they contain."""
    site, cache = ReportedNode.make(exact=False, fingerprints=False), Predict()
    coming = bound(pod("running"), "n1")
    cache.pod_seen(PodInfo(coming))
    site.admit(coming)
    cache.set_report(site.report())
    cache.pod_seen(PodInfo(taken(coming)))
    before = cache.belief("n1")
    assert before is not None
    assert before.available != site.free
    assert cache.trust("n1").freed == ("n1",)
    after = cache.belief("n1")
    assert after is not None
    assert after.available == site.free


def test_trust_in_a_node_that_is_not_known_does_nothing() -> None:
    """Nor does it in caches without doubts."""
    for cache in (Predict(), OverReserve(), Passthrough(), DiscardReserved()):
        assert not cache.trust("nowhere")
    cache = Predict()
    cache.set_report(ReportedNode.make().report())
    assert not cache.trust("n1")
