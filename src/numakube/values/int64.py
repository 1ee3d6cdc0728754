"""Go's 64-bit arithmetic on decimal amounts, with the overflows that Kubernetes lets happen.

``Quantity.Value()`` and ``MilliValue()`` return an int64 without telling whether it overflowed, and
the wrapped number is what a kubelet or a scheduler then works with. Two forms of amount exist, as
in k8s.io/apimachinery/pkg/api/resource (1.35): *narrow*, an int64 with a decimal exponent, and
*wide*, an integer of any size with a decimal exponent. They overflow in different ways.
"""

from __future__ import annotations

from typing import Final

INT64_MAX: Final = (1 << 63) - 1
INT64_MIN: Final = -(1 << 63)

# Multiplications that Go spells out return the wrapped product on overflow; others return zero.
_WRAPPING_POWERS: Final = frozenset({1, 2, 3, 6, 9})
# The largest power of ten that Go converts from float64 to int64 exactly.
_MAX_POWER: Final = 18


def wrap(number: int) -> int:
    """Return the low 64 bits of *number* as a signed integer."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


def fits(number: int) -> bool:
    """Tell whether *number* is an int64."""
    return INT64_MIN <= number <= INT64_MAX


def ten_to(power: int) -> int:
    """Return ``10**power`` for a power that is not negative."""
    return int(10**power)


def scale_narrow(unscaled: int, power: int) -> int:
    """Return ``unscaled * 10**power`` as the narrow form does: inexact results away from zero."""
    if power < 0:
        return _divide_away_from_zero(unscaled, -power)
    if unscaled == 0 or power > _MAX_POWER:
        return 0
    product = unscaled * ten_to(power)
    if fits(product):
        return product
    return wrap(product) if power in _WRAPPING_POWERS and unscaled != INT64_MIN else 0


def scale_wide(unscaled: int, power: int) -> int:
    """Return ``unscaled * 10**power`` as the wide form does: wrapping, inexact results plus one."""
    if power >= 0:
        # A float64 beyond the int64 range converts to the smallest int64 on amd64.
        factor = ten_to(power) if power <= _MAX_POWER else INT64_MIN
        return wrap(wrap(unscaled) * factor)
    divisor = ten_to(-power)
    if unscaled < INT64_MAX and -power <= _MAX_POWER:
        wrapped = wrap(unscaled)
        quotient = abs(wrapped) // divisor * (1 if wrapped >= 0 else -1)
        return quotient + 1 if quotient * divisor != wrapped else quotient
    quotient, remainder = divmod(unscaled, divisor)
    return wrap(quotient + 1 if remainder else quotient)


def _divide_away_from_zero(unscaled: int, digits: int) -> int:
    if digits > _MAX_POWER + 1:
        return (unscaled > 0) - (unscaled < 0)
    magnitude = -(-abs(unscaled) // ten_to(digits))
    return magnitude if unscaled >= 0 else -magnitude
