"""What a tool that lists pods and reports knows of a node that reports only surprises."""

from __future__ import annotations

from tests.scheduling.numa.caches.reported_node import (
    ReportedNode,
    machine,
    of_surprises,
    pod,
    taken,
)

from numakube.topology.foreseen_holdings import current_view
from numakube.topology.topology_view import NodeTopology, view_of
from numakube.values.resources import CPU, MEMORY


def test_a_pod_that_has_the_memory_of_one_that_may_be_gone_counts() -> None:
    """Both do, but together they have no more than there is."""
    site = ReportedNode.make(on=machine(zones=1, gpus=0))
    site.admit(pod("gone", cpus=0.5, memory_gib=6))
    stays = pod("stays", memory_gib=6)
    site.admit(stays)
    view = view_of(of_surprises(site.report()))
    assert isinstance(view, NodeTopology)
    site.remove("gone")
    came = site.admit_as_foreseen(pod("came", memory_gib=5))
    (zone,) = current_view(view, [taken(stays), taken(came)]).zones
    (free,) = site.free
    assert zone.available == {CPU: free[CPU], MEMORY: 0}
