"""Slices of which members run: what is missing of each goes where the rest of it is.

A slice that has lost a member is whole again only with a place in its own domain. So those places
come first, and only what is left makes new slices. Without ranks it does not matter which pod goes
to which slice; with them, pods of one slice follow those that run.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from numakube_levels.placement_choice import choices
from numakube_levels.placement_wish import Wish, less

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numakube_levels.gang_areas import GangAreas
    from numakube_levels.placement_wish import Area, Share, Slices


@dataclass(frozen=True, slots=True)
class NoRoom:
    """A domain that has no room for what its slices lack."""

    area: Area
    missing: int


def mended(
    areas: GangAreas, slices: tuple[Slices, ...], running: Sequence[int]
) -> list[Share] | NoRoom:
    """Return what completes the slices of members that run at rows *running*."""
    positions = {int(row): at for at, row in enumerate(areas.domains.rows.tolist())}
    known = [positions[row] for row in running if row in positions]
    counts = {one.level: Counter(areas.domains.ids[one.level][known].tolist()) for one in slices}

    def runs_in(area: Area) -> int:
        number = areas.numbers.get((area.level, area.name), -1)
        return counts[area.level][number] if number >= 0 else 0

    shares: list[Share] = []

    def mend(area: Area, layers: tuple[Slices, ...]) -> NoRoom | None:
        first = layers[0]
        for one in area.at(first.level):
            missing = -runs_in(one) % first.size
            if not missing:
                continue
            before = len(shares)
            if len(layers) == 1:
                if one.takes < missing:
                    return NoRoom(one, missing)
                shares.append((one, missing))
                continue
            short = mend(one, layers[1:])
            if short is not None:
                return short
            inside = shares[before:]
            left = missing - sum(count for _, count in inside)
            if left:
                wish = Wish(needed=left, wanted=left, slices=layers[1:])
                found = choices(less(one, inside), wish)
                if not found:
                    return NoRoom(one, left)
                shares.extend(found[0].shares)
        return None

    return mend(areas.whole, slices) or shares
