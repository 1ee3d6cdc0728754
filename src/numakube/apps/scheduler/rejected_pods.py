"""Learning from pods that a kubelet rejected after they were bound."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from numakube.api.kubelet_rejections import is_rejected
from numakube.api.meta import ObjectReference

if TYPE_CHECKING:
    from numakube.api.meta import OwnerReference
    from numakube.apps.scheduler.metrics import SchedulerMetrics
    from numakube.apps.scheduler.pod_queue import PodQueue
    from numakube.kube.clock import Clock
    from numakube.kube.event_recorder import EventRecorder
    from numakube.scheduling.plugins.rejection_guard import RejectionGuard
    from numakube.scheduling.snapshot.cluster import Cluster
    from numakube.scheduling.snapshot.pods import PodInfo

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class Rejections:
    """Tells the guard of rejections, and the owners of pods that are held back for them."""

    def __init__(
        self,
        guard: RejectionGuard,
        clock: Clock,
        queue: PodQueue,
        *,
        cluster: Cluster,
        recorder: EventRecorder,
        metrics: SchedulerMetrics,
    ) -> None:
        self._guard = guard
        self._clock = clock
        self._queue = queue
        self._cluster = cluster
        self._recorder = recorder
        self._metrics = metrics

    def pod_ended(self, pod: PodInfo) -> None:
        """Learn from *pod*, one of ours, if a kubelet has rejected it."""
        if not is_rejected(pod.pod):
            return
        reason = pod.pod.status.reason if pod.pod.status else ""
        self._metrics.rejections.labels(reason).inc()
        _log.warning("kubelet_rejected_pod", pod=pod.key, node=pod.node_name, reason=reason)
        node = self._cluster.node(pod.node_name)
        report = node.numa.topology if node is not None and node.numa is not None else None
        owner = self._guard.rejected(pod, self._clock.monotonic(), report=report)
        self._metrics.runaways.set(self._guard.runaways)
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
