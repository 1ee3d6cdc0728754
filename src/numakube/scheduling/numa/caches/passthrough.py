"""The cache that does not cache: every report is believed as it is, reservations are ignored.

For producers that report so often, or clusters so calm, that nothing happens between two reports.
Upstream asks the API server for the NRT of each node in each cycle; a watch gives the same data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.scheduling.numa.caches.belief_changes import change_between
from numakube.scheduling.numa.caches.cache_contract import NOTHING, Cause, Changes
from numakube.scheduling.numa.caches.counts_belief import CountsBelief
from numakube.scheduling.numa.caches.latest_reports import Reports
from numakube.scheduling.numa.caches.model_belief import Basis, ExactBelief, ModelShelf

if TYPE_CHECKING:
    from numakube.api.nrt import NodeResourceTopology
    from numakube.scheduling.numa.caches.latest_reports import Report
    from numakube.scheduling.snapshot.pods import PodInfo
    from numakube.scheduling.snapshot.zone_belief import NumaBelief


class Passthrough:
    """Believes the latest report of each node."""

    def __init__(self) -> None:
        self._reports = Reports()
        self._shelf = ModelShelf()
        self._beliefs: dict[str, NumaBelief] = {}

    def set_report(self, nrt: NodeResourceTopology) -> Changes:
        """Believe *nrt*."""
        delivery = self._reports.take(nrt)
        changes = Changes(facts=delivery.facts)
        if not delivery.fresh:
            return changes
        return changes + self._renew(nrt.metadata.name, Cause.REPORT)

    def remove_report(self, node: str) -> Changes:
        """Know nothing of *node* any more."""
        self._reports.remove(node)
        return self._renew(node, Cause.REPORT_GONE)

    def reserve(self, pod: PodInfo, node: str) -> Changes:
        """Ignore it."""
        del pod, node
        return NOTHING

    def unreserve(self, uid: str, node: str) -> Changes:
        """Ignore it."""
        del uid, node
        return NOTHING

    def postpone(self, uid: str, node: str) -> Changes:
        """Ignore it."""
        del uid, node
        return NOTHING

    def resume(self, uid: str, node: str) -> Changes:
        """Ignore it."""
        del uid, node
        return NOTHING

    def bound(self, uid: str, node: str) -> Changes:
        """Ignore it."""
        del uid, node
        return NOTHING

    def pod_seen(self, pod: PodInfo) -> Changes:
        """Ignore it."""
        del pod
        return NOTHING

    def pod_gone(self, uid: str) -> Changes:
        """Ignore it."""
        del uid
        return NOTHING

    def resync(self, now: float) -> Changes:
        """Do nothing: there are no doubts."""
        del now
        return NOTHING

    def trust(self, node: str) -> Changes:
        """Do nothing: reports are believed anyway."""
        del node
        return NOTHING

    def belief(self, node: str) -> NumaBelief | None:
        """Return the latest report."""
        return self._beliefs.get(node)

    def _blocked(self, node: str) -> str:
        """Return why *node* must not be used for now."""
        del node
        return ""

    def _renew(self, node: str, cause: Cause) -> Changes:
        report = self._reports.get(node)
        before = self._beliefs.pop(node, None)
        if report is None:
            self._shelf.forget(node)
            return change_between(node, before, None, cause)
        belief = self._as_reported(report)
        self._beliefs[node] = belief
        return change_between(node, before, belief, cause)

    def _as_reported(self, report: Report) -> NumaBelief:
        blocked = self._blocked(report.node)
        exact = report.topology.report
        if exact is None:
            return CountsBelief(report, blocked=blocked)
        return ExactBelief(Basis(report, exact), shelf=self._shelf, blocked=blocked)
