"""What the DRA driver adds to numakube."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from numakube.annexes import Added, Annex
from numakube.programs import ProgramEntry

PORT: Final = 2115
WRITER_PORT: Final = 2116
CORES: Final = "cores"
CPUS: Final = "cpus"
"""How many CPUs claims get at a time: whole cores, or single ones."""

ANNEX: Final = Annex(
    name="dra-driver",
    summary="A DRA driver that offers CPUs, memory and PCI functions, and makes claims true.",
    extra="dra-driver",
    follows="Kubernetes 1.34 to 1.37",
    pages=(
        "how-to/choose-topology-manager-or-claims.md",
        "reference/dra-driver.md",
    ),
    programs=(
        ProgramEntry(
            name="dra-driver",
            summary="Offer this node's CPUs and memory to claims, and make the claims true.",
            port=PORT,
            extra="dra-driver",
            on_every_node=True,
        ),
        ProgramEntry(
            name="claim-writer",
            summary="Write claims into new pods, for what they ask for.",
            port=WRITER_PORT,
        ),
    ),
    commands=(
        Added(
            name="claim",
            summary="Write claims into pods, so that a DRA driver aligns them.",
            section="Deploy",
        ),
    ),
    checks=(
        Added(
            name="Claims for CPUs and memory",
            summary="Do nodes and pods have what claims for CPUs and memory take?",
        ),
    ),
    manifests=(
        Added(
            name="dra",
            summary="The DRA driver on every node. CPUs and memory of nodes come by claim.",
            on_request=True,
            uses_reports=False,
        ),
        Added(
            name="claims",
            summary="Writes claims into pods that ask for it. Needs the Secret"
            " numakube-claim-writer-tls.",
            on_request=True,
            uses_reports=False,
        ),
    ),
    node_groups=(Added(name="dra", summary="The DRA driver on these nodes."),),
    examples=MappingProxyType(
        {
            "run dra-driver": ("", "--dry-run", "--cpu-devices l3 --cpu-step cpus"),
            "run claim-writer": ("--tls-cert-file tls.crt --tls-key-file tls.key",),
            "claim": ("-f pod.yaml", "-f pod.yaml --class numa-cpus"),
        }
    ),
)
