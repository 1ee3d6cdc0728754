"""What the DRA driver adds to numakube."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from numakube.annexes import Added, Annex
from numakube.programs import ProgramEntry

PORT: Final = 2115
CORES: Final = "cores"
CPUS: Final = "cpus"
"""How many CPUs claims get at a time: whole cores, or single ones."""

ANNEX: Final = Annex(
    name="dra-driver",
    summary="A DRA driver that offers CPUs and memory by NUMA node, and makes claims true.",
    extra="dra-driver",
    follows="Kubernetes 1.34 to 1.37",
    pages=("reference/dra-driver.md",),
    programs=(
        ProgramEntry(
            name="dra-driver",
            summary="Offer this node's CPUs and memory to claims, and make the claims true.",
            port=PORT,
            extra="dra-driver",
            on_every_node=True,
        ),
    ),
    manifests=(
        Added(
            name="dra",
            summary="The DRA driver on every node. CPUs and memory of nodes come by claim.",
            on_request=True,
            uses_reports=False,
        ),
    ),
    node_groups=(Added(name="dra", summary="The DRA driver on these nodes."),),
    examples=MappingProxyType(
        {"run dra-driver": ("", "--dry-run", "--cpu-devices l3 --cpu-step cpus")}
    ),
)
