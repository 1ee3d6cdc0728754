"""What the scheduler makes of the changes that the mirror tells of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import structlog

from numakube.api.meta import ObjectReference
from numakube.api.pod import is_rejected
from numakube.scheduling.framework.cluster_events import EventKind

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from numakube.api.meta import OwnerReference
    from numakube.apps.scheduler.binding_cycle import Results
    from numakube.apps.scheduler.metrics import SchedulerMetrics
    from numakube.apps.scheduler.scheduling_loop import PodQueue
    from numakube.kube.event_recorder import EventRecorder
    from numakube.scheduling.framework.cluster_events import ClusterEvent
    from numakube.scheduling.snapshot.cluster import Cluster
    from numakube.scheduling.snapshot.pods import PodInfo
    from numakube.scheduling.snapshot.zone_belief import BeliefChanges


class SchedulerListener:
    """Keeps the queue up to date; a `numakube.apps.cluster_mirror.Listener`.

    Args:
        profiles: names of schedulers whose pods are ours.
        queue: where they wait.
        results: those who learn of what becomes of pods.
        followers: parts that keep something of their own for each pod. They are told of a pod that
            comes in this order, and of one that goes in the opposite order: who keeps room for
            others comes first, so that whoever leaves is forgotten before that room is given away.
        signals: what waits for events of a kind.
    """

    def __init__(
        self,
        profiles: Collection[str],
        queue: PodQueue,
        results: Results,
        followers: Sequence[PodFollower],
        signals: Mapping[EventKind, Callable[[], None]],
    ) -> None:
        self._profiles = profiles
        self._queue = queue
        self._results = results
        self._followers = followers
        self._signals = signals

    def pod_waits(self, pod: PodInfo) -> None:
        """Queue a pod of ours."""
        if pod.scheduler_name not in self._profiles or pod.is_being_deleted:
            self._queue.remove(pod.uid)
            for follower in reversed(self._followers):
                follower.withdrawn(pod)
            return
        for follower in self._followers:
            follower.waits(pod)
        self._queue.add(pod)

    def pod_placed(self, pod: PodInfo) -> None:
        """Wait no longer for a pod that has a node."""
        for follower in self._followers:
            follower.placed(pod)
        self._results.recording.placed(pod)
        self._queue.placed(pod.uid)

    def pod_gone(self, pod: PodInfo, *, deleted: bool) -> None:
        """Forget a pod."""
        self._queue.remove(pod.uid)
        self._results.outcomes.forget(pod.uid)
        if not pod.has_ended:
            self._results.recording.deleted(pod)
        for follower in reversed(self._followers):
            follower.gone(pod, deleted=deleted)

    def pod_ended(self, pod: PodInfo) -> None:
        """Let all learn from a pod that has ended."""
        self._results.recording.ended(pod)
        if pod.scheduler_name in self._profiles:
            for follower in self._followers:
                follower.ended(pod)

    def happened(self, event: ClusterEvent) -> None:
        """Remember an event until the next cycle."""
        self._queue.happened(event)
        signal = self._signals.get(event.kind)
        if signal is not None:
            signal()
        if event.kind is EventKind.CLAIM_CHANGED:
            self._queue.ask_gates(event.claim)
        if event.pod_group is not None:
            self._queue.ask_gates(event.pod_group)

    def cache_changed(self, changes: BeliefChanges) -> None:
        """Count and log what the NUMA cache found."""
        self._results.cache_changed(changes)


# What parts of the scheduler do about each pod that the server tells of.


class PodFollower(Protocol):
    """Keeps something of its own for pods; does nothing about what it has no method for."""

    def waits(self, pod: PodInfo) -> None:
        """A pod of ours without a node was seen, or has changed."""
        return

    def withdrawn(self, pod: PodInfo) -> None:
        """A pod without a node is being deleted, or another scheduler's."""
        return

    def placed(self, pod: PodInfo) -> None:
        """A pod is bound, by us or by another scheduler."""
        return

    def gone(self, pod: PodInfo, *, deleted: bool) -> None:
        """A pod has ended or was deleted; told again when one that has ended is deleted."""
        return

    def ended(self, pod: PodInfo) -> None:
        """A pod of ours that was counted on a node has ended: told once."""
        return


# Learning from pods that a kubelet rejected after they were bound.


_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class Rejections(PodFollower):
    """Tells the guard of rejections, and the owners of pods that are held back for them."""

    def __init__(
        self,
        queue: PodQueue,
        *,
        cluster: Cluster,
        recorder: EventRecorder,
        metrics: SchedulerMetrics,
    ) -> None:
        self._queue = queue
        self._cluster = cluster
        self._recorder = recorder
        self._metrics = metrics

    def ended(self, pod: PodInfo) -> None:
        """Learn from *pod*, one of ours, if a kubelet has rejected it."""
        if not is_rejected(pod.pod):
            return
        reason = pod.pod.status.reason if pod.pod.status else ""
        self._metrics.rejections.labels(reason).inc()
        _log.warning("kubelet_rejected_pod", pod=pod.key, node=pod.node_name, reason=reason)
        node = self._cluster.node(pod.node_name)
        report = node.numa.topology if node is not None and node.numa is not None else None
        owner = self._queue.guard.rejected(pod, self._queue.clock.monotonic(), report=report)
        self._metrics.runaways.set(self._queue.guard.runaways)
        if owner is not None and self._queue.leads:
            self._tell_owner(owner, pod, reason)

    def _tell_owner(self, owner: OwnerReference, pod: PodInfo, reason: str) -> None:
        about = ObjectReference(
            api_version=owner.api_version,
            kind=owner.kind,
            namespace=pod.namespace,
            name=owner.name,
            uid=owner.uid,
        )
        text = (
            f"kubelets keep rejecting pods of this {owner.kind} ({reason}, last on "
            f"{pod.node_name}); its pods are held back for a while"
        )
        self._recorder.warning(about, "PodsRejectedByKubelet", text, action="Scheduling")
