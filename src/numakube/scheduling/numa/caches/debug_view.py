"""What a cache rests on for one node, for those who look inside.

The report that is believed and the pods that the API server tells of are two views of the same
node. Where they differ is where trouble comes from: pods that we know of and the report does not,
pods that the report has and the cache does not know, and fingerprints that do not agree.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from numakube.scheduling.numa.caches.counts_belief import CountsBelief, claim_on
from numakube.scheduling.numa.caches.known_pods import KnownPod, PodStage, stage_of
from numakube.scheduling.numa.caches.model_belief import ExactBelief
from numakube.scheduling.numa.caches.overreserve import OverReserve
from numakube.scheduling.numa.caches.passthrough import DiscardReserved, Passthrough
from numakube.scheduling.numa.caches.predict import Predict
from numakube.scheduling.numa.caches.report_coverage import FingerprintPods, pods_behind
from numakube.scheduling.numa.caches.since_report import is_named
from numakube.topology.exact_report import uid_hash
from numakube.topology.fingerprint import fingerprint_of
from numakube.topology.topology_view import FingerprintMethod

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numakube.scheduling.numa.caches.cache_contract import NumaCache
    from numakube.scheduling.snapshot.pods import PodInfo
    from numakube.scheduling.snapshot.zone_belief import KubeletRejection, NumaBelief, ZoneUse
    from numakube.topology.exact_report import ExactReport
    from numakube.topology.numa_zones import ZoneView
    from numakube.topology.topology_view import NodeTopology
    from numakube.values.resources import Amounts

Held: TypeAlias = "ZoneUse | KubeletRejection"


@dataclass(frozen=True, slots=True)
class Fingerprints:
    """Both sides of the handshake.

    Attributes:
        reported: that of the report; ``None`` if it has none.
        computed: that of the pods which the kubelet has acknowledged, as far as we know.
        matched: whether the reported one is that of pods which we know, those or a few others.
    """

    reported: str | None
    method: str
    computed: str
    matched: bool


@dataclass(frozen=True, slots=True)
class Examination:
    """What is known of one node.

    Attributes:
        serial: how many reports of the node came before the believed one.
        only_here: pods with resources of their own that the report does not name.
        only_reported: short hashes of unknown pods that the report names.
        held: what is held for pods on their way, by uid.
    """

    serial: int
    fingerprints: Fingerprints
    only_here: tuple[PodInfo, ...]
    only_reported: tuple[str, ...]
    held: Mapping[str, Held]


def mode_of(cache: NumaCache) -> str:
    """Return how a cache is called in configurations."""
    names = (
        (Predict, "predict"),
        (OverReserve, "overreserve"),
        (DiscardReserved, "discardreserved"),
        (Passthrough, "passthrough"),
    )
    return next((name for kind, name in names if isinstance(cache, kind)), type(cache).__name__)


def examine(belief: NumaBelief, pods: Iterable[PodInfo]) -> Examination:
    """Compare the report behind *belief* with the *pods* known to be on the node."""
    topology = belief.topology
    here = list(pods)
    serial, held = _held(belief)
    if topology is None:
        return Examination(serial, Fingerprints(None, "", "", matched=False), (), (), held)
    report = topology.report
    return Examination(
        serial,
        _fingerprints(topology, here),
        () if report is None else _only_here(topology, report, here),
        () if report is None else _only_reported(report, here),
        held,
    )


def _held(belief: NumaBelief) -> tuple[int, Mapping[str, Held]]:
    if isinstance(belief, ExactBelief):
        return belief.basis.report.serial, belief.foreseen
    if isinstance(belief, CountsBelief):
        zones = belief.report.topology.zones
        charged: dict[str, Held] = {
            uid: _by_zone(zones, parts) for uid, parts in belief.charged.items()
        }
        return belief.report.serial, charged
    return 0, {}


def _by_zone(zones: Iterable[ZoneView], parts: Iterable[Amounts]) -> ZoneUse:
    return {(zone.id,): part for zone, part in zip(zones, parts, strict=False) if part}


def _fingerprints(topology: NodeTopology, pods: Sequence[PodInfo]) -> Fingerprints:
    known = [
        KnownPod(pod, topology.node, stage_of(pod.pod), (0, "", 0, number), PodStage.TAKEN)
        for number, pod in enumerate(pods)
    ]
    exclusive = topology.fingerprint_method is FingerprintMethod.WITH_EXCLUSIVE_RESOURCES
    counted = [
        pod
        for pod in known
        if pod.stage is PodStage.TAKEN and (not exclusive or claim_on(pod.info, topology))
    ]
    return Fingerprints(
        topology.fingerprint,
        topology.fingerprint_method.value,
        fingerprint_of((pod.info.namespace, pod.info.name) for pod in counted),
        matched=pods_behind(topology, known, FingerprintPods.AUTODETECT) is not None,
    )


def _only_here(
    topology: NodeTopology, report: ExactReport, pods: Iterable[PodInfo]
) -> tuple[PodInfo, ...]:
    return tuple(pod for pod in pods if claim_on(pod, topology) and not is_named(pod, report))


def _only_reported(report: ExactReport, pods: Iterable[PodInfo]) -> tuple[str, ...]:
    named = [pod for pod in pods if is_named(pod, report)]
    known = {uid_hash(pod.uid) for pod in named}
    strangers = [short for short in report.pods if short not in known]
    # Static pods have another uid with the kubelet: they are named, but not by their hash.
    static = sum(uid_hash(pod.uid) not in report.pods for pod in named)
    return tuple(strangers[: max(0, len(strangers) - static)])
