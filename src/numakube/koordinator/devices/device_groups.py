"""Which devices of one type are taken together.

Devices stand in a tree: the node, its NUMA nodes, PCIe switches, devices. As many as are wanted are
taken from the smallest branch that has them; of several such branches from the one that is in use
already, so that untouched ones stay whole, and otherwise from the first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from numakube.api.koordinator.devices import GPU, GPU_MEMORY_RATIO
from numakube.koordinator.ledger.holdings import HeldDevice

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numakube.koordinator.devices.wanted_devices import Want
    from numakube.koordinator.node.node_facts import DevicePlace
    from numakube.values.resources import Amounts

Branch: TypeAlias = tuple[object, ...]
"""The path to a branch of the tree."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """What is left of a device, after whatever has been given away in this trial."""

    place: DevicePlace
    amounts: Amounts
    vfs: tuple[str, ...]
    in_use: bool

    def less(self, held: HeldDevice) -> Left:
        """Return what is left when *held* is taken off."""
        amounts = {name: n - held.resources.get(name, 0) for name, n in self.amounts.items()}
        vfs = tuple(one for one in self.vfs if one not in held.vfs)
        return Left(place=self.place, amounts=amounts, vfs=vfs, in_use=True)

    def offers(self, want: Want) -> bool:
        """Tell whether it has what is wanted of one device."""
        if self.place.type != want.type or not want.selector.matches(self.place.labels):
            return False
        if want.alone and self.in_use:
            return False
        wanted = want.of(self.place)
        if any(self.amounts.get(name, 0) < amount for name, amount in wanted.items()):
            return False
        return want.vfs is None or self.function(want) is not None

    def function(self, want: Want) -> str | None:
        """Return the first virtual function that will do."""
        if want.vfs is None:
            return None
        labels = self.place.vf_labels
        return next((one for one in self.vfs if want.vfs.matches(labels.get(one, {}))), None)

    def given(self, want: Want) -> HeldDevice:
        """Return what is taken of it."""
        function = self.function(want)
        return HeldDevice(
            type=want.type,
            minor=self.place.minor,
            resources=dict(want.of(self.place)),
            vfs=() if function is None else (function,),
        )


def _node(place: DevicePlace) -> Branch:
    return ()


def _numa(place: DevicePlace) -> Branch:
    return (-1 if place.numa is None else place.numa,)


def _pcie(place: DevicePlace) -> Branch:
    # A device that does not tell its switch shares it with no other.
    return (*_numa(place), place.pcie or f"of {place.type} {place.minor}")


def _device(place: DevicePlace) -> Branch:
    return (*_pcie(place), place.minor)


_SCOPES: Final[tuple[tuple[str, Callable[[DevicePlace], Branch]], ...]] = (
    ("Device", _device),
    ("PCIe", _pcie),
    ("NUMANode", _numa),
    ("Node", _node),
)
"""From the smallest branch to the largest."""

pcie_of = _pcie


def selections(
    want: Want, offers: Sequence[Left], all_left: Sequence[Left]
) -> Iterator[list[Left]]:
    """Yield ways to take what is wanted from *offers*, the best first.

    Args:
        want: what is wanted.
        offers: devices that have what is wanted of one.
        all_left: every device, to see which branches are in use.
    """
    if want.type != GPU and not want.scope:
        # The order of the devices is all that counts.
        if len(offers) >= want.count:
            yield sorted(offers, key=_by_minor)[: want.count]
        return
    used = _used_branches(all_left)
    for scope, branch_of in _SCOPES:
        branches: dict[Branch, list[Left]] = {}
        for one in offers:
            branches.setdefault(branch_of(one.place), []).append(one)
        fitting = [members for members in branches.values() if len(members) >= want.count]
        fitting.sort(key=lambda members: _branch_rank(branch_of, members, used))
        for members in fitting:
            yield sorted(members, key=lambda one: _packed(one, members, used))[: want.count]
        if scope == want.scope:
            return


def in_scope(want: Want, chosen: Sequence[Left]) -> bool:
    """Tell whether *chosen* are as close to each other as is wanted."""
    branch_of = dict(_SCOPES)[want.scope or "Node"]
    return len({branch_of(one.place) for one in chosen}) <= 1


def _used_branches(devices: Sequence[Left]) -> frozenset[Branch]:
    return frozenset(
        branch_of(one.place) for one in devices if one.in_use for _, branch_of in _SCOPES
    )


def _branch_rank(
    branch_of: Callable[[DevicePlace], Branch], members: Sequence[Left], used: frozenset[Branch]
) -> tuple[object, ...]:
    """Sort key: the more of the path is in use the better, then the fuller, then the first."""
    branch = branch_of(members[0].place)
    on_path = sum(branch[:end] in used for end in range(1, len(branch) + 1))
    return -on_path, len(members), _fullness(members[0]), branch


def _packed(one: Left, members: Sequence[Left], used: frozenset[Branch]) -> tuple[object, ...]:
    """Sort key inside a branch: whole switches first, so that few switches are touched."""
    switch = _pcie(one.place)
    beside = sum(_pcie(other.place) == switch for other in members)
    return -beside, switch not in used, switch, one.place.minor


def _fullness(one: Left) -> int:
    return one.amounts.get(GPU_MEMORY_RATIO, 0)


def _by_minor(one: Left) -> int:
    return one.place.minor
