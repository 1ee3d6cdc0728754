"""Evictions by taints: pods leave nodes with ``NoExecute`` taints that they do not tolerate.

A toleration with a time counts from when the taint was added. The API server gives every pod one of
300 s for nodes that are not ready or unreachable.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, ClassVar

from numakube.api.affinity_and_taints import tolerates
from numakube.kube import ObjectKey, key_of, reference_to
from numakube.kube.catalog import NODES, PODS
from numakube_lab.controllers.cluster.node_lifecycle import BY_NODE, node_of
from numakube_lab.controllers.common.controller_loop import (
    NOTHING,
    Delete,
    LabController,
    Note,
    ObjectPlan,
)
from numakube_lab.controllers.common.pod_states import NO_EXECUTE, is_terminating, time_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from numakube.api.affinity_and_taints import Taint, Toleration
    from numakube.api.nodes import Node
    from numakube.api.pod import Pod
    from numakube.kube import EventRecorder
    from numakube_lab.controllers.common.controller_loop import MirroredCluster


def no_execute_taints(node: Node) -> tuple[Taint, ...]:
    """Return the taints of *node* that drive pods away."""
    return tuple(taint for taint in node.spec.taints if taint.effect == NO_EXECUTE)


def seconds_to_eviction(
    taints: Iterable[Taint], tolerations: Sequence[Toleration], now: datetime
) -> float | None:
    """Return in how many seconds a pod has to leave: 0 for at once, None for never."""
    waits: list[float] = []
    for taint in taints:
        accepted = [toleration for toleration in tolerations if tolerates(toleration, taint)]
        if not accepted:
            return 0.0
        limits = [
            toleration.toleration_seconds
            for toleration in accepted
            if toleration.toleration_seconds is not None
        ]
        if limits:
            since = time_of(taint.time_added) or now
            end = since + timedelta(seconds=max(0, min(limits)))
            waits.append(max(0.0, (end - now).total_seconds()))
    return min(waits, default=None)


def reconcile(pod: Pod, node: Node, now: datetime) -> ObjectPlan:
    """Decide whether *pod* has to leave *node*."""
    if is_terminating(pod):
        return NOTHING
    wait = seconds_to_eviction(no_execute_taints(node), pod.spec.tolerations, now)
    if wait is None:
        return NOTHING
    if wait > 0:
        return ObjectPlan((), wait)
    about = reference_to(PODS, pod)
    message = f"Marking for deletion Pod {key_of(pod)}"
    return ObjectPlan(
        (
            Note(about=about, reason="TaintManagerEviction", message=message),
            Delete(resource=PODS, key=key_of(pod), uid=pod.metadata.uid),
        )
    )


class TaintEvictions(LabController):
    """Looks after the pods on tainted nodes."""

    name: ClassVar[str] = "taint-eviction-controller"

    def __init__(self, cluster: MirroredCluster, *, recorder: EventRecorder | None = None) -> None:
        super().__init__(cluster, recorder=recorder)
        self._nodes = cluster.mirror(NODES)
        self._pods = cluster.mirror(PODS)
        self._pods.indexed(BY_NODE, node_of)

    def watch(self) -> None:
        """Look at the pods of nodes that have such taints."""
        self.follow(self._nodes, self._pods_on)
        self.follow(self._pods, self._if_tainted)

    def plan(self, key: ObjectKey) -> ObjectPlan:
        """Decide about one pod."""
        pod = self._pods.get(key)
        node = self._nodes.get(ObjectKey("", pod.spec.node_name)) if pod else None
        if pod is None or node is None:
            return NOTHING
        return reconcile(pod, node, self.clock.now())

    def _pods_on(self, node: Node) -> Iterable[ObjectKey]:
        if not no_execute_taints(node):
            return ()
        return [key_of(pod) for pod in self._pods.store.select(BY_NODE, node.metadata.name)]

    def _if_tainted(self, pod: Pod) -> Iterable[ObjectKey]:
        node = self._nodes.get(ObjectKey("", pod.spec.node_name))
        return (key_of(pod),) if node is not None and no_execute_taints(node) else ()
