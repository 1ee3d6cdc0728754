"""Finding the pods behind a fingerprint.

A fingerprint names a set of pods without listing them, so sets are tried, likely ones first. What
differs between our view and the kubelet's is known: pods that it has admitted and we do not know to
be, pods admitted after the report, and pods that have ended or are being deleted, which some
kubelets and producers list and others do not. Upstream tries a single set and waits, sometimes
forever, until it is the right one.
"""

from __future__ import annotations

from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, Final

from numakube.scheduling.numa.caches.known_pods import KnownPod, PodStage
from numakube.scheduling.numa.caches.zone_use import claim_on
from numakube.topology.fingerprint import fingerprint_of, has_exclusive_resources
from numakube.topology.topology_view import FingerprintMethod

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numakube.topology.topology_view import NodeTopology

_MOST_TRIED: Final = 96
_MOST_ARRIVALS_TRIED: Final = 12


class FingerprintPods(StrEnum):
    """Of which pods fingerprints are; upstream's ``cache.resyncMethod``."""

    AUTODETECT = "Autodetect"
    ALL = "All"
    ONLY_EXCLUSIVE = "OnlyExclusiveResources"


def pods_behind(
    topology: NodeTopology, pods: Sequence[KnownPod], which: FingerprintPods
) -> frozenset[str] | None:
    """Return the uids of the *pods* whose fingerprint *topology* bears; ``None`` if none match.

    Args:
        topology: the report.
        pods: the pods of the node in the order in which the kubelet meets them.
        which: of which pods fingerprints are.
    """
    if topology.fingerprint is None:
        return None
    for relevant in _relevant(topology, pods, which):
        for chosen in islice(_candidates(relevant), _MOST_TRIED):
            names = ((pod.info.namespace, pod.info.name) for pod in chosen)
            if fingerprint_of(names) == topology.fingerprint:
                return _with_others(chosen, pods, relevant)
    return None


def _relevant(
    topology: NodeTopology, pods: Sequence[KnownPod], which: FingerprintPods
) -> Iterator[Sequence[KnownPod]]:
    """Yield the pods that fingerprints are of.

    Producers go by what the kubelet has given exclusively, which depends on its managers;
    upstream's scheduler goes by what the pod asks for.
    """
    if not _only_exclusive(topology, which):
        yield pods
        return
    given = [pod for pod in pods if claim_on(pod.info, topology)]
    listed = {name for zone in topology.zones for name in zone.available}
    asked = [pod for pod in pods if has_exclusive_resources(pod.info.pod, listed)]
    yield given
    if asked != given:
        yield asked


def _only_exclusive(topology: NodeTopology, which: FingerprintPods) -> bool:
    # A fingerprint in an annotation is of all pods; the view says so by its method.
    if which is FingerprintPods.AUTODETECT:
        return topology.fingerprint_method is FingerprintMethod.WITH_EXCLUSIVE_RESOURCES
    return which is FingerprintPods.ONLY_EXCLUSIVE


def _with_others(
    chosen: Sequence[KnownPod], pods: Sequence[KnownPod], relevant: Sequence[KnownPod]
) -> frozenset[str]:
    """Return the chosen pods, and those that need not be in a report of this kind.

    These are pods that the fingerprint is not about, and pods which the kubelet has let go.
    """
    wanted = {pod.uid for pod in relevant if not _is_leaving(pod)}
    others = (pod.uid for pod in pods if pod.uid not in wanted)
    return frozenset((*others, *(pod.uid for pod in chosen)))


def _candidates(pods: Sequence[KnownPod]) -> Iterator[list[KnownPod]]:
    """Yield sets of pods that a report may be of, likely ones first, each once."""
    leaving: list[KnownPod] = []
    taken: list[KnownPod] = []
    coming: list[KnownPod] = []
    for pod in pods:
        if _is_leaving(pod):
            leaving.append(pod)
        else:
            (taken if pod.stage is PodStage.TAKEN else coming).append(pod)
    staying, known = taken + coming, len(taken)
    for gone in _departures(leaving):
        for arrived in _nearest_first(known, len(staying))[:_MOST_ARRIVALS_TRIED]:
            yield [*gone, *staying[:arrived]]


def _is_leaving(pod: KnownPod) -> bool:
    return pod.stage is PodStage.ENDED or pod.info.is_being_deleted


def _departures(leaving: Sequence[KnownPod]) -> Iterator[list[KnownPod]]:
    """Yield which of the pods that are *leaving* may still be listed."""
    deleted = [pod for pod in leaving if pod.stage is not PodStage.ENDED]
    yield deleted
    for choice in ([], list(leaving), [pod for pod in leaving if pod.stage is PodStage.ENDED]):
        if choice != deleted:
            yield choice
    # The one that left last, or first, is the only one that makes a difference.
    for pod in leaving:
        yield [pod]
        yield [other for other in leaving if other is not pod]


def _nearest_first(middle: int, end: int) -> list[int]:
    """Return the numbers from 0 to *end*, those near *middle* first."""
    return sorted(range(end + 1), key=lambda number: (abs(number - middle), -number))
