"""One pod at a time: a node to which a pod is being bound takes no other."""

from __future__ import annotations

import pytest
from tests.scheduling.numa.caches.reported_node import ReportedNode, pod

from numakube.scheduling.numa.caches.passthrough import DiscardReserved, Passthrough
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing import bound


@pytest.fixture
def cache() -> DiscardReserved:
    """A cache with one node."""
    cache = DiscardReserved()
    cache.set_report(ReportedNode.make().report())
    return cache


def is_blocked(cache: DiscardReserved) -> bool:
    """Tell whether the node takes no pod."""
    belief = cache.belief("n1")
    assert belief is not None
    return bool(belief.blocked)


def test_a_reserved_node_is_blocked_until_the_pod_is_bound(cache: DiscardReserved) -> None:
    """And waiting pods are woken."""
    cache.reserve(PodInfo(pod("a")), "n1")
    assert is_blocked(cache)
    assert cache.bound("a", "n1").freed == ("n1",)
    assert not is_blocked(cache)


def test_a_failed_binding_frees_the_node(cache: DiscardReserved) -> None:
    """As a successful one does."""
    cache.reserve(PodInfo(pod("a")), "n1")
    cache.unreserve("a", "n1")
    assert not is_blocked(cache)


def test_two_pods_keep_the_node_until_both_are_bound(cache: DiscardReserved) -> None:
    """Two profiles may have one cache."""
    cache.reserve(PodInfo(pod("a")), "n1")
    cache.reserve(PodInfo(pod("b")), "n1")
    assert not cache.bound("a", "n1").freed
    assert is_blocked(cache)
    assert cache.bound("b", "n1").freed == ("n1",)


@pytest.mark.parametrize("how", ["seen", "gone"])
def test_a_reservation_whose_end_nobody_tells_does_not_last(
    cache: DiscardReserved, how: str
) -> None:
    """Upstream blocks the node for good."""
    cache.reserve(PodInfo(pod("a")), "n1")
    if how == "seen":
        cache.pod_seen(PodInfo(bound(pod("a"), "n2")))
    else:
        cache.pod_gone("a")
    assert not is_blocked(cache)


def test_a_report_does_not_free_a_reserved_node(cache: DiscardReserved) -> None:
    """The pod is still on its way."""
    cache.reserve(PodInfo(pod("a")), "n1")
    cache.set_report(ReportedNode.make().report())
    assert is_blocked(cache)


def test_passthrough_ignores_reservations_and_pods() -> None:
    """It believes reports and nothing else."""
    cache, site = Passthrough(), ReportedNode.make()
    cache.set_report(site.report())
    cache.reserve(PodInfo(pod("a")), "n1")
    cache.pod_seen(PodInfo(bound(pod("a"), "n1")))
    cache.pod_gone("a")
    cache.unreserve("a", "n1")
    cache.bound("a", "n1")
    cache.resync(1.0)
    belief = cache.belief("n1")
    assert belief is not None
    assert belief.available == site.free
    assert belief.nrt.zones[0].resources[0].available == "7"
