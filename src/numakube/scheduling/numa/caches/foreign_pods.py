"""Pods of other schedulers, whose places are unknown: which of them block a node."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from numakube.scheduling.numa.caches.known_pods import KnownPod, PodStage
from numakube.scheduling.numa.caches.zone_use import claim_on

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from numakube.topology.topology_view import NodeTopology


class ForeignPods(StrEnum):
    """Which pods of other schedulers raise doubts; upstream's ``cache.foreignPodsDetect``."""

    NONE = "None"
    ALL = "All"
    ONLY_EXCLUSIVE = "OnlyExclusiveResources"

    def counts(self, pod: KnownPod, topology: NodeTopology) -> bool:
        """Tell whether *pod* raises doubts about a node with *topology*."""
        if self is ForeignPods.ONLY_EXCLUSIVE:
            return bool(claim_on(pod.info, topology))
        return self is ForeignPods.ALL


def is_ours(pod: KnownPod, profiles: Collection[str]) -> bool:
    """Tell whether a scheduler of this process, one of *profiles*, placed *pod*."""
    if pod.first_stage is PodStage.RESERVED:
        return True
    return pod.info.pod.spec.scheduler_name in profiles


def blocked_by(foreign: Sequence[KnownPod]) -> str:
    """Say which pods block a node; empty if nothing does."""
    if not foreign:
        return ""
    shown = ", ".join(pod.info.key for pod in foreign[:3]) + (", ..." if len(foreign) > 3 else "")
    return f"no report yet has the pods of other schedulers: {shown}"
