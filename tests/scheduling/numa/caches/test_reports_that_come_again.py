"""A report that was deleted and is written again is judged by what it says itself."""

from __future__ import annotations

import pytest
from tests.scheduling.numa.caches.reported_node import ReportedNode, pod, taken

from numakube.scheduling.numa.caches.overreserve import OverReserve
from numakube.scheduling.numa.caches.predict import Predict
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing import bound


@pytest.mark.parametrize("kind", [OverReserve, Predict])
@pytest.mark.parametrize("others", [False, True])
def test_a_node_whose_report_went_and_came_again_is_as_new(
    kind: type[OverReserve] | type[Predict], others: bool
) -> None:
    """That the first one had all pods says nothing of the next."""
    site = ReportedNode.make(exact=False)
    known = taken(bound(pod("known"), "n1"))
    assert site.admit(known)
    cache, fresh = kind(), kind()
    for one in (cache, fresh):
        one.pod_seen(PodInfo(known))
    cache.set_report(site.report())
    cache.remove_report("n1")
    assert cache.belief("n1") is None
    if others:
        assert site.admit(taken(bound(pod("of others"), "n1")))
    again = site.report()
    cache.set_report(again)
    fresh.set_report(again)
    ours, new = cache.belief("n1"), fresh.belief("n1")
    assert ours is not None
    assert new is not None
    assert ours.available == new.available
