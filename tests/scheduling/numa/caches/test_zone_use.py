"""What a pod may take off each zone, where nobody tells which zone it is in."""

from __future__ import annotations

import pytest
from tests.scheduling.numa.caches.reported_node import ReportedNode

from numakube.scheduling.numa.caches.predict import Predict
from numakube.scheduling.numa.caches.zone_use import Claim, may_be_in


@pytest.mark.parametrize(("scope", "most"), [("container", (2500, 10000)), ("pod", (10000, 10000))])
def test_containers_go_to_zones_by_themselves_unless_the_pod_does(
    scope: str, most: tuple[int, ...]
) -> None:
    """The zones have 7 and 8 CPUs for pods; none has room for both containers."""
    cache = Predict()
    cache.set_report(ReportedNode.make(scope=scope, exact=False).report())
    belief = cache.belief("n1")
    assert belief is not None
    assert belief.topology is not None
    claim = Claim({"cpu": 10000}, ({"cpu": 7500}, {"cpu": 2500}), ())
    assert tuple(one["cpu"] for one in may_be_in(claim, belief.topology)) == most
