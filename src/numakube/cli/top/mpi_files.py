"""Host and rank files for MPI: one rank for each pod, bound to the CPUs that the pod has.

The form is Open MPI's. A host is a pod, by the name under which other pods reach it; ranks follow
the index of an indexed Job, or else the numbers in the pods' names.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from numakube.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numakube.api.pod import Pod
    from numakube.insight.usage.pod_alignment import PodUsage

_INDEX: Final = "batch.kubernetes.io/job-completion-index"
_NUMBER: Final = re.compile(r"([0-9]+)")


def hostfile(pods: Sequence[Pod], usages: Iterable[PodUsage]) -> list[str]:
    """Return a line for each pod on a node, with as many slots as it has CPUs for itself alone."""
    return [f"{_host(pod)} slots={max(1, len(use.cpus))}" for pod, use in _ranked(pods, usages)]


def rankfile(pods: Sequence[Pod], usages: Iterable[PodUsage]) -> list[str]:
    """Return a line for each rank with its CPUs, by the numbers that they have on the node.

    Raises:
        ConfigError: it is not known which CPUs a pod has: its rank would be bound to others'.
    """
    lines = []
    for rank, (pod, use) in enumerate(_ranked(pods, usages)):
        if not use.cpus:
            raise ConfigError(
                f"pod {use.namespace}/{use.name} has no CPUs of its own that are known"
                f" ({use.why_unknown or use.words}); a rank file needs them of every pod"
            )
        lines.append(f"rank {rank}={_host(pod)} slot={use.cpus}")
    return lines


def _ranked(pods: Sequence[Pod], usages: Iterable[PodUsage]) -> list[tuple[Pod, PodUsage]]:
    placed = [(pod, use) for pod, use in zip(pods, usages, strict=True) if use.node]
    return sorted(placed, key=lambda each: _order(each[0]))


def _order(pod: Pod) -> tuple[object, ...]:
    """Return what pods are ranked by: ``w-2`` comes before ``w-10``."""
    name = [int(part) if part.isdigit() else part for part in _NUMBER.split(pod.metadata.name)]
    labels = pod.metadata.labels or {}
    index = labels.get(_INDEX, "")
    return (pod.metadata.namespace, int(index) if index.isdigit() else 0, *name)


def _host(pod: Pod) -> str:
    """Return the name under which other pods reach a pod; with a subdomain that is a DNS name."""
    name, spec = pod.spec.hostname or pod.metadata.name, pod.spec
    return f"{name}.{spec.subdomain}.{pod.metadata.namespace}.svc" if spec.subdomain else name
