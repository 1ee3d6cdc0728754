"""What a pod holds, from what its containers do: the most at any time, for as long as it lasts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.allotment.ground import amplified
from numakube.allotment.holdings import Share
from numakube.allotment.usage import bound_of
from numakube.values.cpuset import union
from numakube.values.numamask import mask_of
from numakube.values.resources import CPU, MILLI_PER_CPU

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numakube.allotment.room import Room
    from numakube.values.resources import Amounts


def total_of(room: Room, shares: Iterable[Share]) -> Share:
    """Return what the pod holds after all its containers found *room*."""
    masks = union(share.mask for share in shares)
    zones = _zones(room) if masks else {}
    mask = masks | mask_of(zones)
    return Share(cpus=room.own, zones=zones, mask=mask, devices=room.device_peak)


def _zones(room: Room) -> dict[int, Amounts]:
    ground = room.ledger.ground
    bound = bound_of(ground, room.own)
    zones: dict[int, Amounts] = {}
    for zone, peak in room.peak.items():
        amounts = dict(peak)
        if count := bound.get(zone, 0):
            price = amplified(count * MILLI_PER_CPU, ground.ratio(CPU))
            amounts[CPU] = count * MILLI_PER_CPU + max(0, amounts.get(CPU, 0) - price)
        zones[zone] = {name: amount for name, amount in amounts.items() if amount}
    return {zone: amounts for zone, amounts in zones.items() if amounts}
