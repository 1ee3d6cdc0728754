"""Preemption: by kube-scheduler, where it can help, and by zone, so that the right one is cleared.

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

from numakube.apps.extender.extender_messages import MetaPod, MetaVictims
from numakube.scheduling.framework.cycle_state import CycleState
from numakube.scheduling.framework.status import SUCCESS, Code, unschedulable
from numakube.scheduling.numa.alignment_refusal import AlignmentRefusal, AlignmentRefusalGroup, Kind
from numakube.scheduling.preemption.victims import (
    Budget,
    ChosenVictims,
    EvictionTrial,
    by_importance,
    find_victims,
    split_by_violation,
)
from numakube.scheduling.snapshot.pod_equivalence import depends_on_pods
from numakube.values.resources import PODS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
    if isinstance(detail, AlignmentRefusalGroup):
        detail = detail.closest
    if not isinstance(detail, AlignmentRefusal) or detail.kind not in (Kind.NODE, Kind.ALIGN):
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
                name: frozenset(other.uid for other in told.pods or ())
                for name, told in answer.items()
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


# Preemption that clears the right zone.
#
# kube-scheduler has chosen victims by its own view of resources and asks what we think of them. A
# node stays as it is if the pod can be aligned once its victims are gone. If not, further pods of
# lower priority must go with them, as few and as unimportant as possible; where victims are a
# matter of resources alone, others may be better ones. Nodes on which nothing helps are left out,
# so that no pod is evicted in vain.


_TOO_SMALL: Final = unschedulable("not enough room on the node")


@dataclass(frozen=True, slots=True)
class Proposal:
    """Whom kube-scheduler would evict from one node.

    Attributes:
        uids: of the victims.
        violations: of disruption budgets, by its count.
    """

    uids: frozenset[str]
    violations: int


def reconsider(
    judge: Judge, pod: PodInfo, proposals: Mapping[str, Proposal], budgets: Sequence[Budget]
) -> dict[str, MetaVictims]:
    """Return the nodes of *proposals* on which preemption helps, and whom it takes there."""
    answer: dict[str, MetaVictims] = {}
    for name, proposal in proposals.items():
        node = judge.cluster.node(name)
        if node is None or not proposal.uids or not proposal.uids <= node.pods.keys():
            # What we cannot judge we do not advise: kube-scheduler asks again.
            continue
        victims = _Case(judge, pod, node, budgets).settle(proposal)
        if victims is not None and victims.pods:
            pods = tuple(MetaPod(uid=other.uid) for other in victims.pods)
            answer[name] = MetaVictims(pods=pods, num_pdb_violations=victims.violations)
    return answer


class _Case:
    """One pod and one node."""

    def __init__(
        self, judge: Judge, pod: PodInfo, node: NodeInfo, budgets: Sequence[Budget]
    ) -> None:
        self._judge = judge
        self._pod = pod
        self._node = node
        self._budgets = budgets
        self._nominated = judge.nominations.before(pod, node.name)

    def settle(self, proposal: Proposal) -> ChosenVictims | None:
        """Return the pods to evict; ``None`` if evicting does not help."""
        proposed = [self._node.pods[uid] for uid in sorted(proposal.uids)]
        trial = self._trial(_Alignment(self._judge))
        trial.remove(proposed)
        if trial.verdict().ok:
            return ChosenVictims(tuple(sorted(proposed, key=by_importance)), proposal.violations)
        found = [self._with_more(proposed, proposal.violations)]
        if not depends_on_pods(self._pod) and not any(map(_is_in_the_way, proposed)):
            found.append(self._others())
        return min((one for one in found if one), key=lambda one: one.cost, default=None)

    def _with_more(self, proposed: list[PodInfo], violations: int) -> ChosenVictims | None:
        """Return the proposed victims and the fewest besides."""
        rest = self._node.clone()
        for pod in proposed:
            rest.remove_pod(pod.uid)
        if self._node.numa is not None:
            rest.numa = self._node.numa.without([pod.uid for pod in proposed])

        def trial() -> EvictionTrial:
            return EvictionTrial(
                _Alignment(self._judge), CycleState(), self._pod, rest, nominated=self._nominated
            )

        more = find_victims(self._pod, rest, self._budgets, trial)
        if not isinstance(more, ChosenVictims):
            return None
        pods = sorted((*proposed, *more.pods), key=by_importance)
        violating, _ = split_by_violation(pods, self._budgets)
        return ChosenVictims(tuple(pods), max(violations, len(violating)))

    def _others(self) -> ChosenVictims | None:
        """Return the best victims by resources and alignment together."""
        what_if = _RoomAndAlignment(self._judge)
        found = find_victims(self._pod, self._node, self._budgets, lambda: self._trial(what_if))
        return found if isinstance(found, ChosenVictims) and found.pods else None

    def _trial(self, what_if: _Alignment) -> EvictionTrial:
        state = CycleState()
        return EvictionTrial(what_if, state, self._pod, self._node, nominated=self._nominated)


class _Alignment:
    """A `WhatIf` that only looks at NUMA zones."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge

    def admits(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Return what the engine says of *node*."""
        del state
        return self._judge.admits(pod, node)

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeInfo) -> None:
        """Put *added* on *node*, a clone."""
        del state, pod
        node.add_pod(added)
        self._judge.engine.expect(added, node)

    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, node: NodeInfo) -> None:
        """Take *removed* off *node*, a clone."""
        del state, pod
        node.remove_pod(removed.uid)


class _RoomAndAlignment(_Alignment):
    """One that also counts resources, as kube-scheduler does."""

    def admits(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Return whether there is room on *node*, and what the engine says of it."""
        status = _room(pod, node)
        return super().admits(state, pod, node) if status.ok else status


def _room(pod: PodInfo, node: NodeInfo) -> Status:
    if len(node.pods) + 1 > node.allocatable.get(PODS, 0):
        return _TOO_SMALL
    for name, wanted in pod.requests.items():
        if wanted and node.requested.get(name, 0) + wanted > node.allocatable.get(name, 0):
            return _TOO_SMALL
    return SUCCESS


def _is_in_the_way(victim: PodInfo) -> bool:
    """Tell whether *victim* may have been chosen for more than its resources."""
    ports = any(
        port.host_port for container in victim.pod.spec.containers for port in container.ports
    )
    return ports or depends_on_pods(victim)
