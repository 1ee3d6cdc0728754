"""What the dashboard and the drawings of nodes add to numakube."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from numakube.annexes import Added, Annex
from numakube.programs import ProgramEntry

DASHBOARD: Final = ProgramEntry(
    name="dashboard",
    summary="Serve pages that show a cluster by NUMA zone.",
    port=8090,
    extra="pages",
    section="Look",
)

ANNEX: Final = Annex(
    name="pages",
    summary="Web pages that show a cluster by NUMA zone, and maps of nodes as SVG and PNG.",
    extra="pages",
    pages=("reference/dashboard.md", "reference/map.md"),
    programs=(DASHBOARD,),
    endpoints=(Added(name="dashboard", summary="The pages of the dashboard.", path="/dashboard/"),),
    drawings=(
        Added(name="svg", summary="A drawing for pages, light or dark as the reader has it."),
        Added(name="png", summary="The same drawing as an image."),
    ),
    examples=MappingProxyType(
        {
            "dashboard": (
                "",
                "--port 9000",
                "--prometheus monitoring/prometheus-k8s:9090",
                "--from numakube-bundle.tar.gz",
            )
        }
    ),
)
