"""Sets of logical CPUs in the kernel's list format (``0-3,8``), as the kubelet writes them.

A set is one Python integer with a bit a CPU, so that union, intersection and counting cost
nanoseconds at any machine size. Follows k8s.io/utils/cpuset: the parser refuses white space and
descending ranges, and two adjacent CPUs print as a range (``0-1``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from numakube.errors import InvalidValue

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# Go's strconv.Atoi also takes a sign; a minus sign cannot appear because "-" separates a range.
_NUMBER = re.compile(r"\+?[0-9]+", re.ASCII)
# A guard against "0-4000000000": no kernel supports more CPUs than this.
MAX_CPU_ID = 1 << 16


@dataclass(frozen=True, slots=True)
class CpuSet:
    """An immutable set of CPU ids; bit *n* of ``bits`` is CPU *n*."""

    bits: int = 0

    @classmethod
    def of(cls, cpus: Iterable[int]) -> CpuSet:
        """Return the set of the given CPU ids."""
        bits = 0
        for cpu in cpus:
            bits |= 1 << cpu
        return cls(bits)

    @classmethod
    def parse(cls, text: str) -> CpuSet:
        """Return the set that *text* names; the empty text is the empty set."""
        if not text:
            return cls()
        bits = 0
        for part in text.split(","):
            first, dash, last = part.partition("-")
            low = _cpu_id(first, text)
            high = _cpu_id(last, text) if dash else low
            if high < low:
                raise InvalidValue(f"cpuset {text!r}: range {part!r} runs backwards")
            bits |= (1 << (high + 1)) - (1 << low)
        return cls(bits)

    def __str__(self) -> str:
        return ",".join(
            str(low) if low == high else f"{low}-{high}" for low, high in _runs(self.bits)
        )

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


def _runs(bits: int) -> Iterator[tuple[int, int]]:
    """Yield the maximal runs of set bits as (first, last)."""
    start = previous = -1
    for cpu in iter_bits(bits):
        if cpu != previous + 1 or start < 0:
            if start >= 0:
                yield start, previous
            start = cpu
        previous = cpu
    if start >= 0:
        yield start, previous


def _cpu_id(part: str, text: str) -> int:
    if not _NUMBER.fullmatch(part):
        raise InvalidValue(f"cpuset {text!r}: {part!r} is not a CPU number")
    cpu = int(part)
    if cpu > MAX_CPU_ID:
        raise InvalidValue(f"cpuset {text!r}: CPU {cpu} is above the limit of {MAX_CPU_ID}")
    return cpu
