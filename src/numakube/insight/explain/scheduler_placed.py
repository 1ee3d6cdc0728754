"""A pod that runs where a scheduler has put it within its node: what it was given."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.insight.explain.container_amounts import texts_of
from numakube.insight.explain.explanation import PlacedContainer, Placement
from numakube.values.cpuset import CpuSet
from numakube.values.display import zones_text
from numakube.values.numamask import nodes_of

if TYPE_CHECKING:
    from numakube.koordinator.ledger.holdings import Allotment, Share


def allotted_placement(node: str, held: Allotment) -> Placement:
    """Return where a pod with *held* is on *node*, as its annotations tell."""
    shares = held.containers or {"": held.total}
    zones = _zones(held.total)
    spread = max((len(_zones(share)) for share in shares.values()), default=0)
    quality = "shared" if not zones else "single" if spread == 1 else "spread"
    return Placement(
        node=node,
        source="allotted",
        zones=zones,
        quality=quality,
        containers=tuple(_placed(name, share) for name, share in shares.items()),
        words=(_words(node, zones, quality, containers=bool(held.containers)),),
    )


def _zones(share: Share) -> tuple[int, ...]:
    return tuple(sorted({*share.zones, *nodes_of(share.mask)}))


def _placed(name: str, share: Share) -> PlacedContainer:
    amounts: dict[str, int] = {}
    for part in share.zones.values():
        for resource, amount in part.items():
            amounts[resource] = amounts.get(resource, 0) + amount
    for device in share.devices:
        amounts[device.type] = amounts.get(device.type, 0) + 1
    return PlacedContainer(
        container=name,
        zones=_zones(share),
        cpus=str(CpuSet(share.cpus)) if share.cpus else "",
        amounts=texts_of(amounts),
    )


def _words(node: str, zones: tuple[int, ...], quality: str, *, containers: bool) -> str:
    if quality == "shared":
        return f"A scheduler gave it something on {node}, but no NUMA zone in particular."
    where = zones_text(zones)
    if containers and quality == "single":
        return f"Well aligned: a scheduler gave each container one of {where}."
    if quality == "single":
        return f"Well aligned: a scheduler gave it {where}."
    return f"A scheduler spread it over {where}."
