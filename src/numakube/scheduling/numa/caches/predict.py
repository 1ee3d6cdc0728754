"""Our cache: a pod on its way is booked where the kubelet model puts it.

With exact data a report names its pods, so what is free follows from the report and the API alone:

    belief = reported state - pods that have ended + admission of every pod that is not named

There is no handshake and nothing to wait for: a pod counts as soon as it is seen, no matter which
scheduler bound it. When a report names a pod for the first time, what it got is compared with what
was foreseen; the report is right, and the difference is reported as a `Misprediction`.

Without exact data a pod is booked on every zone where it may be, until the report has it
(`report_coverage`). A node is blocked only while its own exporter says that the data is stale.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.api.pod import MANAGER_REJECTIONS
from numakube.scheduling.numa.caches.cache_contract import change_between
from numakube.scheduling.numa.caches.counts_belief import (
    CountsBelief,
    claim_on,
    may_be_in,
    use_in_report,
)
from numakube.scheduling.numa.caches.known_pods import KnownPod, KnownPods, PodStage
from numakube.scheduling.numa.caches.latest_reports import AbsentExporters, LatestReports
from numakube.scheduling.numa.caches.model_belief import (
    Basis,
    ExactBelief,
    ModelShelf,
    asks_the_same,
)
from numakube.scheduling.numa.caches.report_coverage import PATIENCE_SECONDS, Evidence
from numakube.scheduling.numa.caches.since_report import (
    Departures,
    ForeseenPods,
    ReleaseStep,
    is_named,
    is_one_of,
    steps_since,
    unknown_in,
)
from numakube.scheduling.snapshot.zone_belief import (
    NOTHING,
    BeliefChanges,
    ChangeCause,
    Fact,
    FactKind,
    KubeletRejection,
    Misprediction,
    came_true,
)
from numakube.values.safe_text import reason_of

if TYPE_CHECKING:
    from numakube.api.nrt import NodeResourceTopology
    from numakube.scheduling.numa.caches.latest_reports import LatestReport
    from numakube.scheduling.snapshot.pods import PodInfo
    from numakube.scheduling.snapshot.zone_belief import NumaBelief, ZoneUse
    from numakube.topology.exact_report import ExactReport


class Predict:
    """Believes what the model says."""

    def __init__(self, *, patience_seconds: float = PATIENCE_SECONDS) -> None:
        self._reports = LatestReports()
        self._pods = KnownPods()
        self._evidence = Evidence(patience_seconds=patience_seconds)
        self._shelf = ModelShelf()
        self._beliefs: dict[str, NumaBelief] = {}
        self._departures = Departures()
        self._foreseen = ForeseenPods()
        self._exporters = AbsentExporters(self._pods)

    def set_report(self, nrt: NodeResourceTopology) -> BeliefChanges:
        """Take over the state that *nrt* reports, and compare it with what was foreseen."""
        delivery = self._reports.take(nrt)
        changes = BeliefChanges(facts=delivery.facts)
        if not delivery.fresh:
            return changes
        node = nrt.metadata.name
        self._exporters.wrote(node)
        wrong: tuple[Misprediction, ...] = ()
        if delivery.report is not None and delivery.report.topology.report is not None:
            exact = delivery.report.topology.report
            wrong = self._compare(node, exact)
            self._departures.reported(node, exact)
            self._foreseen.reported(node, exact)
        return changes + self._renew(node, ChangeCause.REPORT) + BeliefChanges(mispredictions=wrong)

    def remove_report(self, node: str) -> BeliefChanges:
        """Know nothing of *node* any more."""
        self._reports.remove(node)
        self._evidence.forget_node(node)
        self._departures.forget(node)
        self._foreseen.reported(node, None)
        self._exporters.forget(node)
        return self._renew(node, ChangeCause.REPORT_GONE)

    def reserve(self, pod: PodInfo, node: str) -> BeliefChanges:
        """Book *pod* where the model puts it."""
        before = self._pods.reserve(pod, node)
        if before is not None and before.node == node:
            return NOTHING
        changes = self._leave(before)
        after = self._followed_by(pod, self._beliefs.get(node))
        if after is None:
            return changes + self._renew(node, ChangeCause.RESERVED)
        return changes + self._replace(node, after, ChangeCause.RESERVED)

    def _followed_by(self, pod: PodInfo, belief: NumaBelief | None) -> NumaBelief | None:
        """Return *belief* with *pod*, the last of all; ``None`` if it must be worked out again."""
        if isinstance(belief, CountsBelief):
            exact = belief.topology.report
            return None if exact is not None and is_named(pod, exact) else belief.followed_by(pod)
        if not isinstance(belief, ExactBelief) or is_named(pod, belief.basis.exact):
            return None
        after = belief.followed_by(pod)
        if after is not None:
            self._shelf.keep(after)
        return after

    def unreserve(self, uid: str, node: str) -> BeliefChanges:
        """Undo a booking."""
        if self._pods.unreserve(uid, node) is None:
            return NOTHING
        return self._renew(node, ChangeCause.RELEASED)

    def postpone(self, uid: str, node: str) -> BeliefChanges:
        """Believe that those who are booked from now on come before a pod that waits.

        For a pod that the kubelet gives nothing of its own, it does not matter who comes first.
        """
        belief = self._beliefs.get(node)
        if isinstance(belief, ExactBelief) and belief.foreseen.get(uid) == {}:
            return NOTHING
        return (
            self._renew(node, ChangeCause.RESERVED) if self._pods.postpone(uid, node) else NOTHING
        )

    def resume(self, uid: str, node: str) -> BeliefChanges:
        """Believe that a pod comes next; what is booked for others that wait comes after it."""
        known = self._pods.get(uid)
        if known is None or not known.waits or not self._pods.resume(uid, node):
            return NOTHING
        return self._renew(node, ChangeCause.RESERVED)

    def bound(self, uid: str, node: str) -> BeliefChanges:
        """Do nothing: the pod is booked until the node reports it."""
        del uid, node
        return NOTHING

    def pod_seen(self, pod: PodInfo) -> BeliefChanges:
        """Take a bound pod of anybody into account."""
        refused = self._refusal(pod)
        before, after = self._pods.see(pod)
        if after is None or after is before:
            return NOTHING
        self._note_acknowledgement(before, after)
        self._note_departure(before, after)
        changes = BeliefChanges(mispredictions=refused)
        if before is not None and before.node != after.node:
            changes += self._renew(before.node, ChangeCause.POD)
        if not _is_news(before, after) or self._is_reported(after):
            return changes
        return changes + self._renew(after.node, ChangeCause.POD)

    def pod_gone(self, uid: str) -> BeliefChanges:
        """Forget a pod; what it holds is free once it has ended or a report is without it."""
        known = self._pods.remove(uid)
        self._evidence.forget(uid)
        if known is None:
            return NOTHING
        self._note_deletion(known)
        return self._renew(known.node, ChangeCause.POD_GONE)

    def resync(self, now: float) -> BeliefChanges:
        """Stop waiting for reports; to be called every few seconds."""
        changes = NOTHING
        for report in self._reports:
            if report.topology.report is None:
                pods = self._pods.on(report.node)
                if self._evidence.wait(pods, now):
                    changes += self._renew(report.node, ChangeCause.RESYNC)
        for node in self._foreseen.settled(now):
            changes += self._renew(node, ChangeCause.RESYNC)
        for node, why in self._exporters.look(self._reports, now):
            self._reports.note_orphaned(node, why)
            facts = (Fact(FactKind.EXPORTER_GONE, node, why),) if why else ()
            changes += self._renew(node, ChangeCause.RESYNC) + BeliefChanges(facts=facts)
        return changes

    def trust(self, node: str) -> BeliefChanges:
        """Take a report that names no pods as complete; one that names them needs no trust."""
        report = self._reports.get(node)
        if report is None or report.topology.report is not None:
            return NOTHING
        self._evidence.note_all_contained(self._pods.on(node))
        return self._renew(node, ChangeCause.RESYNC)

    def belief(self, node: str) -> NumaBelief | None:
        """Return what is believed of *node*."""
        return self._beliefs.get(node)

    def _is_reported(self, pod: KnownPod) -> bool:
        """Tell whether the report already says everything about *pod*, as it does of most pods."""
        report = self._reports.get(pod.node)
        if report is None or report.topology.report is None or pod.stage is PodStage.ENDED:
            return False
        return is_named(pod.info, report.topology.report) and not self._may_be_gone(pod)

    def _may_be_gone(self, pod: KnownPod) -> bool:
        """Tell whether the belief takes *pod* for one that may have left its place to others."""
        belief = self._beliefs.get(pod.node)
        if not isinstance(belief, ExactBelief) or not belief.basis.differs_from_report:
            return False
        return is_one_of(pod.info, belief.basis.unknown)

    def _note_acknowledgement(self, before: KnownPod | None, after: KnownPod) -> None:
        """Compare what was foreseen for a pod with what the model says now."""
        belief = self._beliefs.get(after.node)
        if before is None or before.stage >= after.stage or after.stage is not PodStage.TAKEN:
            return
        if isinstance(belief, ExactBelief):
            self._foreseen.acknowledged(after, belief)

    def _note_departure(self, before: KnownPod | None, after: KnownPod) -> None:
        """Remember who was there when a pod ended, if we saw it before."""
        report = self._reports.get(after.node)
        if after.stage is not PodStage.ENDED or before is None or report is None:
            return
        if report.topology.report is not None and before.stage is not PodStage.ENDED:
            pods = self._pods.on(after.node)
            if not self._foreseen.is_beside_the_point(before, pods, report):
                self._departures.note(after, pods, report.topology.report)

    def _note_deletion(self, pod: KnownPod) -> None:
        """Remember a pod that is deleted, if its end or where others are depends on it."""
        report = self._reports.get(pod.node)
        exact = report.topology.report if report is not None else None
        if report is None or exact is None or self._foreseen.keeps(pod, report):
            return
        if pod.stage is PodStage.ENDED:
            self._departures.note_early(pod, exact)
        elif pod.stage is PodStage.TAKEN and not is_named(pod.info, exact):
            self._departures.note(pod, self._pods.on(pod.node), exact)

    def _leave(self, before: KnownPod | None) -> BeliefChanges:
        return NOTHING if before is None else self._renew(before.node, ChangeCause.RELEASED)

    def _renew(self, node: str, cause: ChangeCause) -> BeliefChanges:
        """Work out the belief of *node* again; if that fails the node is one without data."""
        try:
            return self._renewed(node, cause)
        except Exception as error:
            news = node in self._beliefs or cause is ChangeCause.REPORT
            fact = Fact(FactKind.UNUSABLE_REPORT, node, reason_of(error))
            changes = self._replace(node, None, cause)
            return changes + BeliefChanges(facts=(fact,)) if news else changes

    def _renewed(self, node: str, cause: ChangeCause) -> BeliefChanges:
        report = self._reports.get(node)
        if report is None:
            return self._replace(node, None, cause) if node in self._beliefs else NOTHING
        exact = report.topology.report
        if exact is None:
            return self._replace(node, self._counted(report), cause)
        return self._renew_exactly(report, exact, cause)

    def _renew_exactly(
        self, report: LatestReport, exact: ExactReport, cause: ChangeCause
    ) -> BeliefChanges:
        basis = self._basis(report, exact)
        before = self._beliefs.get(report.node)
        if isinstance(before, ExactBelief) and before.rests_on(basis):
            return NOTHING
        belief = before.with_others_late(basis) if isinstance(before, ExactBelief) else None
        belief = belief or ExactBelief(basis, shelf=self._shelf, blocked=_blocked(report))
        if not basis.differs_from_report or belief.model() is not None:
            return self._replace(report.node, belief, cause)
        changes = self._replace(report.node, self._counted(report), cause)
        if isinstance(before, CountsBelief):
            return changes
        text = "the kubelet model does not start with the reported settings; counts are used"
        return changes + BeliefChanges(facts=(Fact(FactKind.NO_EXACT_DATA, report.node, text),))

    def _replace(self, node: str, belief: NumaBelief | None, cause: ChangeCause) -> BeliefChanges:
        before = self._beliefs.pop(node, None)
        if isinstance(before, ExactBelief):
            # A caller that still has it must not keep its model alive, nor what followed from it.
            before.drop_model()
        facts: tuple[Fact, ...] = ()
        if belief is None:
            self._shelf.forget(node)
        else:
            self._beliefs[node] = belief
            facts = _foreseen(before, belief)
        frees = self._lets_in(node, before, belief)
        return change_between(node, before, belief, cause, frees=frees) + BeliefChanges(facts=facts)

    def _lets_in(self, node: str, before: NumaBelief | None, after: NumaBelief | None) -> bool:
        """Tell whether a pod may come that had to come before one which waits no longer."""
        late = after.basis.late if isinstance(after, ExactBelief) else 0
        turned_away = node in self._shelf.turned_away
        if not late:
            self._shelf.turned_away.discard(node)
        return turned_away and isinstance(before, ExactBelief) and late < before.basis.late

    def _basis(self, report: LatestReport, exact: ExactReport) -> Basis:
        pods, departures = self._pods.on(report.node), self._departures.on(report.node)
        pods += self._foreseen.deleted(report.node)
        placed = self._foreseen.placed(report, pods)
        steps = steps_since(exact, pods, departures, placed)
        orphaned = bool(report.topology.orphaned)
        silent = report.topology.heartbeat is not None
        unknown = unknown_in(exact, pods, departures) if silent or orphaned else ()
        if orphaned:
            # Nobody will tell of the end of pods whose objects are gone.
            steps = (*map(ReleaseStep, unknown), *steps)
        late = sum(pod.waits and not is_named(pod.info, exact) for pod in pods)
        return Basis(report, exact, steps, unknown, late)

    def _counted(self, report: LatestReport) -> CountsBelief:
        pods = self._pods.on(report.node)
        before = self._beliefs.get(report.node)
        for pod in pods:
            if isinstance(before, ExactBelief) and is_named(pod.info, before.basis.exact):
                self._evidence.note_contained(pod.uid)
            else:
                self._evidence.note(pod, report)
        accounted = self._accounted(report, pods)
        charges = {
            pod.uid: may_be_in(claim_on(pod.info, report.topology), report.topology)
            for pod in pods
            if pod.stage is not PodStage.ENDED and pod.uid not in accounted
        }
        return CountsBelief(report, charges=charges, blocked=_blocked(report))

    def _accounted(self, report: LatestReport, pods: list[KnownPod]) -> frozenset[str]:
        if not report.topology.live:
            return frozenset()
        exact = report.topology.report
        if exact is not None:
            return frozenset(pod.uid for pod in pods if is_named(pod.info, exact))
        return self._evidence.find(report, pods).accounted

    def _compare(self, node: str, exact: ExactReport) -> tuple[Misprediction, ...]:
        """Compare what was foreseen for the pods that are named for the first time."""
        belief = self._beliefs.get(node)
        if not isinstance(belief, ExactBelief):
            return ()
        wrong = []
        for pod in belief.basis.incoming:
            holding = exact.holding(pod.uid)
            if holding is None:
                continue
            predicted = belief.foreseen.get(pod.uid)
            reported = use_in_report(exact, holding)
            has_init = bool(pod.pod.spec.init_containers)
            if predicted is not None and not came_true(predicted, reported, has_init=has_init):
                wrong.append(_misprediction(node, pod, predicted, reported))
        return tuple(wrong)

    def _refusal(self, pod: PodInfo) -> tuple[Misprediction, ...]:
        """Return a misprediction if the kubelet has rejected *pod* against what was foreseen."""
        status = pod.pod.status
        known = self._pods.get(pod.uid)
        if known is None or known.stage >= PodStage.ENDED or status is None:
            return ()
        belief = self._beliefs.get(known.node)
        if status.reason not in MANAGER_REJECTIONS or not isinstance(belief, ExactBelief):
            return ()
        predicted = belief.foreseen.get(pod.uid)
        if predicted is None or isinstance(predicted, KubeletRejection):
            return ()
        refusal = KubeletRejection(status.reason, status.message)
        return (_misprediction(known.node, pod, predicted, refusal),)


def _blocked(report: LatestReport) -> str:
    reason = report.topology.stale_reason
    return "" if reason is None else f"the node's exporter calls its data stale: {reason}"


def _is_news(before: KnownPod | None, after: KnownPod) -> bool:
    """Tell whether the pod has come further, or asks for something else than before."""
    if before is None or before.stage != after.stage or before.order != after.order:
        return True
    return not asks_the_same(before.info, after.info)


def _misprediction(
    node: str,
    pod: PodInfo,
    predicted: ZoneUse | KubeletRejection,
    reported: ZoneUse | KubeletRejection,
) -> Misprediction:
    return Misprediction(
        node=node, pod=pod.key, uid=pod.uid, predicted=predicted, reported=reported
    )


def _foreseen(before: NumaBelief | None, after: NumaBelief) -> tuple[Fact, ...]:
    """Tell of the pods that the kubelet is now expected to reject."""
    if not isinstance(after, ExactBelief) or not after.basis.incoming:
        return ()
    known = before.foreseen if isinstance(before, ExactBelief) else {}
    return tuple(
        Fact(FactKind.REJECTION_FORESEEN, after.topology.node, use.reason, pod=pod.key)
        for pod in after.basis.incoming
        if isinstance(use := after.foreseen.get(pod.uid), KubeletRejection)
        and not isinstance(known.get(pod.uid), KubeletRejection)
    )
