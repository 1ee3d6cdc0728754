"""Upstream's cache: a pod on its way is taken off every zone, until a report is known to have it.

Follows scheduler-plugins of August 2026 (``pkg/noderesourcetopology/cache``), which decides
by fingerprint whether a report has all pods that we know of, and until then keeps the report before
and every reservation. A pod of another scheduler, whose place is unknown, blocks its node.

Unlike upstream

* a report is judged when it comes, not when a timer asks, and waiting pods are woken;
* pods that ended, are being deleted, or were admitted but are not running, do not keep a
  fingerprint from matching (`report_coverage.pods_behind`);
* what a report does not have stays reserved, also when the kubelet's configuration changed;
* only what the kubelet gives exclusively is reserved: nothing of Burstable pods but devices;
* NRTs may appear and disappear at any time, and a pod that was deleted is not reserved any more;
* a pod of another scheduler counts once, not at each change of its status; and
* no doubt outlives a second report, or 90 seconds without one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING

from numakube.scheduling.numa.caches.cache_contract import change_between
from numakube.scheduling.numa.caches.counts_belief import CountsBelief, everywhere, holdings_of
from numakube.scheduling.numa.caches.known_pods import (
    ForeignPods,
    KnownPod,
    KnownPods,
    PodStage,
    blocked_by,
    is_ours,
)
from numakube.scheduling.numa.caches.latest_reports import LatestReports
from numakube.scheduling.numa.caches.report_coverage import (
    PATIENCE_SECONDS,
    Coverage,
    Evidence,
    FingerprintPods,
)
from numakube.scheduling.snapshot.zone_belief import (
    NOTHING,
    BeliefChanges,
    ChangeCause,
    Fact,
    FactKind,
)
from numakube.values.resources import is_native

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numakube.api.nrt import NodeResourceTopology
    from numakube.scheduling.numa.caches.latest_reports import LatestReport
    from numakube.scheduling.snapshot.pods import PodInfo
    from numakube.scheduling.snapshot.zone_belief import NumaBelief
    from numakube.topology.topology_view import NodeTopology
    from numakube.values.resources import Amounts


class ResyncScope(StrEnum):
    """Whether a changed kubelet configuration is taken over at once; ``cache.resyncScope``."""

    ALL = "All"
    ONLY_RESOURCES = "OnlyResources"


@dataclass(frozen=True, slots=True, kw_only=True)
class OverReserveOptions:
    """How the cache judges reports.

    Attributes:
        profiles: names of the schedulers that this process is; pods of others are foreign.
    """

    profiles: frozenset[str] = frozenset()
    foreign_pods: ForeignPods = ForeignPods.ALL
    fingerprint_pods: FingerprintPods = FingerprintPods.AUTODETECT
    resync_scope: ResyncScope = ResyncScope.ALL
    patience_seconds: float = PATIENCE_SECONDS


@dataclass(frozen=True, slots=True)
class _Held:
    """The report that is believed, with the pods that it contains."""

    report: LatestReport
    accounted: frozenset[str] = field(default_factory=frozenset)


class OverReserve:
    """Believes a report once it is known to have all pods, and fears the worst until then."""

    def __init__(self, options: OverReserveOptions | None = None) -> None:
        self._options = options or OverReserveOptions()
        self._reports = LatestReports()
        self._pods = KnownPods()
        self._evidence = Evidence(
            pods=self._options.fingerprint_pods, patience_seconds=self._options.patience_seconds
        )
        self._held: dict[str, _Held] = {}
        self._beliefs: dict[str, NumaBelief] = {}
        # The reports of which we have said that their fingerprint does not match.
        self._told: dict[str, int] = {}
        self.generation = 0
        """How often a report was taken over."""

    def set_report(self, nrt: NodeResourceTopology) -> BeliefChanges:
        """Take over *nrt* if it is known to have all pods, or there is nothing better."""
        delivery = self._reports.take(nrt)
        changes = BeliefChanges(facts=delivery.facts)
        if not delivery.fresh:
            return changes
        return changes + self._settle(nrt.metadata.name, ChangeCause.REPORT)

    def remove_report(self, node: str) -> BeliefChanges:
        """Know nothing of *node* any more, except its pods."""
        self._reports.remove(node)
        self._evidence.forget_node(node)
        return self._settle(node, ChangeCause.REPORT_GONE)

    def reserve(self, pod: PodInfo, node: str) -> BeliefChanges:
        """Take *pod* off every zone of *node*."""
        before = self._pods.reserve(pod, node)
        if before is not None and before.node == node:
            return NOTHING
        changes = NOTHING if before is None else self._settle(before.node, ChangeCause.RELEASED)
        return changes + self._settle(node, ChangeCause.RESERVED)

    def unreserve(self, uid: str, node: str) -> BeliefChanges:
        """Give back what was reserved."""
        if self._pods.unreserve(uid, node) is None:
            return NOTHING
        return self._settle(node, ChangeCause.RELEASED)

    def postpone(self, uid: str, node: str) -> BeliefChanges:
        """Do nothing: what is taken off every zone does not depend on who comes first."""
        del uid, node
        return NOTHING

    def resume(self, uid: str, node: str) -> BeliefChanges:
        """Do nothing, likewise."""
        del uid, node
        return NOTHING

    def bound(self, uid: str, node: str) -> BeliefChanges:
        """Do nothing: the pod stays reserved until a report has it."""
        del uid, node
        return NOTHING

    def pod_seen(self, pod: PodInfo) -> BeliefChanges:
        """Reserve for pods of ours that we did not know, and doubt nodes with those of others."""
        before, after = self._pods.see(pod)
        if after is None or after is before:
            return NOTHING
        self._evidence.note(after, self._reports.get(after.node))
        changes = NOTHING
        if before is not None and before.node != after.node:
            changes += self._settle(before.node, ChangeCause.POD)
        if before is None or (before.node, before.stage) != (after.node, after.stage):
            changes += self._settle(after.node, ChangeCause.POD)
        return changes

    def pod_gone(self, uid: str) -> BeliefChanges:
        """Reserve nothing for a pod that was deleted."""
        known = self._pods.remove(uid)
        self._evidence.forget(uid)
        return NOTHING if known is None else self._settle(known.node, ChangeCause.POD_GONE)

    def resync(self, now: float) -> BeliefChanges:
        """End doubts that no report has settled for too long."""
        changes = NOTHING
        for report in list(self._reports):
            if self._evidence.wait(self._doubts(report.node), now):
                changes += self._settle(report.node, ChangeCause.RESYNC)
        return changes

    def trust(self, node: str) -> BeliefChanges:
        """Take over the latest report, whatever its fingerprint says."""
        self._evidence.note_all_contained(self._pods.on(node))
        self._held.pop(node, None)
        return self._settle(node, ChangeCause.RESYNC)

    def belief(self, node: str) -> NumaBelief | None:
        """Return what is believed of *node*."""
        return self._beliefs.get(node)

    def _doubts(self, node: str) -> list[KnownPod]:
        """Return the pods that the believed report of *node* is not known to have."""
        held = self._held.get(node)
        known = held.accounted if held is not None else frozenset()
        return [pod for pod in self._pods.on(node) if pod.uid not in known]

    def _settle(self, node: str, cause: ChangeCause) -> BeliefChanges:
        """Decide which report of *node* to believe, and what to take off it."""
        latest = self._reports.get(node)
        if latest is None:
            self._held.pop(node, None)
            self._told.pop(node, None)
            return change_between(node, self._beliefs.pop(node, None), None, cause)
        pods = self._pods.on(node)
        facts = self._hold(latest, pods)
        before = self._beliefs.get(node)
        belief = self._beliefs[node] = self._believed(self._held[node], pods)
        if belief.blocked and (before is None or before.blocked != belief.blocked):
            facts += (Fact(FactKind.FOREIGN_POD, node, belief.blocked),)
        return change_between(node, before, belief, cause) + BeliefChanges(facts=facts)

    def _hold(self, latest: LatestReport, pods: Sequence[KnownPod]) -> tuple[Fact, ...]:
        """Take over *latest* if it is to be believed."""
        finding = self._evidence.find(latest, pods)
        held = self._held.get(latest.node)
        if held is not None and not self._is_better(latest, finding, held.report, pods):
            return self._mismatch(latest)
        self._held[latest.node] = _Held(latest, finding.accounted)
        if held is not None and held.report is latest:
            return ()
        self.generation += 1
        if finding.confirmed or latest.topology.fingerprint is None:
            return ()
        text = f"version {latest.nrt.metadata.resource_version} is of other pods than known; taken"
        return (Fact(FactKind.TAKEN_UNCONFIRMED, latest.node, text),)

    def _mismatch(self, latest: LatestReport) -> tuple[Fact, ...]:
        """Tell once that *latest* has to wait."""
        if self._told.get(latest.node) == latest.serial:
            return ()
        self._told[latest.node] = latest.serial
        text = f"version {latest.nrt.metadata.resource_version} is of other pods than known"
        return (Fact(FactKind.FINGERPRINT_MISMATCH, latest.node, text),)

    def _is_better(
        self, latest: LatestReport, finding: Coverage, held: LatestReport, pods: Sequence[KnownPod]
    ) -> bool:
        """Tell whether *latest* is to be believed instead of *held*."""
        if finding.confirmed or latest is held or latest.topology.fingerprint is None:
            return True
        if self._options.resync_scope is ResyncScope.ALL and _reconfigured(latest, held):
            return True
        # Pods that are still on their way stay reserved whichever report is believed.
        return not any(
            pod.stage is PodStage.TAKEN
            and self._matters(pod, latest.topology)
            and pod.uid not in finding.accounted
            for pod in pods
        )

    def _believed(self, held: _Held, pods: Sequence[KnownPod]) -> CountsBelief:
        topology = held.report.topology
        unknown = [pod for pod in pods if pod.uid not in held.accounted]
        ours = [pod for pod in unknown if pod.stage is not PodStage.ENDED and self._is_ours(pod)]
        charges = {pod.uid: everywhere(reserved_for(pod.info), topology) for pod in ours}
        foreign = [pod for pod in unknown if self._is_foreign(pod, topology)]
        known = [pod for pod in pods if pod.uid in held.accounted]
        return CountsBelief(
            held.report,
            charges=charges,
            blocked=blocked_by(foreign),
            holdings=cache(lambda: holdings_of(held.report, known)),
        )

    def _matters(self, pod: KnownPod, topology: NodeTopology) -> bool:
        """Tell whether *pod* raises doubts as long as a report is not known to have it."""
        if pod.stage is PodStage.ENDED:
            return False
        return self._is_ours(pod) or self._is_foreign(pod, topology)

    def _is_ours(self, pod: KnownPod) -> bool:
        return is_ours(pod, self._options.profiles)

    def _is_foreign(self, pod: KnownPod, topology: NodeTopology) -> bool:
        if pod.stage is PodStage.ENDED or self._is_ours(pod):
            return False
        return self._options.foreign_pods.counts(pod, topology)


def reserved_for(pod: PodInfo) -> Amounts:
    """Return what is taken off every zone for *pod*: what the kubelet may give exclusively."""
    if pod.qos_class == "Guaranteed":
        return pod.requests
    return {name: amount for name, amount in pod.requests.items() if not is_native(name)}


def _reconfigured(latest: LatestReport, held: LatestReport) -> bool:
    new, old = latest.topology, held.topology
    return (new.policy, new.scope, new.max_numa_nodes) != (
        old.policy,
        old.scope,
        old.max_numa_nodes,
    )
