"""Islands: devices of one resource of which each is linked to every other (NVLink, xGMI, HCCS).

Devices that are linked to some of a set only are in the largest sets that they complete. Where all
devices of a machine are linked to each other, by NVSwitches, they are one island.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numakube.kubelet.machine import DeviceTree

_MOST_FUNCTIONS: Final = 64
"""Of one resource that may be linked: reports are written by others."""


def islands_of(tree: DeviceTree, functions: Iterable[str]) -> tuple[frozenset[str], ...]:
    """Return the islands that *functions* form, in order of their addresses.

    A function without links is an island of its own where others are linked; where none is, nothing
    is known of islands and there are none.
    """
    known = sorted({one for one in functions if one})
    numbers = {one: index for index, one in enumerate(known)}
    near = [0] * len(known)
    for one, other in tree.links:
        if one in numbers and other in numbers and one != other:
            near[numbers[one]] |= 1 << numbers[other]
            near[numbers[other]] |= 1 << numbers[one]
    if not any(near) or len(known) > _MOST_FUNCTIONS:
        return ()
    islands = _cliques(near)
    return tuple(
        frozenset(known[index] for index in range(len(known)) if island >> index & 1)
        for island in sorted(islands, key=lambda bits: bits & -bits)
    )


def _cliques(near: list[int]) -> list[int]:
    """Return the largest sets whose members are all linked, every function in one at least.

    Components that are cliques, which machines have, take one step each. Of others the sets are
    found greedily, one that has the function with the most links first: at most as many as there
    are functions, since to list all of them may take for ever.
    """
    found: dict[int, None] = {}
    covered = 0
    for start in sorted(range(len(near)), key=lambda one: -near[one].bit_count()):
        if covered >> start & 1:
            continue
        island, candidates = 1 << start, near[start]
        while candidates:
            best = max(
                (one for one in range(len(near)) if candidates >> one & 1),
                key=lambda one: ((near[one] & candidates).bit_count(), -one),
            )
            island |= 1 << best
            candidates &= near[best]
        found[island] = None
        covered |= island
    return list(found)
