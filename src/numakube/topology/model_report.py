"""The NRT that describes a model's state: what a perfect exporter would publish of it.

For tests, benchmarks and simulations, where the model is the node.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from numakube.api.meta import ObjectMeta
from numakube.api.nrt import (
    ZONE_TYPE_NODE,
    Attribute,
    Cost,
    NodeResourceTopology,
    Zone,
    ZoneResource,
    zone_name,
)
from numakube.topology import nrt_names
from numakube.topology.model_from_report import report_of
from numakube.topology.report_binding import with_exact
from numakube.topology.zone_amounts import zones_of
from numakube.values.resources import quantity_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.kubelet.kubelet_model import KubeletNode
    from numakube.topology.zone_amounts import ZoneAmounts


def nrt_of(
    name: str,
    node: KubeletNode,
    *,
    exact: bool = True,
    attributes: Mapping[str, str] | None = None,
) -> NodeResourceTopology:
    """Return the report of *node*, called *name*.

    Args:
        name: the name of the node.
        node: its state.
        exact: with exact data.
        attributes: attributes beyond policy and scope, or in place of those.
    """
    told = {**attributes_of(node), **(attributes or {})}
    report = NodeResourceTopology(
        metadata=ObjectMeta(name=name),
        attributes=tuple(Attribute(name=one, value=value) for one, value in told.items()),
        zones=model_zones(node),
    )
    return with_exact(report, report_of(node)) if exact else report


def attributes_of(node: KubeletNode) -> dict[str, str]:
    """Return what the report says of the kubelet."""
    settings = node.settings
    return {
        nrt_names.TOPOLOGY_POLICY: settings.topology_policy,
        nrt_names.TOPOLOGY_SCOPE: settings.topology_scope,
        nrt_names.CPU_POLICY: settings.cpu_policy,
        nrt_names.MEMORY_POLICY: settings.memory_policy,
    }


def model_zones(node: KubeletNode) -> tuple[Zone, ...]:
    """Return the zones of the report."""
    ids = [one.id for one in node.machine.nodes]
    distances = {one.id: dict(zip(ids, one.distances, strict=False)) for one in node.machine.nodes}
    return tuple(_zone(one, distances[one.id]) for one in zones_of(node))


def _zone(zone: ZoneAmounts, distances: Mapping[int, int]) -> Zone:
    costs = tuple(Cost(name=zone_name(to), value=cost) for to, cost in distances.items())
    resources = tuple(
        ZoneResource(
            name=name,
            capacity=_text(name, zone.capacity[name]),
            allocatable=_text(name, zone.allocatable[name]),
            available=_text(name, zone.available[name]),
        )
        for name in zone.available
    )
    return Zone(name=zone_name(zone.id), type=ZONE_TYPE_NODE, costs=costs, resources=resources)


@lru_cache(maxsize=16384)
def _text(name: str, amount: int) -> str:
    return str(quantity_of(name, amount))
