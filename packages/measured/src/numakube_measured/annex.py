"""What measuring adds to numakube."""

from __future__ import annotations

from typing import Final

from numakube.annexes import Added, Annex

ANNEX: Final = Annex(
    name="measured",
    summary="What pods and NUMA nodes really use, measured, beside what was promised.",
    extra="measured",
    follows="Linux 6.12: control groups, sysfs, procfs, resctrl",
    pages=("reference/measured.md",),
    report_annotations=(
        Added(name="measured", summary="Where memory, threads and interrupts of pods really are."),
    ),
)
