"""How the devices of a node are, for the kubelet, which tells it in the status of pods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.node.dra_plugin import DeviceHealth
from numakube.values.cpuset import NO_CPUS, CpuMask, CpuSet

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from numakube_dra_driver.ledger import GivenFunction, PreparedClaim
    from numakube_dra_driver.offer import Offer

SAY_SECONDS: Final = 10.0
"""How often it is said; the kubelet does not believe for longer than three times that."""


def device_health(
    offer: Offer, pools: Mapping[str, str], claims: Collection[PreparedClaim], *, seconds: int
) -> tuple[DeviceHealth, ...]:
    """Return how every device is that is offered, or that a claim has.

    Args:
        offer: what is offered in one name.
        pools: the pool of each device that is offered.
        claims: those that were prepared in that name.
        seconds: by the clock on the wall.
    """
    there = offer.manager.topology.all_cpus
    lost: dict[tuple[str, str], CpuMask] = {(pool, name): NO_CPUS for name, pool in pools.items()}
    for claim in claims:
        for given in claim.results:
            place = given.pool, given.device
            gone = given.mask & ~there
            lost[place] = CpuMask(lost.get(place, NO_CPUS) | gone)
    troubles = {
        place: f"CPUs {CpuSet(cpus)} of claims are offline" if cpus else ""
        for place, cpus in lost.items()
    }
    troubles |= {
        (given.pool, given.device): _function_trouble(offer, given.device, given.function)
        for claim in claims
        for given in claim.results
        if given.function is not None
    }
    return tuple(
        DeviceHealth(pool=pool, device=device, trouble=trouble, seconds=seconds)
        for (pool, device), trouble in troubles.items()
    )


def _function_trouble(offer: Offer, device: str, function: GivenFunction) -> str:
    """Return what is wrong with a function that a claim has; empty if nothing is."""
    offered = offer.functions.by_name.get(device) if offer.functions is not None else None
    if offered is None:
        return f"{function.id} is gone, or in no pool any more"
    return f"{function.id} {offered.trouble}" if offered.trouble else ""
