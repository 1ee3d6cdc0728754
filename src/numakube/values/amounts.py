"""Amounts of resources as people read them; the same amount is the same figure everywhere."""

from __future__ import annotations

from typing import Final

from numakube.errors import InvalidValue
from numakube.values.resources import CPU, MILLI_PER_CPU, amount_of, kind_of

_UNITS: Final = (
    ("Pi", 1 << 50),
    ("Ti", 1 << 40),
    ("Gi", 1 << 30),
    ("Mi", 1 << 20),
    ("Ki", 1 << 10),
)
_FEW: Final = 10_000
"""What has more digits is rounded."""


def amount_text(resource: str, amount: int) -> str:
    """Return an amount: CPUs (given in milli) as kubectl has them, bytes with a unit, a count."""
    if resource == CPU:
        return f"{amount}m" if amount % MILLI_PER_CPU else str(amount // MILLI_PER_CPU)
    return bytes_text(amount) if kind_of(resource).is_bytes else str(amount)


def quantity_text(resource: str, quantity: object) -> str:
    """Return a quantity as `amount_text` has it; one that cannot be read as it is."""
    try:
        return amount_text(resource, amount_of(resource, str(quantity)))
    except InvalidValue:
        return str(quantity)


def bytes_text(count: int) -> str:
    """Return bytes exactly if four digits or one decimal do: ``1400Gi``, ``1.5Gi``.

    Else they are rounded down to a tenth of the largest unit: what is free must not look like
    enough when it is not.
    """
    fitting = [(unit, size) for unit, size in _UNITS if count >= size]
    for unit, size in fitting:
        if count * 10 % size == 0 and count // size < _FEW:
            return _tenths(count, size, unit)
    return _tenths(count, fitting[0][1], fitting[0][0]) if fitting else str(count)


def _tenths(count: int, size: int, unit: str) -> str:
    whole, tenth = divmod(count * 10 // size, 10)
    return f"{whole}.{tenth}{unit}" if tenth else f"{whole}{unit}"
