"""What tracing adds to numakube."""

from __future__ import annotations

from typing import Final

from numakube.annexes import Added, Annex

ANNEX: Final = Annex(
    name="tracing",
    summary="OpenTelemetry traces of a pod's way: queue, attempt, bind, kubelet.",
    extra="tracing",
    follows="OpenTelemetry semantic conventions 1.37",
    pages=("reference/debug-endpoints.md",),
    endpoints=(
        Added(
            name="traces",
            summary="Whether traces are exported, and where to.",
            path="/debug/traces",
        ),
    ),
)
