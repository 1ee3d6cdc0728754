"""What a gang chooses from and asks for, as numbers, and what a choice is and costs."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


class Balance(StrEnum):
    """Whether the domains of a gang get equal numbers of its pods."""

    NONE = ""
    FEWEST = "Fewest"
    """As few domains as possible, and equal numbers in those."""
    EVEN = "Even"
    """Equal numbers, and as few domains as that allows."""


@dataclass(frozen=True, slots=True)
class Area:
    """A domain as a gang sees it.

    Attributes:
        level: its position among the levels, coarse to fine; -1 for the whole cluster.
        name: by which it is told, and what ends ties.
        takes: how many pods of the gang its nodes take.
        parts: the domains of the next level that matters.
        is_own: whether members run there already, so that it is no further domain.
    """

    level: int
    name: str
    takes: int
    parts: tuple[Area, ...] = ()
    is_own: bool = False

    def at(self, level: int) -> Iterator[Area]:
        """Yield the areas of *level* in this one, which may be this one."""
        if self.level >= level:
            yield self
        else:
            for part in self.parts:
                yield from part.at(level)


@dataclass(frozen=True, slots=True)
class Slices:
    """Every *size* pods are together in one domain of a level."""

    level: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a gang of equal pods asks for.

    Attributes:
        needed: pods that have to fit.
        wanted: pods that there are.
        required: the level of which all have to be in one domain; ``None`` for none.
        preferred: levels of which there are to be as few domains as possible.
        slices: coarse to fine.
        balance: whether domains get equal numbers.
        allows_rest: whether the last slice may be smaller than the others.
        is_exact: whether all sets of domains are compared, where that does not take too long.
    """

    needed: int
    wanted: int
    required: int | None = None
    preferred: frozenset[int] = frozenset()
    slices: tuple[Slices, ...] = ()
    balance: Balance = Balance.NONE
    allows_rest: bool = False
    is_exact: bool = True


Cost: TypeAlias = "tuple[Counts, tuple[int, int], Counts, int, int, int, tuple[str, ...]]"
"""Domains at coarse levels; their number at the finest, and unevenness, or reversed; domains at
levels inside slices; pods without a place; places left over; those in the whole area; names."""
Share: TypeAlias = "tuple[Area, int]"
"""A domain, and how many pods it gets."""
Counts: TypeAlias = "tuple[int, ...]"


@dataclass(frozen=True, slots=True)
class Choice:
    """Where a gang goes.

    Attributes:
        area: the domain that is required, or the whole cluster.
        shares: the pods of each domain.
        cost: what it costs; the cheapest is best.
    """

    area: Area
    shares: tuple[Share, ...]
    cost: Cost = field(compare=False)

    @property
    def count(self) -> int:
        """How many pods have a place."""
        return sum(count for _, count in self.shares)


def takes(area: Area, slices: Sequence[Slices]) -> int:
    """Return how many pods *area* takes in whole slices."""
    if not slices:
        return area.takes
    first = slices[0]
    if area.level < first.level:
        return sum(takes(part, slices) for part in area.parts)
    return takes(area, slices[1:]) // first.size * first.size


def less(area: Area, shares: Iterable[Share]) -> Area:
    """Return *area* where those of *shares* take so many fewer; they are used already."""
    for one, count in shares:
        area = without(area, one, count)
    return area


def without(area: Area, taken: Area, count: int) -> Area:
    """Return *area* where *taken* takes so many fewer; it is one that is used already."""
    if (area.level, area.name) == (taken.level, taken.name):
        return Area(area.level, area.name, area.takes - count, (), is_own=True)
    parts = tuple(without(part, taken, count) for part in area.parts)
    inside = any(part is not before for part, before in zip(parts, area.parts, strict=True))
    if not inside:
        return area
    return Area(area.level, area.name, area.takes - count, parts, is_own=area.is_own)
