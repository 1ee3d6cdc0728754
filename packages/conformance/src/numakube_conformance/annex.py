"""What replays of recordings add to numakube."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from numakube.annexes import Added, Annex

ANNEX: Final = Annex(
    name="conformance",
    summary="Recorded answers of Kubernetes and its neighbours, compared with ours.",
    extra="conformance",
    follows="Kubernetes 1.37",
    pages=("contribute/replay-formats.md",),
    replays=(
        Added(name="dra", summary="Claims for devices, allocated by kube-scheduler."),
        Added(name="exporter", summary="Scans of a node by the Resource Topology Exporter."),
        Added(name="filter", summary="Pods judged by NodeResourceTopologyMatch."),
        Added(name="kubelet", summary="Pods admitted and removed by a kubelet."),
        Added(name="scheduler", summary="Pods filtered and scored on nodes."),
        Added(name="values", summary="Quantities, CPU lists, requests of pods."),
    ),
    examples=MappingProxyType(
        {
            "replay dra": ("claims.jsonl.gz --check",),
            "replay exporter": ("scans.jsonl --check",),
            "replay filter": ("pods.jsonl --check",),
            "replay kubelet": ("cases.jsonl.gz --check",),
            "replay scheduler": ("pods.jsonl --check",),
            "replay values": ("values.jsonl --check",),
        }
    ),
)
