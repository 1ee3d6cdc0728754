"""Preemption that clears the right zone.

kube-scheduler has chosen victims by its own view of resources and asks what we think of them. A
node stays as it is if the pod can be aligned once its victims are gone. If not, further pods of
lower priority must go with them, as few and as unimportant as possible; where victims are a matter
of resources alone, others may be better ones. Nodes on which nothing helps are left out, so that
no pod is evicted in vain.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from numakube.apps.extender.extender_messages import MetaPod, MetaVictims
from numakube.scheduling.framework.cycle_state import CycleState
from numakube.scheduling.framework.status import SUCCESS, unschedulable
from numakube.scheduling.preemption.disruption_budgets import Budget, split_by_violation
from numakube.scheduling.preemption.victims import Victims, by_importance, find_victims
from numakube.scheduling.preemption.what_if_node import Trial
from numakube.scheduling.snapshot.pod_equivalence import depends_on_pods
from numakube.values.resources import PODS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numakube.apps.extender.filter_nodes import Judge
    from numakube.scheduling.framework.status import Status
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo

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
            pods = tuple(MetaPod(uid=one.uid) for one in victims.pods)
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

    def settle(self, proposal: Proposal) -> Victims | None:
        """Return the pods to evict; ``None`` if evicting does not help."""
        proposed = [self._node.pods[uid] for uid in sorted(proposal.uids)]
        trial = self._trial(_Alignment(self._judge))
        trial.remove(proposed)
        if trial.verdict().ok:
            return Victims(tuple(sorted(proposed, key=by_importance)), proposal.violations)
        found = [self._with_more(proposed, proposal.violations)]
        if not depends_on_pods(self._pod) and not any(map(_is_in_the_way, proposed)):
            found.append(self._others())
        return min((one for one in found if one), key=lambda one: one.cost, default=None)

    def _with_more(self, proposed: list[PodInfo], violations: int) -> Victims | None:
        """Return the proposed victims and the fewest besides."""
        rest = self._node.clone()
        for one in proposed:
            rest.remove_pod(one.uid)
        if self._node.numa is not None:
            rest.numa = self._node.numa.without([one.uid for one in proposed])

        def trial() -> Trial:
            return Trial(
                _Alignment(self._judge), CycleState(), self._pod, rest, nominated=self._nominated
            )

        more = find_victims(self._pod, rest, self._budgets, trial)
        if not isinstance(more, Victims):
            return None
        pods = sorted((*proposed, *more.pods), key=by_importance)
        violating, _ = split_by_violation(pods, self._budgets)
        return Victims(tuple(pods), max(violations, len(violating)))

    def _others(self) -> Victims | None:
        """Return the best victims by resources and alignment together."""
        what_if = _RoomAndAlignment(self._judge)
        found = find_victims(self._pod, self._node, self._budgets, lambda: self._trial(what_if))
        return found if isinstance(found, Victims) and found.pods else None

    def _trial(self, what_if: _Alignment) -> Trial:
        state = CycleState()
        return Trial(what_if, state, self._pod, self._node, nominated=self._nominated)


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
    ports = any(port.host_port for one in victim.pod.spec.containers for port in one.ports)
    return ports or depends_on_pods(victim)
