"""What measuring adds to numakube."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from numakube.annexes import Added, Annex
from numakube.programs import FeatureGate, Stage

ANNEX: Final = Annex(
    name="measured",
    summary="What pods and NUMA nodes really use, measured, beside what was promised.",
    extra="measured",
    follows="Linux 6.12: control groups, sysfs, procfs, resctrl",
    pages=("reference/measured.md",),
    commands=(
        Added(
            name="bench",
            summary="How fast is memory of other NUMA nodes on this machine?",
            section="Check and plan",
        ),
    ),
    observations=(
        Added(
            name="measured", summary="What pods and zones really have, in explanations and tables."
        ),
    ),
    plugins=(
        Added(
            name="MeasuredRoom",
            summary="Prefers nodes whose zones have memory left as measured; off by default.",
        ),
    ),
    checks=(Added(name="Measured", summary="Do pods get what they were promised?"),),
    report_annotations=(
        Added(name="measured", summary="Where memory, threads and interrupts of pods really are."),
    ),
    examples=MappingProxyType(
        {
            "bench": ("node",),
            "bench node": ("", "-o svg --output-file memory.svg", "-o annotation --node worker-0"),
        }
    ),
    feature_gates=(
        FeatureGate(
            name="MeasuredLocality",
            summary="Exporters measure where memory and threads of pods really are.",
            asked_for="run exporter --measure",
            stage=Stage.BETA,
            since="1.0",
        ),
    ),
)
