"""The life cycle of nodes: silent nodes are unreachable, unhealthy ones are tainted.

Follows kube-controller-manager 1.35: a kubelet must renew its lease, or report its node's status,
every 50 s (a new one within 60 s). Where leases last longer than the usual 40 s, as in labs of very
many nodes, silence may last longer in proportion; kube-controller-manager has a flag for that.
Nothing is polled: each node is looked at when it changes, and once more when its silence would have
lasted too long. There is no rate limit by zones.

What follows from the health of a node: its conditions and its taints. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

import msgspec

from numakube.api.affinity_and_taints import Taint
from numakube.api.nodes import NodeCondition
from numakube.kube import ObjectKey, Removed, key_of, reference_to
from numakube.kube.catalog import LEASES, NODES, PODS
from numakube.values.times import format_time
from numakube_lab.controllers.common.controller_loop import (
    NOTHING,
    Action,
    LabController,
    Note,
    ObjectPlan,
    PlannedChange,
)
from numakube_lab.controllers.common.pod_states import is_ready

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from numakube.api.meta import Lease
    from numakube.api.nodes import Node
    from numakube.api.pod import Pod
    from numakube.kube import Change as StoreChange
    from numakube.kube import EventRecorder
    from numakube_lab.controllers.common.controller_loop import MirroredCluster


_PREFIX: Final = "node.kubernetes.io/"
READY: Final = "Ready"
WATCHED: Final = (READY, "MemoryPressure", "DiskPressure", "PIDPressure")
"""The conditions that a kubelet reports; they are unknown while it is silent."""

_PRESSURES: Final = {
    "MemoryPressure": f"{_PREFIX}memory-pressure",
    "DiskPressure": f"{_PREFIX}disk-pressure",
    "PIDPressure": f"{_PREFIX}pid-pressure",
    "NetworkUnavailable": f"{_PREFIX}network-unavailable",
}
NOT_READY: Final = f"{_PREFIX}not-ready"
UNREACHABLE: Final = f"{_PREFIX}unreachable"
CORDONED: Final = f"{_PREFIX}unschedulable"

_OURS: Final = frozenset(
    {(key, "NoSchedule") for key in (*_PRESSURES.values(), NOT_READY, UNREACHABLE, CORDONED)}
    | {(key, "NoExecute") for key in (NOT_READY, UNREACHABLE)}
)


def condition(node: Node, kind: str) -> NodeCondition | None:
    """Return a condition of *node*."""
    return next((each for each in node.status.conditions if each.type == kind), None)


def ready_status(node: Node) -> str:
    """Return whether *node* is ready: ``True``, ``False`` or ``Unknown``."""
    ready = condition(node, READY)
    return ready.status if ready else "Unknown"


def silenced(node: Node, now: datetime) -> tuple[NodeCondition, ...]:
    """Return the conditions of a node whose kubelet is silent."""
    moment = format_time(now)
    others = [each for each in node.status.conditions if each.type not in WATCHED]
    changed = [_unknown(condition(node, kind), kind, node, moment) for kind in WATCHED]
    return (*others, *changed)


def _unknown(current: NodeCondition | None, kind: str, node: Node, moment: str) -> NodeCondition:
    if current is None:
        return NodeCondition(
            type=kind,
            status="Unknown",
            reason="NodeStatusNeverUpdated",
            message="Kubelet never posted node status.",
            last_heartbeat_time=node.metadata.creation_timestamp,
            last_transition_time=moment,
        )
    if current.status == "Unknown":
        return current
    return msgspec.structs.replace(
        current,
        status="Unknown",
        reason="NodeStatusUnknown",
        message="Kubelet stopped posting node status.",
        last_transition_time=moment,
    )


def wanted_taints(node: Node, now: datetime) -> tuple[Taint, ...]:
    """Return the taints that *node* should have: those of others, and those of its health."""
    wanted = _taints_of_health(node)
    kept = [
        taint
        for taint in node.spec.taints
        if (taint.key, taint.effect) not in _OURS or (taint.key, taint.effect) in wanted
    ]
    have = {(taint.key, taint.effect) for taint in kept}
    added = [
        Taint(
            key=key,
            effect=effect,
            time_added=format_time(now) if effect == "NoExecute" else None,
        )
        for key, effect in wanted
        if (key, effect) not in have
    ]
    return (*kept, *added)


def _taints_of_health(node: Node) -> list[tuple[str, str]]:
    wanted = [
        (key, "NoSchedule")
        for kind, key in _PRESSURES.items()
        if (found := condition(node, kind)) and found.status == "True"
    ]
    ready = ready_status(node)
    if ready != "True":
        key = NOT_READY if ready == "False" else UNREACHABLE
        wanted += [(key, "NoSchedule"), (key, "NoExecute")]
    if node.spec.unschedulable:
        wanted.append((CORDONED, "NoSchedule"))
    return wanted


GRACE_SECONDS: Final = 50.0
STARTUP_GRACE_SECONDS: Final = 60.0
LEASE_SECONDS: Final = 40
_GRACE_PER_LEASE: Final = GRACE_SECONDS / LEASE_SECONDS
LEASE_NAMESPACE: Final = "kube-node-lease"
BY_NODE: Final = "node"
"""Finds pods by the node that they are on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedNode:
    """A node and its pods.

    Attributes:
        silence: seconds since its kubelet was last heard of.
        lease_seconds: how long its lease lasts.
    """

    node: Node
    silence: float
    lease_seconds: int = LEASE_SECONDS
    pods: Sequence[Pod] = ()
    now: datetime


def reconcile(seen: ObservedNode) -> ObjectPlan:
    """Decide what to do about a node."""
    node = seen.node
    if node.metadata.deletion_timestamp is not None:
        return NOTHING
    usual = GRACE_SECONDS if condition(node, READY) else STARTUP_GRACE_SECONDS
    left = max(usual, _GRACE_PER_LEASE * seen.lease_seconds) - seen.silence
    if left <= 0:
        conditions = silenced(node, seen.now)
        if conditions != node.status.conditions:
            return ObjectPlan(_reported(node, conditions))
    actions = (*_tainted(node, seen.now), *_unready_pods(seen))
    return ObjectPlan(actions, left if left > 0 else None)


def _reported(node: Node, conditions: object) -> tuple[Action, ...]:
    name = node.metadata.name
    patch = {
        "metadata": {"resourceVersion": node.metadata.resource_version},
        "status": {"conditions": msgspec.to_builtins(conditions)},
    }
    note = Note(
        about=reference_to(NODES, node),
        reason="NodeNotReady",
        message=f"Node {name} status is now: NodeNotReady",
    )
    change = PlannedChange(resource=NODES, key=key_of(node), patch=patch, subresource="status")
    return (change, note)


def _tainted(node: Node, now: datetime) -> tuple[Action, ...]:
    taints = wanted_taints(node, now)
    if taints == node.spec.taints:
        return ()
    patch = {
        "metadata": {"resourceVersion": node.metadata.resource_version},
        "spec": {"taints": msgspec.to_builtins(taints) or None},
    }
    return (PlannedChange(resource=NODES, key=key_of(node), patch=patch),)


def _unready_pods(seen: ObservedNode) -> tuple[Action, ...]:
    """Return what tells that the pods of a node that is not ready cannot serve."""
    if ready_status(seen.node) == "True":
        return ()
    return tuple(action for pod in seen.pods if is_ready(pod) for action in _unready(pod, seen.now))


def _unready(pod: Pod, now: datetime) -> tuple[Action, ...]:
    conditions = pod.status.conditions if pod.status else ()
    changed = [
        msgspec.structs.replace(each, status="False", last_transition_time=format_time(now))
        if each.type == READY
        else each
        for each in conditions
    ]
    patch = {
        "metadata": {"resourceVersion": pod.metadata.resource_version},
        "status": {"conditions": msgspec.to_builtins(changed)},
    }
    return (
        PlannedChange(resource=PODS, key=key_of(pod), patch=patch, subresource="status"),
        Note(
            about=reference_to(PODS, pod),
            reason="NodeNotReady",
            message="Node is not ready",
            warning=True,
        ),
    )


def node_of(pod: Pod) -> tuple[str, ...]:
    """Return the node of *pod*, for an index."""
    return (pod.spec.node_name,) if pod.spec.node_name else ()


class Nodes(LabController):
    """Looks after all nodes."""

    name: ClassVar[str] = "node-controller"

    def __init__(self, cluster: MirroredCluster, *, recorder: EventRecorder | None = None) -> None:
        super().__init__(cluster, recorder=recorder)
        self._nodes = cluster.mirror(NODES)
        self._leases = cluster.mirror(LEASES)
        self._pods = cluster.mirror(PODS)
        self._pods.indexed(BY_NODE, node_of)
        self._heard: dict[str, float] = {}
        self._lasting: dict[str, int] = {}
        self._reports: dict[str, str | None] = {}

    def watch(self) -> None:
        """Look again when a node changes; listen to what its kubelet says."""
        self._unsubscribe += [
            self._leases.store.subscribe(self._lease_changed),
            self._nodes.store.subscribe(self._node_changed),
        ]
        self.follow(self._nodes)

    def plan(self, key: ObjectKey) -> ObjectPlan:
        """Decide what to do about one node."""
        node = self._nodes.get(key)
        if node is None:
            return NOTHING
        now = self.clock.monotonic()
        heard = self._heard.setdefault(key.name, now)
        pods = self._pods.store.select(BY_NODE, key.name) if ready_status(node) != "True" else ()
        lasting = self._lasting.get(key.name, LEASE_SECONDS)
        seen = ObservedNode(
            node=node,
            silence=now - heard,
            lease_seconds=lasting,
            pods=pods,
            now=self.clock.now(),
        )
        return reconcile(seen)

    def _lease_changed(self, change: StoreChange[Lease]) -> None:
        metadata = change.object.metadata
        if metadata.namespace == LEASE_NAMESPACE and not isinstance(change, Removed):
            self._heard[metadata.name] = self.clock.monotonic()
            self._lasting[metadata.name] = (
                change.object.spec.lease_duration_seconds or LEASE_SECONDS
            )

    def _node_changed(self, change: StoreChange[Node]) -> None:
        """Take a new heartbeat in a node's status for a sign of life."""
        name = change.object.metadata.name
        if isinstance(change, Removed):
            self._heard.pop(name, None)
            self._lasting.pop(name, None)
            self._reports.pop(name, None)
            return
        ready = condition(change.object, READY)
        heartbeat = ready.last_heartbeat_time if ready else None
        if name not in self._reports or self._reports[name] != heartbeat:
            self._heard[name] = self.clock.monotonic()
        self._reports[name] = heartbeat
