"""What levels add to numakube."""

from __future__ import annotations

from typing import Final

from numakube.annexes import Added, Annex

ANNEX: Final = Annex(
    name="levels",
    summary="Gangs over several levels of topology: racks, blocks and NVLink domains.",
    extra="levels",
    follows="Kueue 0.19, KAI 2026-08, Volcano 1.16",
    pages=("how-to/place-gangs-by-levels.md",),
    plugins=(
        Added(
            name="TopologyLevels",
            summary="Places gangs by levels of topology, all domains costed.",
            by_default=True,
        ),
    ),
)
