"""Which pods are where their annotation says, on nodes whose exporter reports only surprises.

A pod that the kubelet has acknowledged is there: the exporter would contradict otherwise
(`numakube.topology.foreseen_holdings`). That holds for every reader, whatever it has missed. Two
cases need more:

* While a pod was on its way, another one ended, and the model now expects it elsewhere. Either the
  exporter contradicts the annotation within a moment, or the model is wrong. Until that is clear,
  the model goes on deciding, as it does for pods that are not acknowledged.
* A pod was deleted without having ended, such as by force, and may still run. It keeps its place
  until the next report, which the exporter owes for each such pod. If that one came before the news
  of the deletion, it keeps its place for longer: rather that than give away what it still holds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from numakube.scheduling.numa.caches.known_pods import PodStage
from numakube.scheduling.numa.caches.since_report import Placement, is_named
from numakube.topology.foreseen_holdings import read_foreseen

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numakube.scheduling.numa.caches.known_pods import KnownPod
    from numakube.scheduling.numa.caches.latest_reports import Report
    from numakube.scheduling.numa.caches.model_belief import ExactBelief
    from numakube.topology.exact_report import ExactReport, Holding

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

    def holding(self, pod: KnownPod, report: Report) -> Holding | None:
        """Return what *pod* holds by its annotation; ``None`` if *report* or the model decide."""
        exact = report.topology.report
        if exact is None or report.topology.heartbeat is None:
            return None
        if pod.stage is not PodStage.TAKEN or pod.uid in self._doubts or is_named(pod.info, exact):
            return None
        return read_foreseen(pod.info.pod.metadata.annotations, pod.uid, exact)

    def placed(self, report: Report, pods: Iterable[KnownPod]) -> dict[str, Placement]:
        """Return those of *pods* that are where their annotation says."""
        if report.topology.heartbeat is None:
            return {}
        holdings = ((pod, self.holding(pod, report)) for pod in pods)
        return {
            pod.uid: Placement(pod.info, holding)
            for pod, holding in holdings
            if holding is not None
        }

    def is_beside_the_point(
        self, pod: KnownPod, others: Iterable[KnownPod], report: Report
    ) -> bool:
        """Tell whether where *others* are is known without *pod*, which has ended."""
        exact = report.topology.report
        if exact is None or self.holding(pod, report) is None:
            return False
        return not any(
            one.stage is PodStage.TAKEN
            and not is_named(one.info, exact)
            and self.holding(one, report) is None
            for one in others
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

    def keeps(self, pod: KnownPod, report: Report) -> bool:
        """Take note that *pod* was deleted; return whether it keeps its place."""
        self._doubts.pop(pod.uid, None)
        if pod.stage is not PodStage.TAKEN or report.topology.heartbeat is None:
            return False
        self._deleted.setdefault(pod.node, {})[pod.uid] = pod
        return True
