"""One look at the host: what is there, who has it, and how it is.

A survey is made in a thread of its own from frozen inputs, so that the kubelet's calls are answered
meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from numakube.apps.sriov.config_types import DeviceType
from numakube.apps.sriov.device_health import GONE, examined, follow
from numakube.apps.sriov.pci_discovery import discover
from numakube.apps.sriov.pool_assignment import share_out

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.apps.sriov.config_types import Config, Pool
    from numakube.apps.sriov.device_health import Standing
    from numakube.apps.sriov.pci_discovery import Host, Inventory
    from numakube.apps.sriov.pool_assignment import Shares


@dataclass(frozen=True, slots=True, kw_only=True)
class SurveyOptions:
    """How to look.

    Attributes:
        check_link: devices of a physical function without a link are unhealthy, unless their pool
            says otherwise.
        forget_after: seconds after which a lost device is dropped.
    """

    check_link: bool = True
    forget_after: float = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What one look has found.

    Attributes:
        config: the pools that it was about.
        inventory: what the host has.
        shares: which pool has what.
        standings: the devices of each pool by their ids, by the pool's resource.
    """

    config: Config
    inventory: Inventory
    shares: Shares
    standings: Mapping[str, Mapping[str, Standing]] = field(default_factory=dict)


def look(
    config: Config, host: Host, options: SurveyOptions, *, before: Survey | None = None, now: float
) -> Survey:
    """Return what *host* has for the pools of *config*.

    Args:
        config: the pools.
        host: where to look.
        options: how.
        before: what the last look has found, if there was one.
        now: seconds by some clock.
    """
    types = frozenset(pool.type for pool in config.pools) - {DeviceType.STATIC}
    previous = before.inventory if before is not None else None
    inventory = discover(host, types, previous=previous)
    shares = share_out(config.pools, inventory)
    standings = {}
    for pool in config.pools:
        followed = follow(
            _earlier(pool, before),
            shares.members[pool.resource],
            _reasons(pool, inventory, shares),
            otherwise=inventory.trouble or GONE,
            now=now,
            forget_after=options.forget_after,
        )
        standings[pool.resource] = examined(
            followed, pool, inventory, host, check_link=options.check_link
        )
    return Survey(config=config, inventory=inventory, shares=shares, standings=standings)


def _earlier(pool: Pool, before: Survey | None) -> Mapping[str, Standing]:
    """Return the pool's devices as they were, unless its configuration has changed since."""
    if before is None or pool not in before.config.pools:
        return {}
    return before.standings[pool.resource]


def _reasons(pool: Pool, inventory: Inventory, shares: Shares) -> Mapping[str, str]:
    """Return why the pool does not have devices, as far as it is known."""
    unreadable = {one.address: one.why for one in inventory.unreadable}
    return unreadable | dict(shares.reasons(pool.resource))
