"""What levels add to numakube."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from numakube.annexes import Added, Annex

ANNEX: Final = Annex(
    name="levels",
    summary="Gangs over several levels of topology: racks, blocks and NVLink domains.",
    extra="levels",
    follows="Kueue 0.19, KAI 2026-08, Volcano 1.16",
    pages=("how-to/place-gangs-by-levels.md",),
    commands=(
        Added(
            name="top domains",
            summary="Which racks or NVLink domains are whole, and what breaks the others?",
            section="Look",
        ),
    ),
    plugins=(
        Added(
            name="TopologyLevels",
            summary="Places gangs by levels of topology, all domains costed.",
            by_default=True,
        ),
        Added(
            name="DomainProtection",
            summary="Keeps pods that ask for no level out of whole domains.",
            by_default=True,
            weight=5,
        ),
    ),
    examples=MappingProxyType(
        {"top domains": ("", "--level nvlink --shape cpu=64,nvidia.com/gpu=4 --size 16")}
    ),
)
