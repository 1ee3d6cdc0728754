"""Kubernetes quantities: ``250m``, ``1.5Gi``, ``12e6``. Exact integers, never a float.

Follows k8s.io/apimachinery/pkg/api/resource (1.35), oddities included: ``-`` and ``Gi`` are zero,
digits below a billionth are rounded up, a binary quantity is capped at 2**63-1, a decimal that is a
multiple of 10**21 loses its suffix when printed, and ``value()`` and ``milli_value()`` overflow as
Go's int64 does (see `numakube.values.gotext`). Two things differ on purpose: ``str()`` is always
the canonical form (Go sometimes repeats the parsed text), and a number with thousands of digits is
refused.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from typing import Final

from numakube.errors import InvalidValue
from numakube.values.gotext import INT64_MAX, fits, scale_narrow, scale_wide, ten_to, wrap

MAX_DIGITS: Final = 2000
"""Longest text and largest exponent we expand; Python refuses to print more than 4300 digits."""

FORMAT_WRONG: Final = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
NUMERIC_WRONG: Final = "unable to parse numeric part of quantity"
SUFFIX_WRONG: Final = "unable to parse quantity's suffix"


class Format(Enum):
    """Which family of suffixes a quantity is written with."""

    BINARY_SI = "BinarySI"
    DECIMAL_SI = "DecimalSI"
    DECIMAL_EXPONENT = "DecimalExponent"


_GRAMMAR: Final = re.compile(
    r"(?P<sign>[+-]?)0*(?P<whole>[0-9]*)(?:\.(?P<fraction>[0-9]*))?"
    r"(?P<suffix>[eEinumkKMGTP]*[-+]?[0-9]*)"
)
_EXPONENT: Final = re.compile(r"[eE]([+-]?[0-9]+)")
_DECIMAL_SUFFIXES: Final = {
    "n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18,
}  # fmt: skip
_BINARY_SUFFIXES: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_NAMES: Final = {exponent: suffix for suffix, exponent in _DECIMAL_SUFFIXES.items()}
_BINARY_NAMES: Final = {0: ""} | {bits // 10: name for name, bits in _BINARY_SUFFIXES.items()}

# Parsed text of at most this many digits stays in the narrow form.
_NARROW_DIGITS: Final = 18
_NARROW_BINARY_DIGITS: Final = 15
_NANO: Final = -9


@dataclass(frozen=True, slots=True, eq=False)
class Quantity:
    """The number ``unscaled * 10**exponent`` and the format it is written in.

    ``wide`` tells which of Go's two forms holds it, which only matters once an int64 overflows.
    Comparison is by number: ``1024Mi`` equals ``1Gi``, and ``1`` equals ``1000m``.
    """

    unscaled: int
    exponent: int = 0
    format: Format = Format.DECIMAL_SI
    wide: bool = False

    @classmethod
    def of_bytes(cls, count: int) -> Quantity:
        """Return *count* bytes in binary format: ``1536Mi``."""
        return cls(count, 0, Format.BINARY_SI, wide=not fits(count))

    @classmethod
    def of_count(cls, count: int) -> Quantity:
        """Return *count* in decimal format: ``4``, ``10k``."""
        return cls(count, 0, Format.DECIMAL_SI, wide=not fits(count))

    @classmethod
    def of_milli(cls, count: int) -> Quantity:
        """Return *count* thousandths in decimal format: ``250m``."""
        return cls(count, -3, Format.DECIMAL_SI, wide=not fits(count))

    def value(self) -> int:
        """Return the number rounded up to a whole one, as Go's ``Value()``."""
        return self._scaled(self.exponent)

    def as_int64(self) -> int | None:
        """Return the number if Go's ``AsInt64()`` can: it does not look for factors of ten.

        So ``1.5Gi`` and ``2000m`` are no whole numbers until an API server has rewritten them.
        """
        return None if self.wide or self.exponent < 0 else self.value()

    def milli_value(self) -> int:
        """Return the number of thousandths, rounded up, as Go's ``MilliValue()``."""
        return self._scaled(self.exponent + 3)

    def _scaled(self, power: int) -> int:
        scale = scale_wide if self.wide else scale_narrow
        return scale(self.unscaled, power)

    def __str__(self) -> str:
        if self.unscaled == 0:
            return "0"
        if self.format is Format.BINARY_SI and self._is_binary_whole():
            amount, kibis = _without_factors(_shift(self.unscaled, self.exponent), 1024)
            return f"{amount}{_BINARY_NAMES.get(kibis, '')}"
        amount, tens = _without_factors(self.unscaled, 10)
        exponent = self.exponent + tens
        amount *= ten_to(exponent % 3)
        exponent -= exponent % 3
        if self.format is Format.DECIMAL_EXPONENT:
            return f"{amount}e{exponent}" if exponent else str(amount)
        return f"{amount}{_DECIMAL_NAMES.get(exponent, '')}"

    def _is_binary_whole(self) -> bool:
        """Tell whether the number is whole and not too small to be written in binary format."""
        if -_KIBI < self < _KIBI:
            return False
        return self.exponent >= 0 or self.unscaled % ten_to(-self.exponent) == 0

    def __bool__(self) -> bool:
        return self.unscaled != 0

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Quantity):
            return NotImplemented
        return self._normal() == other._normal()

    def __hash__(self) -> int:
        return hash(self._normal())

    def _normal(self) -> tuple[int, int]:
        """Return the unscaled number without trailing zeros, and its exponent."""
        amount, tens = _without_factors(self.unscaled, 10)
        return (amount, self.exponent + tens) if amount else (0, 0)

    def __lt__(self, other: Quantity) -> bool:
        return _compare(self, other) < 0

    def __le__(self, other: Quantity) -> bool:
        return _compare(self, other) <= 0

    def __gt__(self, other: Quantity) -> bool:
        return _compare(self, other) > 0

    def __ge__(self, other: Quantity) -> bool:
        return _compare(self, other) >= 0

    def __neg__(self) -> Quantity:
        return Quantity(-self.unscaled, self.exponent, self.format, self.wide)

    def __add__(self, other: Quantity) -> Quantity:
        """Return the exact sum, in this quantity's format unless this one is zero."""
        sum_format = self.format if self else other.format
        wide = self.wide or other.wide
        if not other:
            return Quantity(self.unscaled, self.exponent, sum_format, wide)
        if not self:
            return Quantity(other.unscaled, other.exponent, sum_format, wide)
        exponent = min(self.exponent, other.exponent)
        mine = _shift(self.unscaled, self.exponent - exponent)
        theirs = _shift(other.unscaled, other.exponent - exponent)
        wide = wide or not (fits(mine) and fits(theirs) and fits(mine + theirs))
        return Quantity(mine + theirs, exponent, sum_format, wide)

    def __sub__(self, other: Quantity) -> Quantity:
        """Return the exact difference, in this quantity's format unless this one is zero."""
        return self + -other


_KIBI: Final = Quantity(1024)


def parse_quantity(text: str | int | float) -> Quantity:
    """Return the quantity that *text* stands for; numbers are taken as YAML and JSON write them."""
    return _parse(text if isinstance(text, str) else _number_text(text))


@lru_cache(maxsize=16384, typed=True)
def value(text: str | int | float) -> int:
    """Return the whole number that the quantity *text* stands for, rounded up."""
    return parse_quantity(text).value()


@lru_cache(maxsize=16384, typed=True)
def milli_value(text: str | int | float) -> int:
    """Return how many thousandths the quantity *text* stands for, rounded up."""
    return parse_quantity(text).milli_value()


def _number_text(number: int | float) -> str:
    if isinstance(number, bool):
        raise InvalidValue(f"quantity {number!r}: a truth value is not a quantity")
    if isinstance(number, int):
        return str(number)
    if not math.isfinite(number):
        raise InvalidValue(f"quantity {number!r}: not a finite number")
    # JSON has no exponent in this range, and an exponent would change the quantity's format.
    if number == 0 or 1e-6 <= abs(number) < 1e21:
        return format(Decimal(repr(number)), "f")
    return repr(number)


@lru_cache(maxsize=16384)
def _parse(text: str) -> Quantity:
    if len(text) > MAX_DIGITS:
        raise InvalidValue(f"quantity {text[:32]!r}...: longer than {MAX_DIGITS} characters")
    match = _GRAMMAR.fullmatch(text)
    if not text or match is None:
        raise _refusal(text, FORMAT_WRONG)
    base, exponent, form = _read_suffix(match["suffix"], text)
    sign = -1 if match["sign"] == "-" else 1
    whole, fraction = match["whole"] or "0", match["fraction"] or ""
    unscaled = sign * int(whole + fraction)
    if base == 2:
        if not fraction and _is_narrow_binary(len(whole), exponent):
            return Quantity(unscaled << exponent, 0, form)
    else:
        power = exponent - len(fraction)
        if len(whole + fraction) <= _NARROW_DIGITS and power >= _NANO:
            return Quantity(unscaled, power, form)
    # The narrow form reads "no digits" as zero; the wide form does not.
    if not any(char.isdigit() for char in text[: match.start("suffix")]):
        raise _refusal(text, NUMERIC_WRONG)
    if base == 2:
        return _wide_binary(unscaled << exponent, -len(fraction))
    return _wide(unscaled, exponent - len(fraction), form)


def _refusal(text: str, reason: str) -> InvalidValue:
    return InvalidValue(f"quantity {text!r}: {reason}", reason=reason)


def _read_suffix(suffix: str, text: str) -> tuple[int, int, Format]:
    """Return base, exponent and format of *suffix*."""
    if suffix in _DECIMAL_SUFFIXES:
        return 10, _DECIMAL_SUFFIXES[suffix], Format.DECIMAL_SI
    if suffix in _BINARY_SUFFIXES:
        return 2, _BINARY_SUFFIXES[suffix], Format.BINARY_SI
    match = _EXPONENT.fullmatch(suffix)
    if match is None or not fits(int(match[1])):
        raise _refusal(text, SUFFIX_WRONG)
    # Go keeps the low 32 bits of the exponent.
    return 10, wrap(int(match[1]) << 32) >> 32, Format.DECIMAL_EXPONENT


def _is_narrow_binary(digits: int, bits: int) -> bool:
    """Tell whether Go reads so many digits times ``2**bits`` into an int64."""
    return digits + bits * 3 // 10 < _NARROW_BINARY_DIGITS


def _wide_binary(unscaled: int, exponent: int) -> Quantity:
    """Return a binary quantity capped at int64; one between zero and one becomes decimal."""
    exact = _wide(unscaled, exponent, Format.BINARY_SI)
    if abs(exact.unscaled) > INT64_MAX * ten_to(-_NANO):
        return Quantity(INT64_MAX if unscaled > 0 else -INT64_MAX, 0, Format.BINARY_SI, wide=True)
    if 0 < abs(exact.unscaled) < ten_to(-_NANO):
        return Quantity(exact.unscaled, _NANO, Format.DECIMAL_SI, wide=True)
    return exact


def _wide(unscaled: int, exponent: int, form: Format) -> Quantity:
    """Return the wide form: a whole number of billionths, rounded away from zero."""
    if unscaled == 0:
        return Quantity(0, 0, form, wide=True)
    if exponent >= _NANO:
        return Quantity(_shift(unscaled, exponent - _NANO), _NANO, form, wide=True)
    digits = min(_NANO - exponent, MAX_DIGITS + 1)
    magnitude = -(-abs(unscaled) // ten_to(digits))
    return Quantity(magnitude if unscaled > 0 else -magnitude, _NANO, form, wide=True)


def _shift(unscaled: int, exponent: int) -> int:
    """Return ``unscaled * 10**exponent`` if it is a whole number that we are willing to hold."""
    if exponent > MAX_DIGITS:
        raise InvalidValue(f"quantity {unscaled}e{exponent}: more than {MAX_DIGITS} digits")
    return unscaled * ten_to(exponent) if exponent >= 0 else unscaled // ten_to(-exponent)


def _compare(one: Quantity, other: Quantity) -> int:
    """Return a negative number, zero or a positive number as *one* is below, equal or above."""
    signs = _sign(one.unscaled) - _sign(other.unscaled)
    if signs or not one.unscaled:
        return signs
    # Far apart exponents decide by the number of digits alone, so that no huge power is computed.
    magnitude = _magnitude(one) - _magnitude(other)
    if magnitude:
        return magnitude * _sign(one.unscaled)
    gap = one.exponent - other.exponent
    return one.unscaled * ten_to(max(gap, 0)) - other.unscaled * ten_to(max(-gap, 0))


def _sign(number: int) -> int:
    return (number > 0) - (number < 0)


def _magnitude(quantity: Quantity) -> int:
    """Return the position of the first decimal digit."""
    return len(str(abs(quantity.unscaled))) + quantity.exponent


def _without_factors(number: int, factor: int) -> tuple[int, int]:
    """Return *number* without its factors *factor*, and how many there were."""
    count = 0
    while number and number % factor == 0:
        number //= factor
        count += 1
    return number, count
