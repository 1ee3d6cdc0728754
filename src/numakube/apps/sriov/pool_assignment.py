"""Sharing out what a scan has found: every device goes to the first selector that takes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from numakube.apps.sriov.config_types import DeviceType
from numakube.apps.sriov.device_selectors import refusal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numakube.apps.sriov.config_types import Pool, StaticDevice
    from numakube.apps.sriov.device_selectors import Selector
    from numakube.apps.sriov.pci_discovery import Candidate, Inventory


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A device of a pool: a candidate with the selector that took it, or a static device."""

    id: str
    numa_nodes: tuple[int, ...] = ()
    candidate: Candidate | None = None
    selector: Selector | None = None
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
class Refused:
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

    members: Mapping[str, tuple[Member, ...]]
    refused: tuple[Refused, ...]

    def reasons(self, resource: str) -> Mapping[str, str]:
        """Return why a pool does not have devices, by their ids."""
        return {one.id: one.why for one in self.refused if one.resource == resource}


def share_out(pools: Iterable[Pool], inventory: Inventory) -> Shares:
    """Return which pool has what; of several that would have a device, the first."""
    members: dict[str, tuple[Member, ...]] = {}
    refused: list[Refused] = []
    taken: dict[str, str] = {}
    for pool in pools:
        if pool.type is DeviceType.STATIC:
            members[pool.resource] = _static(pool)
            continue
        found, reasons = _select(pool, inventory, taken)
        members[pool.resource] = tuple(sorted(found, key=lambda one: one.rank))
        refused += [Refused(id_, pool.resource, why) for id_, why in reasons.items()]
    return Shares(members, tuple(refused))


def _static(pool: Pool) -> tuple[Member, ...]:
    return tuple(
        Member(
            id=device.id,
            numa_nodes=() if pool.exclude_topology else device.numa_nodes,
            static=device,
        )
        for device in pool.devices
    )


def _select(
    pool: Pool, inventory: Inventory, taken: dict[str, str]
) -> tuple[list[Member], dict[str, str]]:
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
    pool: Pool, candidate: Candidate, inventory: Inventory
) -> tuple[Selector | None, str]:
    """Return the first selector that takes *candidate*, or what the first had against it."""
    first = ""
    for selector in pool.selectors:
        why = refusal(selector, candidate, inventory.facts)
        if not why:
            return selector, ""
        first = first or why
    return None, first


def _member(pool: Pool, candidate: Candidate, selector: Selector) -> Member:
    node = candidate.function.numa_node
    return Member(
        id=candidate.id,
        numa_nodes=() if pool.exclude_topology or node is None else (node,),
        candidate=candidate,
        selector=selector,
    )
