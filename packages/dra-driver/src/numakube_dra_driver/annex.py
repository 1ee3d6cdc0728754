"""What the DRA driver adds to numakube."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from numakube.annexes import Annex
from numakube.programs import ProgramEntry

PORT: Final = 2115

ANNEX: Final = Annex(
    name="dra-driver",
    summary="A DRA driver that offers a node's CPUs by NUMA node, and makes claims true.",
    extra="dra-driver",
    follows="Kubernetes 1.34 to 1.37",
    pages=("reference/dra-driver.md",),
    programs=(
        ProgramEntry(
            name="dra-driver",
            summary="Offer this node's CPUs to claims, and make the claims true.",
            port=PORT,
            extra="dra-driver",
            on_every_node=True,
        ),
    ),
    examples=MappingProxyType(
        {"run dra-driver": ("", "--dry-run", "--cpu-devices l3 --cpu-step cpus")}
    ),
)
