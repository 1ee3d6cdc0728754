"""Hints: sets of NUMA nodes on which a resource is available, merged into one set for all of them.

The merge follows Koordinator's topology manager: a set is aligned if every resource is available on
exactly that set, and preferred if every resource prefers it. Sets that some resource would only
share a part of never win, so the merge looks at what all lists have in common instead of walking
through all combinations of hints. Of equally good sets the one with fewer nodes wins, then the one
with the higher score, then the one with the lower ids.

``BestEffort`` takes the best set there is, ``Restricted`` only a set that every resource prefers,
``SingleNUMANode`` only a single node. Here a resource under ``Restricted`` prefers every set that
it is available on: the smallest set is measured by what is free now, where a kubelet measures it by
what an idle machine could give.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from numakube.koordinator.annotation_values import Exclusive
from numakube.koordinator.search.neighbours import NOBODY, Neighbours
from numakube.values.topology_policy import TopologyPolicy

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numakube.values.numamask import NumaMask


_GROUP: Final = 2
"""Masks print in pairs of digits: ``01``, ``0100``."""
_SHOWN: Final = 8
"""Masks that a message shows; eight NUMA nodes have 255 of them."""


@dataclass(frozen=True, slots=True)
class Hint:
    """A set of NUMA nodes on which a resource is available.

    Attributes:
        mask: ``None`` if every set will do.
        preferred: whether the resource wants no other.
        score: how good a place it is; only compared among masks of one size.
    """

    mask: NumaMask | None
    preferred: bool
    score: int = 0


def summary(hints: Mapping[str, Sequence[Hint]], *, separator: str) -> str:
    """Tell what each resource prefers, in Koordinator's words, sorted by resource."""
    return separator.join(
        f"{resource} prefer [{_texts(hints[resource], preferred=True)}]"
        f" among [{_texts(hints[resource], preferred=False)}]"
        for resource in sorted(hints)
    )


def mask_text(mask: NumaMask | None) -> str:
    """Return *mask* in binary, lowest NUMA node last."""
    if mask is None:
        return "<nil>"
    width = -(-max(mask.bit_length(), 1) // _GROUP) * _GROUP
    return f"{mask:0{width}b}"


def _texts(hints: Sequence[Hint], *, preferred: bool) -> str:
    masks = [mask_text(hint.mask) for hint in hints if hint.preferred or not preferred]
    more = len(masks) - _SHOWN
    return " ".join(masks[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """The best set.

    Attributes:
        mask: all NUMA nodes if no set is aligned.
        preferred: whether all resources prefer it and neighbours allow it.
        aligned: whether every resource is available on exactly this set.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What a policy says.

    Attributes:
        mask: where; means nothing if it is not admitted.
        settled: whether hints for wider sets could not change the answer any more.
    """

    mask: NumaMask
    admitted: bool
    settled: bool


def decide(
    policy: TopologyPolicy, hints: Mapping[str, Sequence[Hint]], around: Surroundings
) -> Decision:
    """Return what *policy* makes of *hints* by resource."""
    if policy is TopologyPolicy.SINGLE_NUMA_NODE:
        hints = {name: [hint for hint in one if _is_single(hint)] for name, one in hints.items()}
    merged = merge(hints.values(), around)
    if policy is TopologyPolicy.BEST_EFFORT:
        settled = merged.aligned and merged.clean
        return Decision(mask=merged.mask, admitted=True, settled=settled)
    return Decision(mask=merged.mask, admitted=merged.preferred, settled=merged.preferred)


def reason(
    policy: TopologyPolicy, hints: Mapping[str, Sequence[Hint]], around: Surroundings
) -> str:
    """Say why *policy* admits none of *hints*: what resources prefer, and who is in the way."""
    separator = "," if policy is TopologyPolicy.SINGLE_NUMA_NODE else " & "
    text = summary(hints, separator=separator)
    if not decide(policy, hints, Surroundings(zones=around.zones)).admitted:
        return text
    single, shared = mask_text(around.neighbours.single), mask_text(around.neighbours.shared)
    return (
        f"{text}; exclusive placement is required, but there are pods on one NUMA node"
        f" [{single}] and across several [{shared}]"
    )


def _is_single(hint: Hint) -> bool:
    return hint.preferred and (hint.mask is None or hint.mask.bit_count() == 1)
