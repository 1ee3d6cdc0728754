"""How many nodes a scheduler knows the zones of, and how well.

Every node is counted once, under the first of the states that is true of it: that of the most
trouble. Counting happens when the figures are read.
"""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.scheduling.snapshot.cluster import Cluster
    from numakube.scheduling.snapshot.zone_belief import NumaBelief

LABELS: Final = ("state",)


class NodeZonesState(StrEnum):
    """What is known of the zones of a node."""

    UNKNOWN = "unknown"
    """There is no report, or none that can be used."""
    BLOCKED = "blocked"
    """The cache lets no pod on it until a report settles its doubts."""
    STALE = "stale"
    """The report says itself that it is old."""
    ORPHANED = "orphaned"
    """The exporter that wrote the report is gone; what has happened since is reckoned."""
    COUNTS = "counts"
    """Amounts by zone."""
    EXACT = "exact"
    """The state of the kubelet in full."""


class NodeStates(Collector):
    """Shows the nodes of one cache by state."""

    def __init__(self) -> None:
        self.cluster: Cluster | None = None

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Return one figure for every state."""
        family = GaugeMetricFamily(
            "numakube_cache_nodes",
            "Nodes by what is known of their zones: unknown, blocked, stale, orphaned, counts or "
            "exact.",
            labels=LABELS,
        )
        if self.cluster is not None:
            found = Counter(state_of(node.numa) for node in self.cluster.nodes())
            for state in NodeZonesState:
                family.add_metric((state.value,), found[state])
        return iter((family,))


def state_of(belief: NumaBelief | None) -> NodeZonesState:
    """Return what is known of a node with that belief."""
    if belief is None or belief.topology is None:
        return NodeZonesState.UNKNOWN
    if belief.blocked:
        return NodeZonesState.BLOCKED
    if belief.topology.stale:
        return NodeZonesState.STALE
    if belief.topology.orphaned:
        return NodeZonesState.ORPHANED
    return NodeZonesState.COUNTS if belief.topology.report is None else NodeZonesState.EXACT
