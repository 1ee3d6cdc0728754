"""Taking a pod off zones when it is not known which of them will have it.

Upstream takes the pod's whole request off every zone. `may_be_in` spares the zones that could not
have it even if they were empty: what happens to be free in a report says less, because pods may
have ended since.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.values.resources import add_amounts, largest_amounts, shortfalls

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numakube.scheduling.numa.caches.claims import Claim
    from numakube.topology.view import NodeTopology
    from numakube.values.resources import Amounts

_SINGLE: Final = "single-numa-node"


def everywhere(amounts: Amounts, topology: NodeTopology) -> tuple[Amounts, ...]:
    """Take *amounts* off every zone."""
    return (amounts,) * len(topology.zones)


def may_be_in(claim: Claim, topology: NodeTopology) -> tuple[Amounts, ...]:
    """Return the most that the pod may take off each zone."""
    if topology.policy != _SINGLE:
        return everywhere(claim.whole, topology)
    sizes = (zone.allocatable for zone in topology.zones)
    if topology.scope == "pod":
        parts = tuple(claim.whole if _fits(claim.whole, size) else {} for size in sizes)
    else:
        parts = tuple(_containers_in(claim, size) for size in sizes)
    # A pod that fits nowhere is there nevertheless: the report does not tell the whole story.
    return parts if any(parts) else everywhere(claim.whole, topology)


def _containers_in(claim: Claim, size: Amounts) -> Amounts:
    """Return what the containers take that fit the zone, each by itself."""
    running = add_amounts(*_fitting(claim.running, size))
    return largest_amounts(running, *_fitting(claim.starting, size))


def _fitting(parts: Iterable[Amounts], size: Amounts) -> Iterable[Amounts]:
    return (part for part in parts if _fits(part, size))


def _fits(wanted: Amounts, size: Amounts) -> bool:
    # A resource that the zone does not list has no place of its own.
    return not shortfalls({name: wanted[name] for name in wanted.keys() & size.keys()}, size)
