"""Preemption by kube-scheduler: where it cannot help, and room that it is making.

It would look for victims by its own view of resources, in which the pod fits as it is, find none,
and complain in an order that changes from attempt to attempt: a new text each time, and the pod is
tried without end. So wherever it could start looking, and wherever no eviction helps, the node goes
to ``failedAndUnresolvableNodes``.

kube-scheduler may also see that the last victim is gone before we do. It tries the pod on the
nominated node then, we still refuse it, and it would look for other victims at once. So a pod that
has room coming gets no further victims for a while; it is woken when the room is there. The room is
known by a victim that leaves, too: kube-scheduler asks before its own nomination has come back to
it, and takes one back if it finds no other node to try. And it may ask for a pod before the API
server has told us of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from numakube.scheduling.framework.status import Code
from numakube.scheduling.numa.alignment_rejection import Kind, Rejection, RejectionGroup

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.apps.extender.extender_messages import MetaVictims
    from numakube.apps.extender.filter_nodes import Judge
    from numakube.scheduling.arrays import IntArray, Mask, Rows
    from numakube.scheduling.framework.status import Status
    from numakube.scheduling.snapshot.cluster import Cluster
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo
    from numakube.scheduling.snapshot.zone_table import ZoneTable

_NOBODY: Final = 2**31
"""Above every priority: there is no pod to evict."""

PATIENCE_SECONDS: Final = 30.0
"""Longer than any report takes that shows victims gone."""

_MOST_PODS: Final = 1000
"""For which room may be in the making; kube-scheduler makes it for one pod after the other."""


def may_preempt(pod: PodInfo) -> bool:
    """Tell whether kube-scheduler may evict others for *pod*."""
    return pod.pod.spec.preemption_policy != "Never"


class LowestPriorities:
    """The lowest priority on each node, looked up again only where a node has changed."""

    def __init__(self) -> None:
        self._known: list[tuple[int, int]] = []

    def on(self, cluster: Cluster, rows: Rows) -> IntArray:
        """Return the lowest priority of the pods at *rows*; above every priority if none."""
        known, by_row = self._known, cluster.by_row
        known.extend([(-1, _NOBODY)] * (len(by_row) - len(known)))
        found = []
        for row in rows.tolist():
            node = by_row[row]
            if node is not None and known[row][0] != node.generation:
                lowest = min((pod.priority for pod in node.pods.values()), default=_NOBODY)
                known[row] = node.generation, lowest
            found.append(known[row][1])
        return np.array(found, dtype=np.int64)


def are_hopeless(status: Status, zones: ZoneTable, rows: Rows) -> Mask:
    """Tell which of *rows*, refused for the same reason, would refuse even if idle."""
    if status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
        return np.ones(len(rows), dtype=np.bool_)
    detail = status.detail
    if isinstance(detail, RejectionGroup):
        detail = detail.closest
    if not isinstance(detail, Rejection) or detail.kind not in (Kind.NODE, Kind.ALIGN):
        return np.zeros(len(rows), dtype=np.bool_)
    amounts = np.sort(zones.allocatable(detail.resource)[:, rows], axis=0)[::-1]
    if detail.kind is Kind.ALIGN:
        amounts = amounts[: len(detail.zones)]
    short: Mask = amounts.sum(axis=0) < detail.wanted
    return short


@dataclass(frozen=True, slots=True)
class _Room:
    """Whom we agreed to evict for a pod, by node."""

    victims: dict[str, frozenset[str]]
    until: float


class Rooms:
    """The preemptions of the last while, by pod."""

    def __init__(self) -> None:
        self._by_uid: dict[str, _Room] = {}

    def __len__(self) -> int:
        return len(self._by_uid)

    def note(self, pod: PodInfo, answer: Mapping[str, MetaVictims], now: float) -> None:
        """Remember what kube-scheduler was told about *pod*."""
        if answer:
            victims = {
                name: frozenset(one.uid for one in told.pods or ()) for name, told in answer.items()
            }
            known = self._by_uid.get(pod.uid)
            earlier = {} if known is None or known.until < now else known.victims
            self._by_uid.pop(pod.uid, None)
            self._by_uid[pod.uid] = _Room({**earlier, **victims}, now + PATIENCE_SECONDS)
            while len(self._by_uid) > _MOST_PODS:
                del self._by_uid[next(iter(self._by_uid))]

    def is_made_for(self, pod: PodInfo, judge: Judge, now: float) -> bool:
        """Tell whether *pod* will fit a node as soon as the victims there are gone.

        That is its nominated node, or else one of whose victims one is leaving or has left:
        kube-scheduler evicts all of them, and we are not told of all at the same moment.
        """
        room = self._by_uid.get(pod.uid)
        nominated = pod.nominated_node_name or judge.nominations.node_of(pod.uid)
        if room is None or room.until < now:
            return False
        for name, victims in room.victims.items():
            node = judge.cluster.node(name)
            if node is None or (nominated and nominated != name):
                continue
            if (nominated or _has_begun(victims, node)) and _fits(pod, node, victims, judge):
                return True
        return False

    def forget(self, uid: str) -> None:
        """Forget a pod that has a node, or is gone."""
        self._by_uid.pop(uid, None)


def _has_begun(victims: frozenset[str], node: NodeInfo) -> bool:
    return any(uid not in node.pods or node.pods[uid].is_being_deleted for uid in victims)


def _fits(pod: PodInfo, node: NodeInfo, victims: frozenset[str], judge: Judge) -> bool:
    """Tell whether *pod* fits *node* without *victims*."""
    copy = node.clone()
    for uid in victims:
        copy.remove_pod(uid)
    if copy.numa is not None:
        copy.numa = copy.numa.without(victims)
    return judge.admits(pod, copy).ok
