"""What placement by annotation adds to numakube."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from numakube.annexes import Added, Annex
from numakube.programs import FeatureGate, ProgramEntry, Stage
from numakube_placement import ENFORCER_PORT, WEBHOOK_PORT

ANNEX: Final = Annex(
    name="placement",
    summary="The scheduler places pods on NUMA nodes by annotations, and an agent enforces it.",
    extra="placement",
    follows="Koordinator 1.6",
    pages=(
        "how-to/align-without-the-kubelet.md",
        "how-to/migrate-from-scheduler-plugins.md",
        "reference/placement-by-scheduler.md",
        "reference/policy-by-annotation.md",
    ),
    programs=(
        ProgramEntry(
            name="enforcer",
            summary="Give containers what a scheduler allotted to them.",
            port=ENFORCER_PORT,
            extra="enforcer",
            on_every_node=True,
        ),
        ProgramEntry(
            name="webhook",
            summary="Refuse pods whose NUMA annotations are wrong.",
            port=WEBHOOK_PORT,
        ),
    ),
    commands=(
        Added(
            name="check manifests",
            old_name="check",
            summary="Are NUMA annotations and labels in manifests right?",
        ),
    ),
    plugins=(
        Added(
            name="NodeNUMAResource",
            summary="Places pods on nodes whose kubelet aligns nothing.",
        ),
        Added(name="DeviceShare", summary="Is there for configurations that name it."),
    ),
    plugin_explainers=(
        Added(name="NodeNUMAResource", summary="By which rule a pod is placed, and what helps."),
    ),
    allotments=(
        Added(name="koordinator", summary="What Koordinator's and KAI's annotations say."),
    ),
    checks=(
        Added(
            name="Placement by the scheduler",
            summary="Do nodes where the scheduler places pods have what that takes?",
        ),
    ),
    report_annotations=(Added(name="koordinator", summary="What koordlet writes into reports."),),
    manifests=(
        Added(
            name="enforcer",
            summary="The enforcer on every node.",
            on_request=True,
            uses_reports=False,
        ),
        Added(name="webhook", summary="The admission webhook.", on_request=True),
    ),
    definitions=(
        Added(
            name="nrt-v1beta1", summary="NodeResourceTopology with the proposed version v1beta1."
        ),
    ),
    examples=MappingProxyType(
        {
            "run enforcer": ("--once",),
            "run webhook": ("--tls-cert-file tls.crt --tls-key-file tls.key",),
            "check manifests": ("deploy/", "- < pod.yaml"),
        }
    ),
    feature_gates=(
        FeatureGate(
            name="EnforcerNRI",
            summary="The enforcer sets containers before they start, as a plug-in of the runtime.",
            asked_for="run enforcer --nri",
            stage=Stage.BETA,
            since="0.9",
        ),
        FeatureGate(
            name="NodeResourceTopologyV1Beta1",
            summary="The proposed v1beta1 of NodeResourceTopology, and its conversion.",
            asked_for="deploy --nrt-v1beta1",
            stage=Stage.ALPHA,
            since="0.9",
        ),
    ),
)
