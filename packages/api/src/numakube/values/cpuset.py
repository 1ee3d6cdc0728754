"""Sets of logical CPUs in the kernel's list format (``0-3,8``), as the kubelet writes them.

A set is one Python integer with a bit a CPU, so that union, intersection and counting cost
nanoseconds at any machine size. Follows k8s.io/utils/cpuset: the parser refuses white space and
descending ranges, and two adjacent CPUs print as a range (``0-1``). A list is parsed to ranges
first, so that ``0-4000000000`` can be checked and printed without a bit for each CPU.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias, overload

from numakube.errors import InvalidValue
from numakube.values.gotext import go_quote, parse_integer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MAX_CPU_ID = 1 << 16
"""The highest CPU id a `CpuSet` holds: no kernel supports more, and a bit each costs memory."""

CpuRange: TypeAlias = tuple[int, int]
"""The first and the last CPU of a range."""

if TYPE_CHECKING:

    class CpuMask(int):
        """A set of CPUs; bit *n* is CPU *n*.

        A plain integer at run time. To the type checker it is a kind of its own that stays what it
        is under set operations, so that a number of CPUs is never taken for a set of them.
        """

        def __and__(self, other: int, /) -> CpuMask: ...
        def __or__(self, other: int, /) -> CpuMask: ...
        def __invert__(self) -> CpuMask: ...

else:
    CpuMask = int

NO_CPUS: Final = CpuMask(0)


def parse_cpu_list(text: str) -> tuple[CpuRange, ...]:
    """Return the ranges that *text* names, ascending and merged; the empty text names none."""
    if not text:
        return ()
    merged: list[CpuRange] = []
    for first, last in sorted(_range(part, text) for part in text.split(",")):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return tuple(merged)


def format_cpu_list(ranges: Iterable[CpuRange]) -> str:
    """Return *ranges* in the kernel's list format."""
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


@dataclass(frozen=True, slots=True)
class CpuSet:
    """An immutable set of CPU ids; bit *n* of ``bits`` is CPU *n*."""

    bits: int = 0

    @classmethod
    def of(cls, cpus: Iterable[int]) -> CpuSet:
        """Return the set of the given CPU ids."""
        return cls(cpu_mask(cpus))

    @classmethod
    def parse(cls, text: str) -> CpuSet:
        """Return the set that *text* names; the empty text is the empty set."""
        bits = 0
        for first, last in parse_cpu_list(text):
            if last > MAX_CPU_ID:
                raise InvalidValue(
                    f"cpuset {text!r}: CPU {last} is above the limit of {MAX_CPU_ID}"
                )
            bits |= (1 << (last + 1)) - (1 << first)
        return cls(bits)

    @property
    def mask(self) -> CpuMask:
        """The bits as a set of CPUs; lists of the kernel are of NUMA nodes as well."""
        return CpuMask(self.bits)

    def __str__(self) -> str:
        return format_cpu_list(_runs(self.bits))

    def __iter__(self) -> Iterator[int]:
        return iter_bits(self.bits)

    def __len__(self) -> int:
        return self.bits.bit_count()

    def __bool__(self) -> bool:
        return self.bits != 0

    def __contains__(self, cpu: object) -> bool:
        return isinstance(cpu, int) and cpu >= 0 and bool(self.bits >> cpu & 1)

    def __or__(self, other: CpuSet) -> CpuSet:
        return CpuSet(self.bits | other.bits)

    def __and__(self, other: CpuSet) -> CpuSet:
        return CpuSet(self.bits & other.bits)

    def __sub__(self, other: CpuSet) -> CpuSet:
        return CpuSet(self.bits & ~other.bits)

    def __le__(self, other: CpuSet) -> bool:
        return self.bits & ~other.bits == 0


def iter_bits(bits: int) -> Iterator[int]:
    """Yield the positions of the set bits of *bits*, ascending."""
    while bits:
        low = bits & -bits
        yield low.bit_length() - 1
        bits ^= low


def cpu_mask(cpus: Iterable[int]) -> CpuMask:
    """Return the set of the given CPU ids as bits."""
    bits = NO_CPUS
    for cpu in cpus:
        bits |= 1 << cpu
    return bits


@overload
def union(sets: Iterable[CpuMask]) -> CpuMask: ...
@overload
def union(sets: Iterable[int]) -> int: ...
def union(sets: Iterable[int]) -> int:
    """Return the union of sets given as bits."""
    bits = 0
    for one in sets:
        bits |= one
    return bits


def _runs(bits: int) -> Iterator[CpuRange]:
    """Yield the maximal runs of set bits as (first, last)."""
    offset = 0
    while bits:
        skipped = (bits & -bits).bit_length() - 1
        bits >>= skipped
        length = (~bits & (bits + 1)).bit_length() - 1
        bits >>= length
        offset += skipped
        yield offset, offset + length - 1
        offset += length


def _range(part: str, text: str) -> CpuRange:
    first, dash, last = part.partition("-")
    low = _cpu_id(first, text)
    high = _cpu_id(last, text) if dash else low
    if high < low:
        raise InvalidValue(
            f"cpuset {text!r}: range {part!r} runs backwards",
            reason=f"invalid range {go_quote(part)} ({low} > {high})",
        )
    return low, high


def _cpu_id(part: str, text: str) -> int:
    try:
        return parse_integer(part)
    except InvalidValue as error:
        message = f"cpuset {text!r}: {part!r} is not a CPU number"
        raise InvalidValue(message, reason=error.reason) from None
