"""Which pods a report without names accounts for.

Third-party reports carry a fingerprint of their pods at best. If it is that of pods which we know,
we know which ones. But kubelets list pods before they have given them anything, so being named is
not enough: the kubelet must have acknowledged the pod, and a report that was there before that must
show as much in use as its pods hold. If the fingerprint matches no set of pods, or is missing, a
pod counts as contained in the report when

* a report came after the kubelet had acknowledged the pod; two reports, if they bear a fingerprint,
  because that of the first one says that it may be older than the pod; or
* nothing came for `PATIENCE_SECONDS` after that: many producers write only when something changes.

So no doubt lasts, whatever the producer does.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, Final

from numakube.scheduling.numa.caches.counts_belief import claim_on
from numakube.scheduling.numa.caches.known_pods import KnownPod, PodStage
from numakube.topology.fingerprint import fingerprint_of, has_exclusive_resources
from numakube.topology.topology_view import FingerprintMethod

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numakube.scheduling.numa.caches.latest_reports import LatestReport
    from numakube.topology.topology_view import NodeTopology


# ------------------------------------------------------------------------------------------------
# Finding the pods behind a fingerprint.
#
# A fingerprint names a set of pods without listing them, so sets are tried, likely ones first.
# What differs between our view and the kubelet's is known: pods that it has admitted and we do not
# know to be, pods admitted after the report, and pods that have ended or are being deleted, which
# some kubelets and producers list and others do not. Upstream tries a single set and waits,
# sometimes forever, until it is the right one.

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


# ------------------------------------------------------------------------------------------------
# Which pods a report without names accounts for.

PATIENCE_SECONDS: Final = 90.0
"""NFD writes once a minute at most."""


@dataclass(slots=True)
class _Acknowledged:
    """When a pod was seen to be acknowledged: after which report, and when by the clock."""

    serial: int
    at: float | None = None
    waited: bool = False


@dataclass(frozen=True, slots=True)
class Coverage:
    """What is known of one report.

    Attributes:
        accounted: uids of the pods that it contains.
        confirmed: whether its fingerprint says so.
    """

    accounted: frozenset[str]
    confirmed: bool


class Evidence:
    """Judges reports without names."""

    def __init__(
        self,
        *,
        pods: FingerprintPods = FingerprintPods.AUTODETECT,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        self._which = pods
        self._patience = patience_seconds
        self._acknowledged: dict[str, _Acknowledged] = {}
        self._known: dict[str, tuple[object, frozenset[str] | None]] = {}

    def note(self, pod: KnownPod, latest: LatestReport | None) -> None:
        """Take note of how far *pod* has come while *latest* was the latest report of its node."""
        if pod.stage is not PodStage.TAKEN or pod.uid in self._acknowledged:
            return
        serial = latest.serial if latest is not None else 0
        if pod.first_stage is PodStage.TAKEN:
            # It was there when we came, and may well be older than the latest report.
            serial = max(0, serial - 1)
        self._acknowledged[pod.uid] = _Acknowledged(serial)

    def note_contained(self, uid: str) -> None:
        """Take note that an earlier report named the pod, so that later ones contain it."""
        self._acknowledged[uid] = _Acknowledged(0, waited=True)

    def note_all_contained(self, pods: Iterable[KnownPod]) -> None:
        """Note that the latest report contains those of *pods* that the kubelet acknowledged."""
        for pod in pods:
            if pod.stage is PodStage.TAKEN:
                self.note_contained(pod.uid)

    def forget(self, uid: str) -> None:
        """Forget a pod."""
        self._acknowledged.pop(uid, None)

    def forget_node(self, node: str) -> None:
        """Forget what was found out about the reports of *node*."""
        self._known.pop(node, None)

    def find(self, report: LatestReport, pods: Sequence[KnownPod]) -> Coverage:
        """Return which of *pods* are contained in *report*."""
        matched = self._matched(report, pods)
        if matched is not None:
            return Coverage(matched - self._too_early(report, pods, matched), confirmed=True)
        needed = 1 if report.topology.fingerprint is None else 2
        alive = (pod for pod in pods if pod.stage is not PodStage.ENDED)
        return Coverage(
            frozenset(pod.uid for pod in alive if self._is_old(pod.uid, report.serial - needed)),
            confirmed=False,
        )

    def wait(self, pods: Iterable[KnownPod], now: float) -> bool:
        """Let time pass; tell whether the waiting time of any of *pods* is over."""
        ended = False
        for pod in pods:
            seen = self._acknowledged.get(pod.uid)
            if seen is None or seen.waited:
                continue
            if seen.at is None:
                seen.at = now
            elif now - seen.at >= self._patience:
                seen.waited = ended = True
        return ended

    def _too_early(
        self, report: LatestReport, pods: Sequence[KnownPod], matched: frozenset[str]
    ) -> frozenset[str]:
        """Return the pods that *report* names and may not know: those that were being admitted."""
        coming = {pod.uid for pod in pods if pod.stage < PodStage.TAKEN}
        taken = [pod for pod in pods if pod.uid in matched and pod.stage is PodStage.TAKEN]
        latest = {pod.uid for pod in taken if not self._is_old(pod.uid, report.serial - 1)}
        return frozenset(coming if not latest or _shows(report, taken) else coming | latest)

    def _is_old(self, uid: str, serial: int) -> bool:
        seen = self._acknowledged.get(uid)
        return seen is not None and (seen.waited or seen.serial <= serial)

    def _matched(self, report: LatestReport, pods: Sequence[KnownPod]) -> frozenset[str] | None:
        """Return the pods whose fingerprint the report bears; computed once for the same pods."""
        if report.topology.fingerprint is None:
            return None
        key = (report.serial, [(pod.uid, pod.stage, pod.info.is_being_deleted) for pod in pods])
        known = self._known.get(report.node)
        if known is not None and known[0] == key:
            return known[1]
        matched = pods_behind(report.topology, pods, self._which)
        self._known[report.node] = (key, matched)
        return matched


def _shows(report: LatestReport, pods: Iterable[KnownPod]) -> bool:
    """Tell whether *report* has as much in use as the containers of *pods* hold, or more."""
    held: Counter[str] = Counter()
    for pod in pods:
        for part in claim_on(pod.info, report.topology).running:
            held.update(part)
    used: Counter[str] = Counter()
    for zone in report.topology.zones:
        for name, amount in zone.allocatable.items():
            used[name] += amount - zone.available.get(name, 0)
    return all(used[name] >= amount for name, amount in held.items())
