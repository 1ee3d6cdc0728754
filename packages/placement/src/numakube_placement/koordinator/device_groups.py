"""How many devices of which size are wanted, and which of one type are taken together.

Amounts of shareable devices are percents: 50 is half a device, 300 are three. A request for memory
of a GPU in bytes becomes a share of whichever GPU it meets, and the other way round.

Devices stand in a tree: the node, its NUMA nodes, PCIe switches, devices. As many as are wanted are
taken from the smallest branch that has them; of several such branches from the one that is in use
already, so that untouched ones stay whole, and otherwise from the first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from numakube.api.koordinator.devices import (
    GPU,
    GPU_MEMORY,
    GPU_MEMORY_RATIO,
    GPU_SHARED,
    WHOLE_DEVICE,
    DeviceHint,
)
from numakube.api.selectors import EVERYTHING, Selector, selector_of
from numakube.topology.allotments import HeldDevice
from numakube_placement.koordinator.placement_rule import PlacementRefusal, Why

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numakube.values.resources import Amounts
    from numakube_placement.koordinator.node_facts import DevicePlace
    from numakube_placement.koordinator.pod_wish import DeviceWish


_FOR_ALL: Final = "ApplyForAll"
_AS_COUNT: Final = "RequestsAsCount"
_DEVICE_LEVEL: Final = "DeviceLevel"
_PCIE_LEVEL: Final = "PCIeLevel"


@dataclass(frozen=True, slots=True, kw_only=True)
class Want:
    """What is wanted of the devices of one type.

    Attributes:
        count: how many devices.
        each: what is wanted of each of them.
        vfs: which virtual functions will do; ``None`` if none is wanted.
        scope: what all of them must have in common: ``Device``, ``PCIe``, ``NUMANode`` or nothing.
        alone: whether the devices must not be in use by others.
        alone_on_pcie: whether no device of the type on the same PCIe switch may be.
    """

    type: str
    count: int
    each: Amounts
    selector: Selector = EVERYTHING
    vfs: Selector | None = None
    scope: str = ""
    alone: bool = False
    alone_on_pcie: bool = False

    def of(self, place: DevicePlace) -> Amounts:
        """Return what is wanted of *place*; memory in bytes and in percent imply each other."""
        total = place.resources.get(GPU_MEMORY, 0)
        ratio, size = self.each.get(GPU_MEMORY_RATIO), self.each.get(GPU_MEMORY)
        if self.type != GPU or not total or (ratio is None) is (size is None):
            return self.each
        if size is not None:
            return {**self.each, GPU_MEMORY_RATIO: size * WHOLE_DEVICE // total}
        return {**self.each, GPU_MEMORY: (ratio or 0) * total // WHOLE_DEVICE}


def wants_of(
    wish: DeviceWish, requests: Mapping[str, Amounts], places: Sequence[DevicePlace]
) -> tuple[Want, ...] | PlacementRefusal:
    """Return what *requests* amount to on a node with these devices, in the order of choosing.

    Types that are placed together come first, the leading one before all others.
    """
    wanted = [kind for kind, amounts in requests.items() if any(amounts.values())]
    joint = [kind for kind in wish.joint if kind in wanted]
    wants = []
    for kind in (*joint, *sorted(kind for kind in wanted if kind not in joint)):
        want = _want(kind, requests[kind], wish.hints.get(kind, DeviceHint()), places)
        if isinstance(want, PlacementRefusal):
            return want
        wants.append(want)
    return tuple(wants)


def _want(
    kind: str, amounts: Amounts, hint: DeviceHint, places: Sequence[DevicePlace]
) -> Want | PlacementRefusal:
    selector = EVERYTHING if hint.selector is None else selector_of(hint.selector)
    count, each = _gpus(amounts) if kind == GPU else _others(kind, amounts, hint, selector, places)
    if not count:
        what = ", ".join(f"{amount} of {name}" for name, amount in sorted(amounts.items()))
        detail = f"{what} is no whole number of devices"
        return PlacementRefusal(why=Why.DEVICES, resource=kind, detail=detail)
    return Want(
        type=kind,
        count=count,
        each=each,
        selector=selector,
        vfs=None if hint.vf_selector is None else selector_of(hint.vf_selector),
        scope=hint.required_topology_scope,
        alone=hint.exclusive_policy == _DEVICE_LEVEL,
        alone_on_pcie=hint.exclusive_policy == _PCIE_LEVEL,
    )


def _gpus(amounts: Amounts) -> tuple[int, Amounts]:
    """Return the number of GPUs and what is wanted of each; 0 if that is not even."""
    wanted = {name: amount for name, amount in amounts.items() if name != GPU_SHARED}
    ratio = wanted.get(GPU_MEMORY_RATIO, 0)
    count = amounts.get(GPU_SHARED, 0) or max(1, ratio // WHOLE_DEVICE)
    even = all(amount % count == 0 for amount in wanted.values())
    fits = ratio // count <= WHOLE_DEVICE
    return (count if even and fits else 0), {name: n // count for name, n in wanted.items()}


def _others(
    kind: str,
    amounts: Amounts,
    hint: DeviceHint,
    selector: Selector,
    places: Sequence[DevicePlace],
) -> tuple[int, Amounts]:
    """Return the number of devices and what is wanted of each; 0 if that is not even."""
    ((name, amount),) = amounts.items() if len(amounts) == 1 else [(kind, 0)]
    if hint.allocate_strategy == _FOR_ALL:
        matching = [
            place for place in places if place.type == kind and selector.matches(place.labels)
        ]
        return len(matching), {name: amount}
    if hint.allocate_strategy == _AS_COUNT:
        return amount, {name: WHOLE_DEVICE if hint.exclusive_policy == _DEVICE_LEVEL else 1}
    if amount <= WHOLE_DEVICE:
        return 1, {name: amount}
    return (amount // WHOLE_DEVICE if amount % WHOLE_DEVICE == 0 else 0), {name: WHOLE_DEVICE}


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
        for offer in offers:
            branches.setdefault(branch_of(offer.place), []).append(offer)
        fitting = [members for members in branches.values() if len(members) >= want.count]
        fitting.sort(key=lambda members: _branch_rank(branch_of, members, used))
        for members in fitting:
            yield sorted(members, key=lambda member: _packed(member, members, used))[: want.count]
        if scope == want.scope:
            return


def in_scope(want: Want, chosen: Sequence[Left]) -> bool:
    """Tell whether *chosen* are as close to each other as is wanted."""
    branch_of = dict(_SCOPES)[want.scope or "Node"]
    return len({branch_of(one.place) for one in chosen}) <= 1


def _used_branches(devices: Sequence[Left]) -> frozenset[Branch]:
    return frozenset(
        branch_of(device.place) for device in devices if device.in_use for _, branch_of in _SCOPES
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
