"""What the extender answers to each verb.

Everything but the bind is decided without awaiting, so each answer is given on one state of the
cluster. Calls may come twice and from several kube-schedulers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.apps.extender.extender_messages import (
    BindingResult,
    FilterResult,
    HostPriority,
    NodeList,
    PreemptionResult,
    name_of,
)
from numakube.apps.extender.preemption import Proposal, Rooms, reconsider
from numakube.scheduling.framework.cluster_events import EventKind
from numakube.scheduling.preemption.victims import budgets_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numakube.apps.cluster_mirror import Mirror
    from numakube.apps.extender.bind_pods import Claims, PodBinding
    from numakube.apps.extender.extender_messages import BindingArgs, ExtenderArgs, PreemptionArgs
    from numakube.apps.extender.filter_nodes import FilterJudgement, Judge, VirtualNodes
    from numakube.apps.extender.metrics import ExtenderMetrics
    from numakube.apps.extender.pending_binds import PendingPods
    from numakube.apps.extender.wake_pods import Waking
    from numakube.apps.flight_recording import Recording
    from numakube.kube.clock import Clock
    from numakube.scheduling.framework.cluster_events import ClusterEvent
    from numakube.scheduling.snapshot.pods import PodInfo
    from numakube.scheduling.snapshot.zone_belief import BeliefChanges

_MAKES_ROOM = (
    EventKind.TOPOLOGY_CHANGED
    | EventKind.POD_DELETED
    | EventKind.POD_UPDATED
    | EventKind.NODE_ADDED
    | EventKind.NODE_UPDATED
)


class Verbs:
    """Answers kube-scheduler; a `numakube.apps.cluster_mirror.Listener`."""

    def __init__(
        self,
        *,
        clock: Clock,
        mirror: Mirror,
        judge: Judge,
        virtual: VirtualNodes,
        holds: PendingPods,
        booking: PodBinding,
        claims: Claims | None,
        waking: Waking,
        metrics: ExtenderMetrics,
        recording: Recording,
    ) -> None:
        self._clock = clock
        self._mirror = mirror
        self._judge = judge
        self._virtual = virtual
        self._holds = holds
        self._booking = booking
        self._claims = claims
        self._waking = waking
        self._metrics = metrics
        self.recording = recording
        self._rooms = Rooms()

    # The verbs.

    def filter(self, args: ExtenderArgs) -> FilterResult:
        """Say which of the nodes can take the pod."""
        pod, names = self._judge.info_of(args.pod), _names(args)
        if self._claims is not None:
            self._claims.disbelieve(pod.uid)
        there = self._judge.cluster.node_of(pod.uid)
        if there is not None:
            return FilterResult(error=f"the pod is being bound to {there}")
        now = self._clock.monotonic()
        found = self._judge.judge(pod, names, self._holds.others(pod.uid, now))
        if args.nodes is not None and self._virtual.are_in(args.nodes):
            # An autoscaler tries what would be; nothing is promised to the pod by that.
            self._virtual.add_to(found, pod, args.nodes)
        else:
            self._note(pod, names, found)
            self.recording.asked(
                pod, found.refusals, nodes=len(names), kept=len(found.kept), started=now
            )
        result = FilterResult(
            node_names=found.kept,
            failed_nodes=found.failed,
            failed_and_unresolvable_nodes=found.unresolvable,
        )
        return result if args.node_names is not None else _with_objects(args, result)

    def prioritize(self, args: ExtenderArgs) -> list[HostPriority]:
        """Rate the nodes, every one of them."""
        pod, names = self._judge.info_of(args.pod), _names(args)
        scores = self._judge.rate(pod, names)
        best = max(scores, default=0)
        if scores.count(best) == 1:
            self._hold(pod, names[scores.index(best)], certain=False)
        if names:
            first = names[scores.index(best)]
            self.recording.told(
                pod.uid,
                "prioritized",
                nodes=len(names),
                best=first,
                score=best,
                equals=scores.count(best),
            )
        return list(map(HostPriority, names, scores))

    def preempt(self, args: PreemptionArgs) -> PreemptionResult:
        """Say on which nodes preemption helps, and whom it takes there."""
        pod, now = self._judge.info_of(args.pod), self._clock.monotonic()
        if self._rooms.is_made_for(pod, self._judge, now):
            return PreemptionResult(node_name_to_meta_victims={})
        budgets = budgets_of(self._judge.cluster.objects.disruption_budgets.values())
        found = reconsider(self._judge, pod, _proposals(args), budgets)
        self._rooms.note(pod, found, now)
        self.recording.told(pod.uid, "preempted", nodes=len(found), example=next(iter(found), ""))
        return PreemptionResult(node_name_to_meta_victims=found)

    async def bind(self, args: BindingArgs) -> BindingResult:
        """Bind the pod, or say why not."""
        self._holds.drop(args.pod_uid)
        error = await self._booking.bind(args)
        self._metrics.bindings.labels("failed" if error else "bound").inc()
        if error:
            self.recording.not_bound(args.pod_uid, error)
        else:
            self.recording.bound(args.pod_uid, args.node)
        return BindingResult(error=error)

    # What the mirror tells.

    def pod_waits(self, pod: PodInfo) -> None:
        """Keep room for a nominated pod, and remember one that was refused."""
        if pod.is_being_deleted:
            self._forget(pod.uid)
            return
        if pod.nominated_node_name:
            self._judge.nominations.nominate(pod, pod.nominated_node_name)
        else:
            self._judge.nominations.drop(pod.uid)
        self._holds.seen(pod)
        self._waking.seen(pod)

    def pod_placed(self, pod: PodInfo) -> None:
        """Expect a pod no longer that has a node."""
        self.recording.placed(pod)
        self._forget(pod.uid)

    def pod_gone(self, pod: PodInfo, *, deleted: bool) -> None:
        """Forget a pod."""
        self._forget(pod.uid)
        if deleted and not pod.has_ended:
            self.recording.deleted(pod)

    def pod_ended(self, pod: PodInfo) -> None:
        """Note how it ended."""
        self.recording.ended(pod)

    def happened(self, event: ClusterEvent) -> None:
        """Look for pods that fit where there may be room now."""
        if event.kind is EventKind.NODE_REMOVED:
            self.recording.flush()
        if event.node and event.kind in _MAKES_ROOM:
            self._waking.room_on(event.node)

    def cache_changed(self, changes: BeliefChanges) -> None:
        """Count what the NUMA cache found."""
        self.recording.cache_changed(changes)
        for fact in changes.facts:
            self._metrics.facts.labels(fact.kind.value).inc()
        for misprediction in changes.mispredictions:
            self._metrics.mispredictions.labels(str(misprediction.severity)).inc()

    def tidy(self) -> None:
        """End expired holds; to be called from time to time."""
        self.recording.flush()
        for hold in self._holds.expired(self._clock.monotonic()):
            self._waking.room_on(hold.node)
        if self._claims is not None:
            self._claims.expire()
        self._metrics.holds.set(len(self._holds))
        self._metrics.waiting.set(len(self._waking))

    def _note(self, pod: PodInfo, names: Sequence[str], found: FilterJudgement) -> None:
        hold = self._holds.drop(pod.uid)
        if found.kept:
            self._waking.settled(pod.uid)
            if len(found.kept) == 1:
                self._hold(pod, found.kept[0], certain=True)
        elif names:
            self._metrics.refused_pods.inc()
            told, asked = self._mirror.waiting(pod), found.asked if found.all_known else None
            self._waking.refused(told or pod, asked, unseen=told is None)
        if hold is not None and hold.node not in found.kept:
            self._waking.room_on(hold.node)

    def _hold(self, pod: PodInfo, node: str, *, certain: bool) -> None:
        told, now = self._mirror.waiting(pod), self._clock.monotonic()
        self._holds.put(told or pod, node, certain=certain, now=now, unseen=told is None)

    def _forget(self, uid: str) -> None:
        self._holds.drop(uid)
        self._waking.settled(uid)
        self._judge.nominations.drop(uid)
        self._rooms.forget(uid)


def _names(args: ExtenderArgs) -> Sequence[str]:
    if args.node_names is not None:
        return args.node_names
    items = args.nodes.items if args.nodes is not None else None
    return [name_of(item) for item in items or ()]


def _with_objects(args: ExtenderArgs, result: FilterResult) -> FilterResult:
    """Return *result* with the objects of the request, as who sent objects expects."""
    kept = set(result.node_names or ())
    items = (args.nodes.items if args.nodes is not None else None) or ()
    metadata = args.nodes.metadata if args.nodes is not None else NodeList().metadata
    return FilterResult(
        nodes=NodeList(metadata=metadata, items=tuple(i for i in items if name_of(i) in kept)),
        failed_nodes=result.failed_nodes,
        failed_and_unresolvable_nodes=result.failed_and_unresolvable_nodes,
    )


def _proposals(args: PreemptionArgs) -> dict[str, Proposal]:
    found: dict[str, Proposal] = {}
    for name, meta in (args.node_name_to_meta_victims or {}).items():
        uids = frozenset(pod.uid for pod in meta.pods or ())
        found[name] = Proposal(uids, meta.num_pdb_violations)
    for name, full in (args.node_name_to_victims or {}).items():
        uids = frozenset(pod.metadata.uid for pod in full.pods or ())
        found.setdefault(name, Proposal(uids, full.num_pdb_violations))
    return found
