"""Sets of NUMA nodes on which a resource can be had, and how they read in messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numakube.values.numamask import NumaMask

_GROUP: Final = 2
"""Masks print in pairs of digits: ``01``, ``0100``."""
_SHOWN: Final = 8
"""Masks that a message shows; eight NUMA nodes have 255 of them."""


@dataclass(frozen=True, slots=True)
class Hint:
    """A set of NUMA nodes on which a resource can be had.

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
