"""One set of NUMA nodes for all resources, from the hints of each.

Follows Koordinator's topology manager: a set is aligned if every resource can be had on exactly
that set, and preferred if every resource prefers it. Sets that some resource would only share a
part of never win, so the merge looks at what all lists have in common instead of walking through
all combinations of hints. Of equally good sets the one with fewer nodes wins, then the one with
the higher score, then the one with the lower ids.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from numakube.allotment.exclusivity import NOBODY, Neighbours
from numakube.allotment.words import Exclusive

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numakube.allotment.hints import Hint
    from numakube.values.numamask import NumaMask


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """The best set.

    Attributes:
        mask: all NUMA nodes if no set is aligned.
        preferred: whether all resources prefer it and neighbours allow it.
        aligned: whether every resource can be had on exactly this set.
        clean: whether neighbours allow it.
        score: the sum over resources.
    """

    mask: NumaMask
    preferred: bool = False
    aligned: bool = False
    clean: bool = False
    score: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a merge needs to know besides hints."""

    zones: NumaMask
    neighbours: Neighbours = NOBODY
    exclusive: Exclusive = Exclusive.NO


def merge(hints: Iterable[Sequence[Hint]], around: Surroundings) -> Merged:
    """Return the best set of NUMA nodes for resources with the given *hints*."""
    indexes = [_by_mask(one) for one in hints]
    found = (_merged(indexes, mask, around) for mask in _candidates(indexes, around))
    return max(filter(None, found), key=_rank, default=Merged(mask=around.zones))


def _by_mask(hints: Sequence[Hint]) -> dict[NumaMask | None, Hint]:
    index: dict[NumaMask | None, Hint] = {}
    for hint in hints:
        if hint.mask not in index or hint.preferred > index[hint.mask].preferred:
            index[hint.mask] = hint
    return index


def _candidates(
    indexes: Sequence[Mapping[NumaMask | None, Hint]], around: Surroundings
) -> set[NumaMask]:
    """Return what all resources may have in common."""
    strict = [index for index in indexes if None not in index]
    fewest = min(strict, key=len) if strict else {}
    masks = fewest if strict else {mask for index in indexes for mask in index}
    named = {mask for mask in masks if mask is not None}
    return named if strict or named else {around.zones}


def _merged(
    indexes: Sequence[Mapping[NumaMask | None, Hint]], mask: NumaMask, around: Surroundings
) -> Merged | None:
    preferred, score = True, 0
    for index in indexes:
        hint = index.get(mask) or index.get(None)
        if hint is None:
            return None
        preferred &= hint.preferred
        score += hint.score if hint.mask is not None else 0
    clean = around.neighbours.allow(mask, around.exclusive)
    if around.neighbours.spoil(mask, around.exclusive):
        score = 0
    return Merged(mask=mask, preferred=preferred and clean, aligned=True, clean=clean, score=score)


def _rank(merged: Merged) -> tuple[bool, bool, int, int, int]:
    bits = merged.mask.bit_count()
    return merged.preferred, merged.clean, -bits, merged.score, -merged.mask
