"""Resources as people name them in a shape, found among those that a cluster has.

    in_full({"gpu": 1}, facts)      # {"vendor.example/gpu": 1}, if only one resource ends so

A name that nothing offers is refused with what may be meant: whatever is counted for it would be
false.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.errors import InvalidValue
from numakube.insight.near_names import nearest, nearest_device
from numakube.values.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, is_hugepages

if TYPE_CHECKING:
    from collections.abc import Collection

    from numakube.insight.facts import ClusterFacts
    from numakube.values.resources import Amounts


def in_full(shape: Amounts, facts: ClusterFacts) -> Amounts:
    """Return *shape* with the full names of its resources; without any node, as it is.

    Raises:
        InvalidValue: no node offers one of them, a short name is that of several, or two names are
            those of one.
    """
    if not facts.nodes:
        return shape
    offered = offered_in(facts)
    found: dict[str, int] = {}
    for name, amount in shape.items():
        full = _full_name(name, offered)
        if full in found:
            raise InvalidValue(f"{name!r}: {full} is there twice")
        found[full] = amount
    return found


def offered_in(facts: ClusterFacts) -> frozenset[str]:
    """Return what pods can ask for: what nodes and their zones offer, and what claims serve."""
    nodes = {name for node in facts.nodes.values() for name in node.status.allocatable}
    zones = {
        resource.name
        for report in facts.topologies.values()
        for zone in report.zones
        for resource in zone.resources
    }
    classes = facts.objects.device_classes.values()
    claims = {one.spec.extended_resource_name for one in classes} - {None}
    return frozenset({CPU, MEMORY, EPHEMERAL_STORAGE, *nodes, *zones, *map(str, claims)}) - {PODS}


def _full_name(name: str, offered: Collection[str]) -> str:
    if name in offered or is_hugepages(name):
        return name
    meant = sorted(one for one in offered if one.rpartition("/")[2] == name)
    if len(meant) == 1:
        return meant[0]
    if meant:
        raise InvalidValue(f"{name!r} may be {' or '.join(meant)}: write one of them")
    # Devices first: gpu is not a slip of the pen for cpu.
    near = nearest_device(name, offered)
    near = near or nearest(name, [one for one in offered if one.startswith(name[:1])])
    hint = f"did you mean {near}?" if near else f"there are {', '.join(sorted(offered))}"
    raise InvalidValue(f"no node offers {name!r}; {hint}")
