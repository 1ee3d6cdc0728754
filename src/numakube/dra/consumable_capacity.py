"""Consumable capacity: how much of a shareable device a request takes, and whether it is left.

Follows kube-scheduler 1.37 (KEP-5075). All amounts are computed before any is compared, so that a
request that cannot be expressed ends allocation whatever else is wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.dra.device_ids import AllocationError
from numakube.values.gotext import INT64_MAX
from numakube.values.quantity import Format, Quantity, parse_quantity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.api.codec import QuantityText
    from numakube.api.resource_claims import CapacityRequirements
    from numakube.api.resource_slices import (
        CapacityRequestPolicy,
        CapacityRequestPolicyRange,
        DeviceCapacity,
    )

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
