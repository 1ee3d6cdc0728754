"""What the SR-IOV device plugin adds to numakube."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from numakube.annexes import Added, Annex
from numakube.programs import ProgramEntry

ANNEX: Final = Annex(
    name="sriov",
    summary="A device plugin that tells the kubelet the NUMA nodes of PCI devices.",
    extra="sriov",
    follows="SR-IOV network device plugin 3.11",
    pages=("reference/sriov.md",),
    programs=(
        ProgramEntry(
            name="sriov",
            summary="Offer PCI devices to this node's kubelet.",
            port=2113,
            extra="sriov",
            on_every_node=True,
        ),
    ),
    manifests=(
        Added(
            name="sriov",
            summary="The SR-IOV device plugin: a DaemonSet. What it offers is in its ConfigMap.",
            uses_reports=False,
        ),
    ),
    node_groups=(Added(name="sriov", summary="The SR-IOV device plugin on these nodes."),),
    examples=MappingProxyType({"run sriov": ("--dry-run --explain", "--config-file pools.json")}),
)
