"""What relations between pods of one node add to numakube."""

from __future__ import annotations

from typing import Final

from numakube.annexes import Added, Annex

ANNEX: Final = Annex(
    name="zone-affinity",
    summary="Pods near and far from each other within a node, by NUMA node, PCI root or island.",
    extra="zone-affinity",
    pages=("how-to/keep-devices-close.md",),
    plugins=(
        Added(
            name="ZoneAffinity",
            summary="Keeps pods of a node apart or together, by NUMA node, PCI root or island.",
            by_default=True,
        ),
        Added(
            name="LinkedDevices",
            summary="Gives pods devices that are linked: NVLink, xGMI, HCCS.",
            by_default=True,
        ),
    ),
    checks=(
        Added(name="Zone affinity", summary="Are pods of a node apart or together as they ask?"),
    ),
    explainers=(
        Added(name="zone-affinity", summary="Which zone a pod would get, and who is there."),
    ),
    observations=(
        Added(name="linked", summary="Whether the devices of pods are linked as they ask."),
        Added(name="zone-affinity", summary="Whether pods are apart or together as they ask."),
    ),
)
