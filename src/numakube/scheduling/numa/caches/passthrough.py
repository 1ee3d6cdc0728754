"""The caches that believe each report as it is: `Passthrough` and `DiscardReserved`.

`Passthrough` ignores reservations: it is for producers that report so often, or clusters so calm,
that nothing happens between two reports. Upstream asks the API server for the NRT of each node in
each cycle; a watch gives the same data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.scheduling.numa.caches.cache_contract import change_between
from numakube.scheduling.numa.caches.counts_belief import CountsBelief
from numakube.scheduling.numa.caches.latest_reports import LatestReports
from numakube.scheduling.numa.caches.model_belief import Basis, ExactBelief, ModelShelf
from numakube.scheduling.snapshot.zone_belief import NOTHING, BeliefChanges, ChangeCause

if TYPE_CHECKING:
    from numakube.api.nrt import NodeResourceTopology
    from numakube.scheduling.numa.caches.latest_reports import LatestReport
    from numakube.scheduling.snapshot.pods import PodInfo
    from numakube.scheduling.snapshot.zone_belief import NumaBelief


class Passthrough:
    """Believes the latest report of each node."""

    def __init__(self) -> None:
        self._reports = LatestReports()
        self._shelf = ModelShelf()
        self._beliefs: dict[str, NumaBelief] = {}

    def set_report(self, nrt: NodeResourceTopology) -> BeliefChanges:
        """Believe *nrt*."""
        delivery = self._reports.take(nrt)
        changes = BeliefChanges(facts=delivery.facts)
        if not delivery.fresh:
            return changes
        return changes + self._renew(nrt.metadata.name, ChangeCause.REPORT)

    def remove_report(self, node: str) -> BeliefChanges:
        """Know nothing of *node* any more."""
        self._reports.remove(node)
        return self._renew(node, ChangeCause.REPORT_GONE)

    def reserve(self, pod: PodInfo, node: str) -> BeliefChanges:
        """Ignore it."""
        del pod, node
        return NOTHING

    def unreserve(self, uid: str, node: str) -> BeliefChanges:
        """Ignore it."""
        del uid, node
        return NOTHING

    def postpone(self, uid: str, node: str) -> BeliefChanges:
        """Ignore it."""
        del uid, node
        return NOTHING

    def resume(self, uid: str, node: str) -> BeliefChanges:
        """Ignore it."""
        del uid, node
        return NOTHING

    def bound(self, uid: str, node: str) -> BeliefChanges:
        """Ignore it."""
        del uid, node
        return NOTHING

    def pod_seen(self, pod: PodInfo) -> BeliefChanges:
        """Ignore it."""
        del pod
        return NOTHING

    def pod_gone(self, uid: str) -> BeliefChanges:
        """Ignore it."""
        del uid
        return NOTHING

    def resync(self, now: float) -> BeliefChanges:
        """Do nothing: there are no doubts."""
        del now
        return NOTHING

    def trust(self, node: str) -> BeliefChanges:
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

    def _renew(self, node: str, cause: ChangeCause) -> BeliefChanges:
        report = self._reports.get(node)
        before = self._beliefs.pop(node, None)
        if report is None:
            self._shelf.forget(node)
            return change_between(node, before, None, cause)
        belief = self._as_reported(report)
        self._beliefs[node] = belief
        return change_between(node, before, belief, cause)

    def _as_reported(self, report: LatestReport) -> NumaBelief:
        blocked = self._blocked(report.node)
        exact = report.topology.report
        if exact is None:
            return CountsBelief(report, blocked=blocked)
        return ExactBelief(Basis(report, exact), shelf=self._shelf, blocked=blocked)


# ------------------------------------------------------------------------------------------------
# The cache for policies that spread pods: one pod at a time on each node.
#
# While a pod is on its way to a node, from its reservation to its binding, the node takes no
# other. Afterwards the latest report is believed as it is, although it may not have the pod yet:
# upstream documents that gap, and `Predict` closes it.
#
# Upstream forgets a reservation only when told that the pod was bound or not. Here it is enough to
# see the pod bound anywhere, or gone.


class DiscardReserved(Passthrough):
    """Believes the latest report of each node that no pod is being bound to."""

    def __init__(self) -> None:
        super().__init__()
        self._node_of: dict[str, str] = {}
        self._reserved: dict[str, set[str]] = {}

    def reserve(self, pod: PodInfo, node: str) -> BeliefChanges:
        """Keep others away from *node*."""
        if self._node_of.get(pod.uid) == node:
            return NOTHING
        changes = self._release(pod.uid, ChangeCause.RELEASED)
        self._node_of[pod.uid] = node
        self._reserved.setdefault(node, set()).add(pod.uid)
        return changes + self._renew(node, ChangeCause.RESERVED)

    def unreserve(self, uid: str, node: str) -> BeliefChanges:
        """Let others onto *node* again."""
        return (
            self._release(uid, ChangeCause.RELEASED) if self._node_of.get(uid) == node else NOTHING
        )

    def bound(self, uid: str, node: str) -> BeliefChanges:
        """Let others onto *node* again."""
        return self._release(uid, ChangeCause.POD) if self._node_of.get(uid) == node else NOTHING

    def pod_seen(self, pod: PodInfo) -> BeliefChanges:
        """Let others onto the node if the pod has been bound."""
        return self._release(pod.uid, ChangeCause.POD) if pod.node_name else NOTHING

    def pod_gone(self, uid: str) -> BeliefChanges:
        """Let others onto the node that the pod was meant for."""
        return self._release(uid, ChangeCause.POD_GONE)

    def _release(self, uid: str, cause: ChangeCause) -> BeliefChanges:
        node = self._node_of.pop(uid, None)
        if node is None:
            return NOTHING
        reserved = self._reserved[node]
        reserved.discard(uid)
        if reserved:
            return NOTHING
        del self._reserved[node]
        return self._renew(node, cause)

    def _blocked(self, node: str) -> str:
        return "another pod is being bound to the node" if node in self._reserved else ""
