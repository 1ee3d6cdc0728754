"""What is allocated already: devices taken whole, shares of devices, and capacity consumed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from numakube.dra.device_ids import DeviceId, PoolId
from numakube.values.quantity import Quantity, parse_quantity

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numakube.api.resource_claims import AllocationResult

Consumed = dict[str, Quantity]


@dataclass(slots=True)
class AllocatedState:
    """What claims hold.

    Attributes:
        devices: taken whole, with how many results name each.
        shares: share ids of each device that is shared.
        capacity: what is consumed of each shared device.
        pools: how many results name a device of each pool.
    """

    devices: dict[DeviceId, int] = field(default_factory=dict)
    shares: dict[DeviceId, set[str]] = field(default_factory=dict)
    capacity: dict[DeviceId, Consumed] = field(default_factory=dict)
    pools: Counter[PoolId] = field(default_factory=Counter)

    def holds(self, device: DeviceId) -> bool:
        """Tell whether any claim has *device*, or a share of it."""
        return device in self.devices or self.is_shared(device)

    def is_shared(self, device: DeviceId) -> bool:
        """Tell whether a claim has a share of *device*."""
        return device in self.shares or device in self.capacity

    def add(self, allocation: AllocationResult, *, sharing: bool) -> None:
        """Count the devices of *allocation*; without *sharing* a share counts as the whole."""
        for result in allocation.devices.results:
            if result.admin_access:
                continue
            device = DeviceId(result.driver, result.pool, result.device)
            self.pools[PoolId(result.driver, result.pool)] += 1
            if result.share_id is None or not sharing:
                self.devices[device] = self.devices.get(device, 0) + 1
                continue
            self.shares.setdefault(device, set()).add(result.share_id)
            if result.consumed_capacity:
                amounts = {k: parse_quantity(v) for k, v in result.consumed_capacity.items()}
                add_amounts(self.capacity.setdefault(device, {}), amounts)

    def remove(self, allocation: AllocationResult, *, sharing: bool) -> None:
        """Undo `add`."""
        for result in allocation.devices.results:
            if result.admin_access:
                continue
            device = DeviceId(result.driver, result.pool, result.device)
            self.pools[PoolId(result.driver, result.pool)] -= 1
            if result.share_id is None or not sharing:
                self._release(device)
                continue
            shares = self.shares.get(device, set())
            shares.discard(result.share_id)
            if result.consumed_capacity and device in self.capacity:
                amounts = {k: parse_quantity(v) for k, v in result.consumed_capacity.items()}
                subtract_amounts(self.capacity[device], amounts)
                if not self.capacity[device]:
                    del self.capacity[device]
            if not shares:
                self.shares.pop(device, None)

    def _release(self, device: DeviceId) -> None:
        left = self.devices.get(device, 0) - 1
        if left > 0:
            self.devices[device] = left
        else:
            self.devices.pop(device, None)

    def copy(self) -> AllocatedState:
        """Return a state that can be changed without changing this one."""
        return AllocatedState(
            dict(self.devices),
            {device: set(shares) for device, shares in self.shares.items()},
            {device: dict(amounts) for device, amounts in self.capacity.items()},
            self.pools.copy(),
        )


def add_amounts(total: Consumed, amounts: Consumed) -> None:
    """Add *amounts* to *total*."""
    for name, amount in amounts.items():
        total[name] = total[name] + amount if name in total else amount


def subtract_amounts(total: Consumed, amounts: Consumed) -> None:
    """Take *amounts* off *total*; what reaches zero is forgotten."""
    for name, amount in amounts.items():
        if name in total:
            total[name] = total[name] - amount
            if not total[name]:
                del total[name]


def state_of(allocations: Iterable[AllocationResult], *, sharing: bool) -> AllocatedState:
    """Return the state in which all of *allocations* hold."""
    state = AllocatedState()
    for allocation in allocations:
        state.add(allocation, sharing=sharing)
    return state
