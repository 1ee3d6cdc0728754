"""What has happened on a node since its report, in the order in which its kubelet met it.

Where the kubelet puts a pod depends on who is there at that moment. So it matters whether a pod
ended before or after others were admitted. A kubelet reports both in order: a pod that it had
acknowledged when the end of a pod became known was admitted before, and all others after.

Where the node's exporter reports only surprises (`numakube.topology.foreseen_holdings`), a pod that
the kubelet has acknowledged is simply where its annotation says: the exporter would contradict.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

from numakube.api.pod import static_uid
from numakube.scheduling.numa.caches.known_pods import PodStage
from numakube.topology.exact_report import uid_hash
from numakube.topology.foreseen_holdings import read_foreseen

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from numakube.scheduling.numa.caches.known_pods import KnownPod
    from numakube.scheduling.numa.caches.latest_reports import LatestReport
    from numakube.scheduling.numa.caches.model_belief import ExactBelief
    from numakube.scheduling.snapshot.pods import PodInfo
    from numakube.topology.exact_report import ExactReport, Holding, UidHash


_MOST_UNREPORTED: Final = 64
"""Pods that came and went between two reports: a dead exporter must not make them pile up."""


@dataclass(frozen=True, slots=True)
class AdmissionStep:
    """A pod is admitted, or refused."""

    pod: PodInfo


@dataclass(frozen=True, slots=True)
class PlacementStep(AdmissionStep):
    """A pod has been admitted and holds what was foreseen."""

    holding: Holding


@dataclass(frozen=True, slots=True)
class ReleaseStep:
    """What a pod holds is released; of one that is known from a report alone, its hash is given."""

    uid: str


Step: TypeAlias = AdmissionStep | ReleaseStep


@dataclass(frozen=True, slots=True)
class Departure:
    """A pod that has ended, or was deleted before any report named it.

    Attributes:
        pod: as it was last known.
        after: uids of the pods that the kubelet had acknowledged before.
    """

    pod: KnownPod
    after: frozenset[str]


class Departures:
    """The pods that have ended on each node since its report, in the order in which they did."""

    def __init__(self) -> None:
        self._by_node: dict[str, dict[str, Departure]] = {}

    def on(self, node: str) -> Iterable[Departure]:
        """Return who has left *node*."""
        return self._by_node.get(node, {}).values()

    def note(self, pod: KnownPod, others: Iterable[KnownPod], exact: ExactReport) -> None:
        """Note that *pod* has ended while *others* were on the node."""
        departures = self._by_node.setdefault(pod.node, {})
        if pod.uid in departures:
            return
        after = frozenset(other.uid for other in others if other.stage is PodStage.TAKEN)
        departures[pod.uid] = Departure(pod, after)
        unreported = [uid for uid, one in departures.items() if not is_named(one.pod.info, exact)]
        for uid in unreported[:-_MOST_UNREPORTED]:
            del departures[uid]

    def note_early(self, pod: KnownPod, exact: ExactReport) -> None:
        """Note that *pod*, which had ended before we came to know it, is deleted now."""
        if is_named(pod.info, exact):
            self._by_node.setdefault(pod.node, {}).setdefault(pod.uid, Departure(pod, frozenset()))

    def reported(self, node: str, exact: ExactReport) -> None:
        """Forget those whom a new report of *node* does not name any more.

        A pod that was deleted by force may still run: if the report names it, it has not left.
        """
        left = {
            uid: one
            for uid, one in self._by_node.pop(node, {}).items()
            if one.pod.stage is PodStage.ENDED and is_named(one.pod.info, exact)
        }
        if left:
            self._by_node[node] = left

    def forget(self, node: str) -> None:
        """Forget who has left *node*."""
        self._by_node.pop(node, None)


def steps_since(
    exact: ExactReport,
    pods: Iterable[KnownPod],
    departures: Iterable[Departure],
    placed: Mapping[str, PlacementStep] = MappingProxyType({}),
) -> tuple[Step, ...]:
    """Return what leads from the state in *exact* to that in which all of *pods* have arrived.

    Args:
        exact: the report.
        pods: in the order in which the kubelet meets them.
        departures: the pods that have ended.
        placed: those of *pods* that are known to hold what was foreseen, by uid.
    """
    departures = list(departures)
    left = {departure.pod.uid for departure in departures}
    pods = [pod for pod in pods if pod.uid not in placed]
    known = [pod for pod in pods if pod.uid not in left] + [
        departure.pod for departure in departures
    ]
    arrivals = sorted(
        (
            pod
            for pod in known
            if not is_named(pod.info, exact)
            and (pod.stage is not PodStage.ENDED or pod.uid in left)
        ),
        key=lambda pod: pod.order,
    )
    # Pods that had ended before we came to know the node are released first.
    early = [pod for pod in known if pod.stage is PodStage.ENDED and pod.uid not in left]
    steps: list[Step] = [ReleaseStep(pod.uid) for pod in early if is_named(pod.info, exact)]
    releases = _releases(arrivals, departures)
    steps.extend(ReleaseStep(uid) for uid in releases.pop(0, ()))
    steps.extend(placed.values())
    for position, pod in enumerate(arrivals, 1):
        steps.append(AdmissionStep(pod.info))
        steps.extend(ReleaseStep(uid) for uid in releases.get(position, ()))
    return tuple(steps)


def _releases(
    arrivals: Sequence[KnownPod], departures: Iterable[Departure]
) -> dict[int, list[str]]:
    """Return who is released before which of *arrivals* is admitted."""
    position = {pod.uid: index + 1 for index, pod in enumerate(arrivals)}
    releases: dict[int, list[str]] = {}
    for departure in departures:
        before = max(
            (position.get(uid, 0) for uid in (*departure.after, departure.pod.uid)), default=0
        )
        releases.setdefault(before, []).append(departure.pod.uid)
    return releases


def unknown_in(
    exact: ExactReport, pods: Iterable[KnownPod], departures: Iterable[Departure]
) -> tuple[UidHash, ...]:
    """Return the pods that *exact* names and that we know nothing of."""
    known = {uid_hash(uid) for pod in pods for uid in _uids(pod.info)}
    known |= {uid_hash(departure.pod.uid) for departure in departures}
    return tuple(uid for uid in exact.pods if uid not in known)


def is_one_of(pod: PodInfo, hashes: Collection[UidHash]) -> bool:
    """Tell whether *pod* is among pods that a report names."""
    return any(uid_hash(uid) in hashes for uid in _uids(pod))


def is_named(pod: PodInfo, exact: ExactReport) -> bool:
    """Tell whether *exact* accounts for *pod*; the kubelet knows a static pod by another uid."""
    return any(map(exact.accounts_for, _uids(pod)))


def _uids(pod: PodInfo) -> tuple[str, ...]:
    static = static_uid(pod.pod)
    return (pod.uid,) if static is None else (pod.uid, static)


# ------------------------------------------------------------------------------------------------
# Which pods are where their annotation says, on nodes whose exporter reports only surprises.
#
# A pod that the kubelet has acknowledged is there: the exporter would contradict otherwise
# (`numakube.topology.foreseen_holdings`). That holds for every reader, whatever it has missed. Two
# cases need more:
#
# * While a pod was on its way, another one ended, and the model now expects it elsewhere. Either
#   the exporter contradicts the annotation within a moment, or the model is wrong. Until that is
#   clear, the model goes on deciding, as it does for pods that are not acknowledged.
# * A pod was deleted without having ended, such as by force, and may still run. It keeps its place
#   until the next report, which the exporter owes for each such pod. If that one came before the
#   news of the deletion, it keeps its place for longer: rather that than give away what it still
#   holds.

DOUBT_SECONDS: Final = 5.0
"""How long an exporter may take to contradict an annotation."""


@dataclass(frozen=True, slots=True)
class _Doubt:
    """About a pod on a node; the clock is known at the next `ForeseenPods.settled` only."""

    node: str
    since: float | None = None


class ForeseenPods:
    """Tells which pods need not be admitted by the model."""

    def __init__(self) -> None:
        self._doubts: dict[str, _Doubt] = {}
        self._deleted: dict[str, dict[str, KnownPod]] = {}

    def holding(self, pod: KnownPod, report: LatestReport) -> Holding | None:
        """Return what *pod* holds by its annotation; ``None`` if *report* or the model decide."""
        exact = report.topology.report
        if exact is None or report.topology.heartbeat is None:
            return None
        if pod.stage is not PodStage.TAKEN or pod.uid in self._doubts or is_named(pod.info, exact):
            return None
        return read_foreseen(pod.info.pod.metadata.annotations, pod.uid, exact)

    def placed(self, report: LatestReport, pods: Iterable[KnownPod]) -> dict[str, PlacementStep]:
        """Return those of *pods* that are where their annotation says."""
        if report.topology.heartbeat is None:
            return {}
        holdings = ((pod, self.holding(pod, report)) for pod in pods)
        return {
            pod.uid: PlacementStep(pod.info, holding)
            for pod, holding in holdings
            if holding is not None
        }

    def is_beside_the_point(
        self, pod: KnownPod, others: Iterable[KnownPod], report: LatestReport
    ) -> bool:
        """Tell whether where *others* are is known without *pod*, which has ended."""
        exact = report.topology.report
        if exact is None or self.holding(pod, report) is None:
            return False
        return not any(
            other.stage is PodStage.TAKEN
            and not is_named(other.info, exact)
            and self.holding(other, report) is None
            for other in others
        )

    def acknowledged(self, pod: KnownPod, belief: ExactBelief) -> None:
        """Doubt the annotation of *pod*, just acknowledged, if *belief* expects it elsewhere."""
        holding = self.holding(pod, belief.basis.report)
        if holding is not None and not belief.holds(pod.uid, holding):
            self._doubts[pod.uid] = _Doubt(pod.node)

    def settled(self, now: float) -> set[str]:
        """Let time pass; return the nodes on which a doubt is over."""
        for uid, doubt in self._doubts.items():
            if doubt.since is None:
                self._doubts[uid] = replace(doubt, since=now)
        over = {
            uid: one.node
            for uid, one in self._doubts.items()
            if one.since is not None and now - one.since >= DOUBT_SECONDS
        }
        for uid in over:
            del self._doubts[uid]
        return set(over.values())

    def deleted(self, node: str) -> Iterable[KnownPod]:
        """Return the pods that were deleted on *node* without having ended."""
        return self._deleted.get(node, {}).values()

    def reported(self, node: str, exact: ExactReport | None) -> None:
        """Forget the pods that were deleted on *node* unless a new report still names them."""
        known = self._deleted.pop(node, {})
        left = {uid: one for uid, one in known.items() if exact and is_named(one.info, exact)}
        if left:
            self._deleted[node] = left

    def keeps(self, pod: KnownPod, report: LatestReport) -> bool:
        """Take note that *pod* was deleted; return whether it keeps its place."""
        self._doubts.pop(pod.uid, None)
        if pod.stage is not PodStage.TAKEN or report.topology.heartbeat is None:
            return False
        self._deleted.setdefault(pod.node, {})[pod.uid] = pod
        return True
