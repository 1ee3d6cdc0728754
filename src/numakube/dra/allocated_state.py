"""What is allocated already, and what is left: devices, shared counters, and capacity."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from numakube.dra.device_ids import AllocationError, DeviceId, PoolId
from numakube.values.gotext import INT64_MAX
from numakube.values.quantity import Format, Quantity, parse_quantity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numakube.api.codec import QuantityText
    from numakube.api.resource_claims import AllocationResult, CapacityRequirements
    from numakube.api.resource_slices import (
        CapacityRequestPolicy,
        CapacityRequestPolicyRange,
        Device,
        DeviceCapacity,
    )
    from numakube.dra.pools import DevicePool


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


# ------------------------------------------------------------------------------------------------
# Counters that devices of a pool share, and compatibility groups of devices on them (alpha).
#
# Available is what the pool's counter sets have, less what allocated devices consume; it may be
# negative, and then every device of the pool that consumes counters is refused.

Amounts = dict[str, dict[str, Quantity]]


@dataclass(frozen=True, slots=True)
class CompatibilityGroups:
    """What the devices on a counter set have in common; None: no device is on it yet."""

    common: frozenset[str] | None = None

    def admits(self, groups: frozenset[str]) -> bool:
        """Tell whether a device with *groups* goes with the others."""
        if self.common is None:
            return True
        if not groups and not self.common:
            return True
        return bool(groups & self.common)

    def joined(self, groups: frozenset[str]) -> CompatibilityGroups:
        """Return what is in common with one device more."""
        if self.common is None:
            return CompatibilityGroups(groups)
        return CompatibilityGroups(self.common & groups) if groups else self


class PoolCounters:
    """The counters of one pool during one search."""

    def __init__(self, pool: DevicePool, state: AllocatedState) -> None:
        self._available: Amounts = {
            name: {key: parse_quantity(one.value) for key, one in counters.counters.items()}
            for name, counters in pool.counter_sets.items()
        }
        self._consumed: Amounts = {}
        self._groups: dict[str, CompatibilityGroups] = {}
        for device in _allocated(pool, state):
            for consumption in device.consumes_counters:
                name = consumption.counter_set
                left = self._available[name]
                for key, one in consumption.counters.items():
                    left[key] = left[key] - parse_quantity(one.value)
                groups = frozenset(consumption.compatibility_groups)
                self._groups[name] = self._groups.get(name, CompatibilityGroups()).joined(groups)

    def consume(self, device: Device) -> bool:
        """Take what *device* consumes; tell whether it was there, else take nothing."""
        self._change(device, 1)
        for name, counters in self._available.items():
            consumed = self._consumed.get(name, {})
            for key, available in counters.items():
                if key in consumed and available < consumed[key]:
                    self._change(device, -1)
                    return False
                if key not in consumed and available.unscaled < 0:
                    self._change(device, -1)
                    return False
        return True

    def release(self, device: Device) -> None:
        """Give back what *device* consumes."""
        self._change(device, -1)

    def _change(self, device: Device, sign: int) -> None:
        for consumption in device.consumes_counters:
            consumed = self._consumed.setdefault(consumption.counter_set, {})
            for key, one in consumption.counters.items():
                amount = parse_quantity(one.value)
                consumed[key] = consumed.get(key, _ZERO) + (amount if sign > 0 else -amount)

    def join_groups(self, device: Device) -> dict[str, CompatibilityGroups] | None:
        """Put *device* among the others; return what was before, or None if it does not go."""
        before = dict(self._groups)
        for consumption in device.consumes_counters:
            groups = frozenset(consumption.compatibility_groups)
            current = self._groups.get(consumption.counter_set, CompatibilityGroups())
            if not current.admits(groups):
                self._groups = before
                return None
            self._groups[consumption.counter_set] = current.joined(groups)
        return before

    def restore_groups(self, before: dict[str, CompatibilityGroups]) -> None:
        """Undo `join_groups`."""
        self._groups = before


_ZERO = Quantity(0)


def _allocated(pool: DevicePool, state: AllocatedState) -> Iterator[Device]:
    for candidate in pool.candidates:
        if state.holds(candidate.id):
            yield candidate.device
    for identity, device in pool.elsewhere:
        if state.holds(identity):
            yield device


# ------------------------------------------------------------------------------------------------
# Consumable capacity: how much of a shareable device a request takes, and whether it is left.
#
# Follows kube-scheduler 1.37 (KEP-5075). All amounts are computed before any is compared, so that
# a request that cannot be expressed ends allocation whatever else is wrong.

_TOO_LARGE: Final = "capacity request cannot be represented in the device's range arithmetic"


def wanted_amounts(
    request: CapacityRequirements | None,
    capacity: Mapping[str, DeviceCapacity],
    *,
    fractions: bool,
) -> dict[str, Quantity] | None:
    """Return what the request takes of each capacity; None if the device lacks one of them.

    Raises:
        AllocationError: an amount cannot be expressed, or is negative.
    """
    asked = request.requests if request is not None else {}
    if any(name not in capacity for name in asked):
        return None
    amounts: dict[str, Quantity] = {}
    for name, one in capacity.items():
        try:
            amount = _amount(asked.get(name), one, fractions=fractions)
        except AllocationError as error:
            raise AllocationError(f'capacity "{name}": {error}') from None
        if amount.unscaled < 0:
            raise AllocationError(f'capacity "{name}": capacity value is negative')
        amounts[name] = amount
    return amounts


def is_available(
    amounts: Mapping[str, Quantity],
    capacity: Mapping[str, DeviceCapacity],
    consumed: tuple[Mapping[str, Quantity], ...],
    *,
    fractions: bool,
) -> bool:
    """Tell whether policies allow *amounts*, and they fit beside what is *consumed*."""
    for name, one in capacity.items():
        total = amounts[name]
        if _violates(total, one.request_policy, fractions=fractions):
            return False
        for other in consumed:
            if name in other:
                total = total + other[name]
        if total > parse_quantity(one.value):
            return False
    return True


def _amount(asked: QuantityText | None, one: DeviceCapacity, *, fractions: bool) -> Quantity:
    policy = one.request_policy
    if asked is None:
        default = policy.default if policy is not None else None
        return parse_quantity(one.value if default is None else default)
    request = parse_quantity(asked)
    if policy is None:
        return request
    if policy.valid_range is not None and policy.valid_range.min is not None:
        return _rounded_in_range(request, policy.valid_range, fractions=fractions)
    for value in policy.valid_values:
        if request <= parse_quantity(value):
            return parse_quantity(value)
    return request


def _rounded_in_range(
    request: Quantity, valid: CapacityRequestPolicyRange, *, fractions: bool
) -> Quantity:
    low = parse_quantity(valid.min or 0)
    if request < low:
        return low
    if valid.step is None:
        return request
    step = parse_quantity(valid.step)
    if _in_thousandths(valid, fractions=fractions):
        return _rounded_thousandths(request, low, step)
    if request > Quantity(INT64_MAX):
        raise AllocationError(f"{_TOO_LARGE}: request {request} exceeds MaxInt64")
    start, width = low.value(), step.value()
    count = _steps(request.value() - start, width)
    if start >= 0 and count > (INT64_MAX - start) // width:
        raise AllocationError(
            f"{_TOO_LARGE}: rounding request {request} up to the next step passes MaxInt64"
        )
    return Quantity(start + width * count, 0, step.format)


def _rounded_thousandths(request: Quantity, low: Quantity, step: Quantity) -> Quantity:
    asked = _exact_thousandths(request)
    if asked is None:
        raise AllocationError(f"{_TOO_LARGE}: request {request} is not a representable milli value")
    start, width = low.milli_value(), step.milli_value()
    count = _steps(asked - start, width)
    if count > _truncated(INT64_MAX - start, width):
        raise AllocationError(
            f"{_TOO_LARGE}: rounding request {request} up to the next step passes the "
            "milli-value range"
        )
    total = start + width * count
    if total % 1000 == 0:
        return Quantity(total // 1000, 0, step.format)
    return Quantity(total, -3, step.format)


def _truncated(number: int, width: int) -> int:
    """Divide as Go does: towards zero."""
    quotient = abs(number) // abs(width)
    return quotient if (number < 0) == (width < 0) else -quotient


def _steps(distance: int, width: int) -> int:
    """Return how many steps cover *distance*, by Go's division."""
    quotient = _truncated(distance, width)
    return quotient + 1 if distance - quotient * width else quotient


def _violates(amount: Quantity, policy: CapacityRequestPolicy | None, *, fractions: bool) -> bool:
    if policy is None:
        return False
    if policy.default is not None and _identical(amount, parse_quantity(policy.default)):
        return False
    if policy.valid_range is not None:
        return _outside(amount, policy.valid_range, fractions=fractions)
    values = policy.valid_values
    return bool(values) and all(amount != parse_quantity(value) for value in values)


def _identical(one: Quantity, other: Quantity) -> bool:
    """Compare as Go compares the structs: the same number written the same way."""
    return (one.unscaled, one.exponent, one.format) == (
        other.unscaled,
        other.exponent,
        other.format,
    ) and not (one.wide or other.wide)


def _outside(amount: Quantity, valid: CapacityRequestPolicyRange, *, fractions: bool) -> bool:
    if valid.max is not None and amount > parse_quantity(valid.max):
        return True
    if valid.step is None:
        return False
    low, step = parse_quantity(valid.min or 0), parse_quantity(valid.step)
    if _in_thousandths(valid, fractions=fractions):
        exact = _exact_thousandths(amount)
        if exact is None:
            return True
        return (exact - low.milli_value()) % step.milli_value() != 0
    return (amount.value() - low.value()) % step.value() != 0


def _in_thousandths(valid: CapacityRequestPolicyRange, *, fractions: bool) -> bool:
    if not fractions:
        return False
    for text in (valid.min, valid.max, valid.step):
        if text is not None and _exact_thousandths(parse_quantity(text)) is None:
            return False
    return valid.step is None or parse_quantity(valid.step).milli_value() >= 1


def _exact_thousandths(quantity: Quantity) -> int | None:
    milli = quantity.milli_value()
    return milli if Quantity(milli, -3, Format.DECIMAL_SI) == quantity else None


def part_of(device: Device, consumed: Mapping[str, QuantityText | Quantity]) -> float:
    """Return which part of *device* is consumed, of the capacity of which that is most; at most 1.

    A device of which nothing is consumed by amount is taken as a whole.
    """
    parts = []
    for name, amount in consumed.items():
        total = parse_quantity(device.capacity[name].value) if name in device.capacity else None
        if total:
            used = amount if isinstance(amount, Quantity) else parse_quantity(amount)
            parts.append(used.milli_value() / total.milli_value())
    return min(1.0, max(parts, default=1.0))
