"""What events are called in logs and queues, and which objects they are about."""

from __future__ import annotations

import pytest
from tests.scheduling.conftest import pod_of

from numakube.scheduling.framework.cluster_events import ClusterEvent, EventKind

POD = pod_of("p")


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (ClusterEvent(kind=EventKind.NODE_ADDED), "node-added"),
        (ClusterEvent(kind=EventKind.NODE_ADDED, node="n"), "node-added on n"),
        (ClusterEvent(kind=EventKind.POD_DELETED, pod=POD), "pod-deleted of default/p"),
        (ClusterEvent(kind=EventKind.CLAIM_CHANGED, claim="a/b"), "claim-changed of a/b"),
        (
            ClusterEvent(kind=EventKind.POD_GROUP_CHANGED, pod_group=("api", "ns", "g")),
            "pod-group-changed of ns/g",
        ),
        (
            ClusterEvent(kind=EventKind.POD_ADDED | EventKind.POD_UPDATED, pod=POD, node="n"),
            "pod-added|pod-updated of default/p on n",
        ),
    ],
)
def test_an_event_tells_what_happened_to_whom_and_where(event: ClusterEvent, text: str) -> None:
    """As far as that is known."""
    assert str(event) == text


def test_every_kind_is_one_of_all() -> None:
    """Plugins that cannot tell listen to all of them."""
    assert all(kind in EventKind.every() for kind in EventKind)
    assert sorted(EventKind.every().names()) == sorted(
        kind.name.lower().replace("_", "-") for kind in EventKind if kind.name
    )
    assert EventKind(0).names() == []
