"""From amounts by zone to a picture, for nodes whose report does not tell who has what."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.insight.drawing.picture import Amount, Kubelet, NodePicture, Zone
from numakube.topology.view import Producer

if TYPE_CHECKING:
    from numakube.topology.view import NodeTopology, ZoneView


def picture_of_counts(view: NodeTopology, *, why: str = "") -> NodePicture:
    """Return the picture of a node of which amounts are known; *why* says why nothing else is."""
    return NodePicture(
        node=view.node,
        zones=tuple(_zone(zone) for zone in view.zones),
        kubelet=kubelet_of(view),
        why_not_exact=why or _why(view),
        stale=view.stale_reason or "",
        notes=view.problems,
    )


def _why(view: NodeTopology) -> str:
    if view.why_inexact:
        return f"its exporter has no exact data: {view.why_inexact}"
    writer = "" if view.producer is Producer.UNKNOWN else f", which {view.producer} wrote,"
    return f"its NodeResourceTopology{writer} has amounts only"


def _zone(zone: ZoneView) -> Zone:
    return Zone(
        id=zone.id,
        distances=zone.costs,
        amounts=tuple(
            Amount(name, zone.capacity[name], zone.allocatable[name], zone.available[name])
            for name in zone.capacity
        ),
    )


def kubelet_of(view: NodeTopology) -> Kubelet:
    """Return what an NRT tells of the kubelet."""
    return Kubelet(
        topology_policy=view.known_policy,
        topology_scope="" if view.policy_unknown else view.scope,
        topology_options=view.topology_options,
        cpu_policy=view.cpu_manager_policy or "",
        cpu_options=view.cpu_manager_options,
        memory_policy=view.memory_manager_policy or "",
    )
