"""What a pod may take off each zone, where nobody tells which zone it is in."""

from __future__ import annotations

import pytest
from tests.scheduling.numa.caches.reported_node import ReportedNode

from numakube.scheduling.numa.caches.counts_belief import ZoneClaim, exclusive_requests, may_be_in
from numakube.scheduling.numa.caches.predict import Predict
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing import GPU, pod


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
    claim = ZoneClaim({"cpu": 10000}, ({"cpu": 7500}, {"cpu": 2500}), ())
    assert tuple(entry["cpu"] for entry in may_be_in(claim, belief.topology)) == most


@pytest.mark.parametrize(
    ("wanted", "guaranteed", "exclusive"),
    [
        ({"cpu": "2", "memory": "1Gi"}, True, {"cpu": 2000, "memory": 1 << 30}),
        ({"cpu": "2", "memory": "1Gi"}, False, {}),
        ({"cpu": "1500m", "memory": "1Gi"}, True, {"memory": 1 << 30}),
        (
            {"cpu": "2", "memory": "1Gi", "hugepages-2Mi": "0"},
            True,
            {"cpu": 2000, "memory": 1 << 30},
        ),
        ({"cpu": "2", "memory": "1Gi", GPU: "1"}, False, {GPU: 1}),
        ({"cpu": "2", "memory": "1Gi", "example.com/unknown": "1"}, False, {}),
        ({"cpu": "2", "memory": "1Gi", "ephemeral-storage": "1Gi"}, False, {}),
    ],
)
def test_a_container_asks_exclusively_for_whole_cpus_memory_and_known_devices(
    wanted: dict[str, str], guaranteed: bool, exclusive: dict[str, int]
) -> None:
    """CPUs and memory if the pod is guaranteed, and nothing of which it asks for none."""
    cache = Predict()
    cache.set_report(ReportedNode.make(exact=False).report())
    belief = cache.belief("n1")
    assert belief is not None
    assert belief.topology is not None
    more = {name: text for name, text in wanted.items() if name not in ("cpu", "memory")}
    one = pod("p", wanted["cpu"], wanted["memory"], also=more, guaranteed=guaranteed)
    found = exclusive_requests(PodInfo(one), belief.topology)
    assert found == ({"main": exclusive} if exclusive else {})
