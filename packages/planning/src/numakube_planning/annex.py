"""What planning adds to numakube."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from numakube.annexes import Added, Annex
from numakube.programs import FeatureGate, ProgramEntry, Stage

REBALANCER: Final = ProgramEntry(
    name="rebalancer", summary="Move a few pods an hour so that others fit.", port=8083
)
ADMISSION_CHECK: Final = ProgramEntry(
    name="admission-check",
    summary="Let queued work start only when all of its pods fit.",
    port=8082,
)

ANNEX: Final = Annex(
    name="planning",
    summary="What would become of pods, and which to move so that others fit.",
    extra="planning",
    follows="Kueue 0.19, kube-controller-manager 1.35",
    pages=(
        "how-to/make-room-by-moving-pods.md",
        "how-to/queue-until-it-fits.md",
        "reference/simulate.md",
    ),
    programs=(ADMISSION_CHECK, REBALANCER),
    commands=(
        Added(
            name="fits",
            summary="How many more of these pods fit, where, and what limits the next one?",
            section="Look",
        ),
        Added(
            name="report",
            summary="How was the cluster used, what was stranded, and who waited?",
            section="Look",
        ),
        Added(
            name="check pods",
            old_name="audit",
            summary="Which pods want alignment and do not have it?",
        ),
        Added(
            name="plan simulate",
            old_name="simulate",
            summary="What would become of pods on a cluster?",
            extra="simulate",
        ),
        Added(
            name="plan advise",
            old_name="advise",
            summary="Which smaller request gives a pod more places?",
        ),
        Added(
            name="plan defrag",
            old_name="defrag",
            summary="Which pods would have to move so that these fit?",
        ),
    ),
    explainers=(Added(name="moves", summary="The moves that would let a pod fit."),),
    endpoints=(Added(name="fit", summary="Whether pods would fit.", path="/v1/fit"),),
    manifests=(
        Added(
            name="admission",
            summary="Lets queued work start when all of its pods fit.",
            on_request=True,
        ),
        Added(name="rebalancer", summary="Moves pods so that others fit.", on_request=True),
    ),
    companions=(
        Added(name="admissionCheck", summary="An admission check beside a scheduler."),
        Added(name="rebalancer", summary="A rebalancer beside a scheduler."),
    ),
    examples=MappingProxyType(
        {
            "fits": (
                "-f pod.yaml",
                "--shape cpu=8,memory=32Gi,nvidia.com/gpu=1",
                "-f job.yaml -o json",
            ),
            "report": (
                "--prometheus monitoring/prometheus-k8s:9090 --weekly",
                "--prometheus https://prometheus.example --days 30 -o json",
            ),
            "check pods": ("", "-n team -o wide", "pod/web -o json"),
            "plan simulate": (
                '--nodes "10x 2 sockets, 16 cores, smt 2, 128Gi, gpu 4" -f mix.yaml --seeds 10',
                "--from cluster.yaml --set topologyManagerPolicy=restricted",
                "--trace openb_pod_list_default.csv --trace-nodes openb_node_list_all_node.csv",
                "--drain node-3 --scheduler numakube",
            ),
            "plan advise": ("-f pod.yaml", "deployment/web", "pod web -n team -o json"),
            "plan defrag": (
                "--shape cpu=16,memory=64Gi,nvidia.com/gpu=2 --count 4",
                "pod/web --apply",
                "--reduce-stranded --moves 10 --map",
                "-f pod.yaml -o json",
            ),
            "run rebalancer": ("--dry-run", "--moves-per-hour 10 --quiet-hours 08:00-18:00"),
            "run admission-check": ("--no-gates --hold 5m", "--no-kueue"),
        }
    ),
    feature_gates=(
        FeatureGate(
            name="PodMoves",
            summary="Pods are moved so that others fit.",
            asked_for="run rebalancer",
            stage=Stage.BETA,
            since="0.9",
        ),
    ),
)
