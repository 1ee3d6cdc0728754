"""Plans that align a pod which runs: it is placed again, where that aligns it.

    plan = plan_alignment(facts, engine, pod)

Where that is, `numakube.insight.audit` says, and the scheduler's own cycle says where the pod goes.
Nodes that the scheduler likes better, and that would not align the pod, are cordoned meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.insight.audit.alignment_audit import audit
from numakube.insight.defrag.defrag_plan import Move, Plan, Step
from numakube.insight.defrag.movable_pods import MovablePods, may_move
from numakube.insight.defrag.what_if_cluster import WhatIfCluster, again
from numakube.scheduling.snapshot.pods import PodInfo

if TYPE_CHECKING:
    from collections.abc import Collection

    from numakube.api.pod import Pod
    from numakube.insight.facts import ClusterFacts
    from numakube.scheduling.assembly import Engine

_MOST_CORDONED: Final = 3


def plan_alignment(facts: ClusterFacts, engine: Engine, pod: Pod) -> Plan:
    """Return how *pod*, which has its node, comes to be aligned; *engine* has the move then."""
    plan, found = Plan(1, aligns=pod.metadata.key), audit(facts, [pod])
    if found.unknown:
        plan.why_not = found.unknown[0].why
    elif not found.misaligned:
        plan.nodes = [pod.spec.node_name]
    else:
        info, better = PodInfo(pod), found.misaligned[0].better
        plan.why_not = _stays(engine, info) or ("" if better else "no node would align it now")
        move = _move(WhatIfCluster(engine), info, better) if not plan.why_not else None
        if move is not None:
            plan.nodes, plan.steps = [move.to_node], [Step(move.from_node, (move,))]
        else:
            plan.why_not = plan.why_not or "the scheduler would not place it where it is aligned"
    return plan


def replacement_of(pod: Pod, before: ClusterFacts, now: ClusterFacts) -> Pod | None:
    """Return a pod of the same controller that was not there *before*."""
    owner, known = pod.metadata.controller, {one.metadata.uid for one in before.pods}
    for one in now.pods:
        same = owner is not None and one.metadata.controller == owner
        if same and one.metadata.uid not in known:
            return one
    return None


def _stays(engine: Engine, pod: PodInfo) -> str:
    """Return why *pod* is not moved, or nothing."""
    if pod.pod.spec.resource_claims:
        return "it has resource claims, and its next ones do not exist yet"
    if not may_move(pod):
        return "it may not be moved"
    budgets = engine.cluster.objects.disruption_budgets.values()
    return "" if MovablePods(budgets).within_budgets([pod]) else "a disruption budget protects it"


def _move(what_if: WhatIfCluster, pod: PodInfo, better: Collection[str]) -> Move | None:
    closed, mark = frozenset[str](), what_if.mark()
    for _ in range(_MOST_CORDONED + 1):
        what_if.leave(pod)
        to_node = what_if.arrive(again(pod), closed=closed)
        if to_node in better:
            return Move(pod.key, pod.node_name, to_node, tuple(sorted(closed)))
        what_if.rewind(mark)
        closed |= {to_node}
        if not to_node:
            break
    return None
