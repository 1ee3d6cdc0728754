"""What makes a kubelet that rejected a pod worth another try."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.scheduling.numa.caches.reported_node import ReportedNode, machine, pod

from numakube.topology.report_changes import configuration_of, may_take_more
from numakube.topology.topology_view import NodeTopology, view_of


def seen(site: ReportedNode) -> NodeTopology:
    """Return what the node's report says now."""
    view = view_of(site.report())
    assert isinstance(view, NodeTopology)
    return view


@pytest.mark.parametrize("exact", [True, False])
def test_a_pod_that_left_makes_room(*, exact: bool) -> None:
    """With exact data or by the amounts alone; a pod that came makes none."""
    site = ReportedNode.make(on=machine(), exact=exact)
    empty = seen(site)
    site.admit(pod("one"))
    full = seen(site)
    assert may_take_more(full, empty)
    assert not may_take_more(empty, full)
    assert not may_take_more(full, seen(site))


def test_a_pod_that_left_counts_though_the_amounts_are_the_same() -> None:
    """Another came that holds as much of other CPUs; only exact data can tell."""
    site = ReportedNode.make(on=machine())
    site.admit(pod("one"))
    before = seen(site)
    site.remove("one")
    site.admit(pod("other"))
    after = seen(site)
    assert [zone.available for zone in before.zones] == [zone.available for zone in after.zones]
    assert may_take_more(before, after)
    bare_before, bare_after = (replace(one, report=None) for one in (before, after))
    assert not may_take_more(bare_before, bare_after)
    assert may_take_more(bare_before, after)
    assert may_take_more(before, bare_after)


def test_another_configuration_is_worth_a_try() -> None:
    """As is the first report of a node; no report is not."""
    view = seen(ReportedNode.make(on=machine()))
    assert may_take_more(None, view)
    assert not may_take_more(view, None)
    assert not may_take_more(None, None)
    assert not may_take_more(view, view)
    assert may_take_more(view, replace(view, max_numa_nodes=16))
    assert configuration_of(view) != configuration_of(None)
