"""One look at the host: what is there, who has it, and how it is.

A survey is made in a thread of its own from frozen inputs, so that the kubelet's calls are answered
meanwhile. Every device goes to the first selector that takes it (`share_out`).

Devices are followed from scan to scan (`follow`). One that was offered and is gone, has lost its
driver, or is not selected any more stays in the list as unhealthy for a while: pods that hold it
get notice, and it comes back as itself. A network interface that moves into a pod changes nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from numakube.kubelet import Device
from numakube.node.pci.device_pools import DeviceType, refusal
from numakube.node.pci.pci_discovery import discover
from numakube.node.pci.pci_functions import is_address, target_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numakube.node.pci.device_pools import (
        Config,
        DeviceSelectorSpec,
        PoolSpec,
        StaticDevice,
    )
    from numakube.node.pci.pci_discovery import FoundFunction, Host, Inventory


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


def _earlier(pool: PoolSpec, before: Survey | None) -> Mapping[str, Standing]:
    """Return the pool's devices as they were, unless its configuration has changed since."""
    if before is None or pool not in before.config.pools:
        return {}
    return before.standings[pool.resource]


def _reasons(pool: PoolSpec, inventory: Inventory, shares: Shares) -> Mapping[str, str]:
    """Return why the pool does not have devices, as far as it is known."""
    unreadable = {unreadable.address: unreadable.why for unreadable in inventory.unreadable}
    return unreadable | dict(shares.reasons(pool.resource))


GONE: Final = "is gone"
_ODD: Final = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True)
class Standing:
    """A device of a pool, and how it is.

    Attributes:
        member: the device.
        trouble: why it cannot be given out; empty if it can.
        lost_at: since when it is not among what scans find; ``None`` if it is.
    """

    member: PoolMember
    trouble: str = ""
    lost_at: float | None = None

    def as_device(self) -> Device:
        """Return it as the kubelet sees it."""
        return Device(self.member.id, self.member.numa_nodes, healthy=not self.trouble)


def follow(
    before: Mapping[str, Standing],
    found: Iterable[PoolMember],
    reasons: Mapping[str, str],
    *,
    otherwise: str = GONE,
    now: float,
    forget_after: float,
) -> dict[str, Standing]:
    """Return the devices of a pool after a scan.

    Args:
        before: as they were.
        found: what the scan has found for the pool.
        reasons: why the pool does not have other devices, if it is known.
        otherwise: what is said of those of which it is not.
        now: seconds by some clock.
        forget_after: seconds after which a lost device is dropped.
    """
    after = {member.id: Standing(member) for member in found}
    for id_, standing in before.items():
        if id_ in after:
            continue
        lost_at = now if standing.lost_at is None else standing.lost_at
        if now - lost_at < forget_after:
            after[id_] = Standing(standing.member, reasons.get(id_, otherwise), lost_at)
    return dict(sorted(after.items(), key=lambda item: item[1].member.rank))


def examined(
    standings: Mapping[str, Standing],
    pool: PoolSpec,
    inventory: Inventory,
    host: Host,
    *,
    check_link: bool,
) -> dict[str, Standing]:
    """Return the same with what is wrong with devices that are there."""
    links = check_link if pool.check_link is None else pool.check_link
    return {
        id_: replace(one, trouble=one.trouble or _trouble(one.member, inventory, host, links=links))
        for id_, one in standings.items()
    }


def _trouble(member: PoolMember, inventory: Inventory, host: Host, *, links: bool) -> str:
    if member.static is not None:
        if not member.static.healthy:
            return "is configured as unhealthy"
        missing = [node.host_path for node in member.static.nodes if not host.has(node.host_path)]
        return f"{missing[0]} does not exist" if missing else ""
    if links and member.parent in inventory.down:
        candidate = member.candidate
        name = candidate.pf_name if candidate is not None else ""
        return f"physical function {name} ({member.parent}) has no link"
    return ""


def name_in_slices(id_: str) -> str:
    """Return how names of devices in ResourceSlices end that are this one: ``0000-3b-02-1``.

    Drivers for PCI functions make them of addresses in this way, whatever stands before.
    """
    return _ODD.sub("-", id_.lower()).strip("-")


def claims_by_id(claimed: Mapping[str, str], ids: Iterable[str]) -> dict[str, str]:
    """Return which PCI functions have claims, of all devices that are *claimed* by their names."""
    tails: dict[str, str] = {}
    for name, claim in claimed.items():
        words = name.split("-")
        tails |= {"-".join(words[start:]): claim for start in range(len(words))}
    # Other ids are too short to be sure: a GPU of some driver may be called gpu-1 as well.
    named = {id_: name_in_slices(id_) for id_ in ids if is_address(id_)}
    return {id_: tails[name] for id_, name in named.items() if name in tails}


def fresh_trouble(member: PoolMember) -> str:
    """Return what has happened to a device since the last look."""
    candidate = member.candidate
    if candidate is None:
        return ""
    if not candidate.folder.exists():
        return "is gone"
    if candidate.aux_type:
        return ""
    driver = target_of(candidate.folder / "driver")
    if driver != candidate.function.driver:
        was = candidate.function.driver
        return f"has driver {driver} instead of {was}" if driver else f"has lost its driver {was}"
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolMember:
    """A device of a pool: a candidate with the selector that took it, or a static device."""

    id: str
    numa_nodes: tuple[int, ...] = ()
    candidate: FoundFunction | None = None
    selector: DeviceSelectorSpec | None = None
    static: StaticDevice | None = None

    @property
    def parent(self) -> str:
        """The physical function that it belongs to; empty if none is known."""
        return self.candidate.pf_address if self.candidate is not None else ""

    @property
    def rank(self) -> tuple[str, int, str]:
        """Its place in lists: by physical function and number, then by name."""
        index = self.candidate.index if self.candidate is not None else None
        return self.parent, -1 if index is None else index, self.id


@dataclass(frozen=True, slots=True)
class RefusedDevice:
    """A device that a pool does not have, and why."""

    id: str
    resource: str
    why: str


@dataclass(frozen=True, slots=True)
class Shares:
    """Who has what.

    Attributes:
        members: of each pool, by its resource, in order.
        refused: every device that a pool looked at and does not have.
    """

    members: Mapping[str, tuple[PoolMember, ...]]
    refused: tuple[RefusedDevice, ...]

    def reasons(self, resource: str) -> Mapping[str, str]:
        """Return why a pool does not have devices, by their ids."""
        return {refused.id: refused.why for refused in self.refused if refused.resource == resource}


def share_out(pools: Iterable[PoolSpec], inventory: Inventory) -> Shares:
    """Return which pool has what; of several that would have a device, the first."""
    members: dict[str, tuple[PoolMember, ...]] = {}
    refused: list[RefusedDevice] = []
    taken: dict[str, str] = {}
    for pool in pools:
        if pool.type is DeviceType.STATIC:
            members[pool.resource] = _static(pool)
            continue
        found, reasons = _select(pool, inventory, taken)
        members[pool.resource] = tuple(sorted(found, key=lambda one: one.rank))
        refused += [RefusedDevice(id_, pool.resource, why) for id_, why in reasons.items()]
    return Shares(members, tuple(refused))


def _static(pool: PoolSpec) -> tuple[PoolMember, ...]:
    return tuple(
        PoolMember(
            id=device.id,
            numa_nodes=() if pool.exclude_topology else device.numa_nodes,
            static=device,
        )
        for device in pool.devices
    )


def _select(
    pool: PoolSpec, inventory: Inventory, taken: dict[str, str]
) -> tuple[list[PoolMember], dict[str, str]]:
    reasons = dict(inventory.unusable.get(pool.type, {}))
    members = []
    for candidate in inventory.candidates.get(pool.type, ()):
        selector, why = _first_taker(pool, candidate, inventory)
        if selector is not None and candidate.id in taken:
            selector, why = None, f"pool {taken[candidate.id]} has it already"
        if selector is None:
            reasons[candidate.id] = why
            continue
        taken[candidate.id] = pool.resource
        members.append(_member(pool, candidate, selector))
    return members, reasons


def _first_taker(
    pool: PoolSpec, candidate: FoundFunction, inventory: Inventory
) -> tuple[DeviceSelectorSpec | None, str]:
    """Return the first selector that takes *candidate*, or what the first had against it."""
    first = ""
    for selector in pool.selectors:
        why = refusal(selector, candidate, inventory.facts)
        if not why:
            return selector, ""
        first = first or why
    return None, first


def _member(pool: PoolSpec, candidate: FoundFunction, selector: DeviceSelectorSpec) -> PoolMember:
    node = candidate.function.numa_node
    return PoolMember(
        id=candidate.id,
        numa_nodes=() if pool.exclude_topology or node is None else (node,),
        candidate=candidate,
        selector=selector,
    )
