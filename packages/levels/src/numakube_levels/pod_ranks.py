"""Ranks of pods: consecutive ones belong next to each other, and to one slice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numakube.scheduling.snapshot.pods import PodInfo

RANK_LABELS: Final = (
    "batch.kubernetes.io/job-completion-index",
    "apps.kubernetes.io/pod-index",
    "leaderworkerset.sigs.k8s.io/worker-index",
    "training.kubeflow.org/replica-index",
    "kueue.x-k8s.io/pod-group-pod-index",
)
"""Labels with the number of a pod among its like; the first that all pods have counts."""
_DIGITS: Final = 9


def ranks_of(pods: Sequence[PodInfo]) -> list[int] | None:
    """Return the rank of each of *pods*; nothing unless all have one of their own."""
    for label in RANK_LABELS:
        texts = [pod.labels.get(label, "") for pod in pods]
        if all(text.isdecimal() and len(text) <= _DIGITS for text in texts):
            ranks = [int(text) for text in texts]
            return ranks if len(set(ranks)) == len(ranks) else None
    return None


def in_rank_order(pods: Sequence[PodInfo]) -> list[PodInfo]:
    """Return *pods* by rank; as they are if they have none."""
    ranks = ranks_of(pods)
    if ranks is None:
        return list(pods)
    return [pod for _, pod in sorted(zip(ranks, pods, strict=True), key=lambda pair: pair[0])]
