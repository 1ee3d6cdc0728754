"""An engine that is filled with facts believes of nodes what a scheduler would."""

from __future__ import annotations

import msgspec
import pytest
from tests.scheduling.numa.caches.reported_node import ReportedNode, pod, taken

from numakube.api.codec import convert
from numakube.api.nodes import Node
from numakube.api.pod import Pod
from numakube.insight.facts import ClusterFacts
from numakube.insight.list_reading import Unreadable
from numakube.insight.scheduler_engine import engine_of
from numakube.testing import bound
from numakube.topology import nrt_names

NODE = convert(Node, {"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "14"}}})
EXPORTER = "exporter-x7k2p"


def started(name: str, at: str = "00:00:00", *, cpus: float = 2) -> Pod:
    """Return a pod that runs since that time of day."""
    one = taken(bound(pod(name, cpus=cpus, guaranteed=cpus > 1), "n1"))
    assert one.status is not None
    status = msgspec.structs.replace(one.status, start_time=f"2026-01-01T{at}Z")
    return msgspec.structs.replace(one, status=status)


@pytest.mark.parametrize(
    ("pods", "unreadable", "free"),
    [
        pytest.param([started("a"), started(EXPORTER, cpus=0.1)], "", 3000, id="at work"),
        pytest.param(
            [started("a"), started("exporter-abcde", "00:09:50", cpus=0.1)], "", 3000, id="replaced"
        ),
        pytest.param([started("a")], "", 5000, id="gone"),
        pytest.param([], "pods", 3000, id="pods unknown"),
    ],
)
def test_pods_that_are_gone_hold_nothing_only_if_the_exporter_is_gone_too(
    pods: list[Pod], unreadable: str, free: int
) -> None:
    """An exporter that was replaced a moment ago, or that nobody may look for, is at work."""
    site = ReportedNode.make()
    assert all(site.admit(started(name)) for name in "ab")
    facts = ClusterFacts(
        taken_at="2026-01-01T00:10:00Z",
        nodes={"n1": NODE},
        pods=tuple(pods),
        topologies={"n1": site.report(**{nrt_names.EXPORTER: f"default/{EXPORTER}"})},
        unreadable=(Unreadable(unreadable, "forbidden"),) if unreadable else (),
    )
    belief = engine_of(facts).cache.belief("n1")
    assert belief is not None
    assert belief.available[0]["cpu"] == free
