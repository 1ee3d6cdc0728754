"""Texts for people: amounts, zones and ages. The same fact reads the same wherever it is shown.

Maps, tables, explanations, pages, events and traces take their words from here, so that a reader
never has to compare ``23.9Gi`` in one with ``24541Mi`` in another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.errors import InvalidValue
from numakube.values.cpuset import CpuSet
from numakube.values.resources import CPU, MEMORY, MILLI_PER_CPU, amount_of, kind_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numakube.values.resources import Amounts

_UNITS: Final = (
    ("Pi", 1 << 50),
    ("Ti", 1 << 40),
    ("Gi", 1 << 30),
    ("Mi", 1 << 20),
    ("Ki", 1 << 10),
)
_SMALLEST: Final = 1 << 10
_FEW: Final = 10_000
"""What has more digits is rounded."""
_RANGE: Final = 3
"""From this number of zones on they are written as ranges."""

_MINUTE: Final = 60
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR
_YEAR: Final = 365 * _DAY


def amount_text(resource: str, amount: int) -> str:
    """Return an amount: CPUs (given in milli) as kubectl has them, bytes with a unit, a count."""
    if resource == CPU:
        return f"{amount}m" if amount % MILLI_PER_CPU else str(amount // MILLI_PER_CPU)
    return bytes_text(amount) if kind_of(resource).is_bytes else str(amount)


def quantity_text(resource: str, quantity: object) -> str:
    """Return the amount that *quantity* stands for; what cannot be read stays as it is."""
    try:
        return amount_text(resource, amount_of(resource, str(quantity)))
    except InvalidValue:
        return str(quantity)


def lack_text(resource: str, quantity: str) -> str:
    """Return what is missing: rounded up, because a pod that gets less still does not fit."""
    amount = amount_of(resource, quantity)
    exact = not kind_of(resource).is_bytes or amount < _SMALLEST or _exact_unit(amount) is not None
    if exact:
        return amount_text(resource, amount)
    size = _largest_unit(amount)[1]
    tenths = -(-amount * 10 // size)
    return bytes_text(-(-tenths * size // 10))


def bytes_text(count: int) -> str:
    """Return bytes exactly if four digits or one decimal do: ``1400Gi``, ``1.5Gi``.

    Else they are rounded down to a tenth of the largest unit: what is free must not look like
    enough when it is not.
    """
    if count < _SMALLEST:
        return str(count)
    unit, size = _exact_unit(count) or _largest_unit(count)
    return _tenths(count, size, unit)


def _exact_unit(count: int) -> tuple[str, int] | None:
    units = ((unit, size) for unit, size in _UNITS if count >= size and count // size < _FEW)
    return next((unit for unit in units if count * 10 % unit[1] == 0), None)


def _largest_unit(count: int) -> tuple[str, int]:
    return next(unit for unit in _UNITS if count >= unit[1])


def _tenths(count: int, size: int, unit: str) -> str:
    whole, tenth = divmod(count * 10 // size, 10)
    return f"{whole}.{tenth}{unit}" if tenth else f"{whole}{unit}"


def held_text(amounts: Amounts) -> str:
    """Return what is held or free, with full names: ``cpu 4, memory 8Gi``."""
    return ", ".join(f"{name} {amount_text(name, amount)}" for name, amount in amounts.items())


def held_quantities_text(quantities: Mapping[str, str]) -> str:
    """Return what is held or free, given as quantities, as `held_text` does."""
    return ", ".join(f"{name} {quantity_text(name, text)}" for name, text in quantities.items())


def brief_text(resource: str, amount: int) -> str:
    """Return an amount with its resource in little space: ``6 CPU``, ``12Gi``, ``1 gpu``."""
    text = amount_text(resource, amount)
    return text if resource == MEMORY else f"{text} {short_name(resource)}"


def short_name(resource: str) -> str:
    """Return what a resource is called in little space: ``CPU``, ``gpu``, ``hugepages-2Mi``."""
    return "CPU" if resource == CPU else resource.rpartition("/")[2]


def zones_text(zones: Sequence[int]) -> str:
    """Name zones that are taken together: ``zone 0``, ``zones 0+1``, ``zones 0-7``."""
    few = len(zones) < _RANGE
    listed = "+".join(map(str, zones)) if few else str(CpuSet.of(zones))
    return f"zone{'s' if len(zones) != 1 else ''} {listed}"


def counted(number: float, noun: str) -> str:
    """Return a number with its noun: ``1 core``, ``8 cores``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def age_text(seconds: float) -> str:
    """Return a span of time as kubectl shows ages, with the one or two units that matter.

    >>> [age_text(s) for s in (-2, -1, 119, 120, 605, 11000, 90000, 700000)]
    ['<invalid>', '0s', '119s', '2m', '10m', '3h3m', '25h', '8d']
    """
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    if whole < 2 * _MINUTE:
        return f"{max(whole, 0)}s"
    if whole < 10 * _MINUTE:
        return _two_units(whole, _MINUTE, "m", 1, "s")
    if whole < 3 * _HOUR:
        return f"{whole // _MINUTE}m"
    if whole < 8 * _HOUR:
        return _two_units(whole, _HOUR, "h", _MINUTE, "m")
    if whole < 2 * _DAY:
        return f"{whole // _HOUR}h"
    return _days(whole)


def _days(seconds: int) -> str:
    if seconds < 8 * _DAY:
        return _two_units(seconds, _DAY, "d", _HOUR, "h")
    if seconds < 2 * _YEAR:
        return f"{seconds // _DAY}d"
    if seconds < 8 * _YEAR:
        return _two_units(seconds, _YEAR, "y", _DAY, "d")
    return f"{seconds // _YEAR}y"


def _two_units(seconds: int, large: int, mark: str, small: int, small_mark: str) -> str:
    rest = seconds % large // small
    return f"{seconds // large}{mark}" + (f"{rest}{small_mark}" if rest else "")


def age_words(seconds: float) -> str:
    """Return a span of time for a sentence: ``7 minutes``."""
    for size, unit in ((_DAY, "day"), (_HOUR, "hour"), (_MINUTE, "minute")):
        if abs(seconds) >= 2 * size:
            return f"{round(seconds / size)} {unit}s"
    return f"{round(seconds)} seconds"
