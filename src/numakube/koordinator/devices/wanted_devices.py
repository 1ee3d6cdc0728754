"""How many devices of which size a request amounts to.

Amounts of shareable devices are percents: 50 is half a device, 300 are three. A request for memory
of a GPU in bytes becomes a share of whichever GPU it meets, and the other way round.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from numakube.api.koordinator.devices import (
    GPU,
    GPU_MEMORY,
    GPU_MEMORY_RATIO,
    GPU_SHARED,
    DeviceHint,
)
from numakube.api.selectors import EVERYTHING, Selector, selector_of
from numakube.koordinator.device_resources import WHOLE_DEVICE
from numakube.koordinator.placement_refusals import Refusal, Why

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numakube.koordinator.node.node_facts import DevicePlace
    from numakube.koordinator.wish.pod_wish import DeviceWish
    from numakube.values.resources import Amounts

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
) -> tuple[Want, ...] | Refusal:
    """Return what *requests* amount to on a node with these devices, in the order of choosing.

    Types that are placed together come first, the leading one before all others.
    """
    wanted = [kind for kind, amounts in requests.items() if any(amounts.values())]
    joint = [kind for kind in wish.joint if kind in wanted]
    wants = []
    for kind in (*joint, *sorted(kind for kind in wanted if kind not in joint)):
        want = _want(kind, requests[kind], wish.hints.get(kind, DeviceHint()), places)
        if isinstance(want, Refusal):
            return want
        wants.append(want)
    return tuple(wants)


def _want(
    kind: str, amounts: Amounts, hint: DeviceHint, places: Sequence[DevicePlace]
) -> Want | Refusal:
    selector = EVERYTHING if hint.selector is None else selector_of(hint.selector)
    count, each = _gpus(amounts) if kind == GPU else _others(kind, amounts, hint, selector, places)
    if not count:
        what = ", ".join(f"{amount} of {name}" for name, amount in sorted(amounts.items()))
        detail = f"{what} is no whole number of devices"
        return Refusal(why=Why.DEVICES, resource=kind, detail=detail)
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
        matching = [one for one in places if one.type == kind and selector.matches(one.labels)]
        return len(matching), {name: amount}
    if hint.allocate_strategy == _AS_COUNT:
        return amount, {name: WHOLE_DEVICE if hint.exclusive_policy == _DEVICE_LEVEL else 1}
    if amount <= WHOLE_DEVICE:
        return 1, {name: amount}
    return (amount // WHOLE_DEVICE if amount % WHOLE_DEVICE == 0 else 0), {name: WHOLE_DEVICE}
