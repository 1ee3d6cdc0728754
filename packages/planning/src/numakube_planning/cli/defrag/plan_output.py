"""Plans to move pods, as text, as documents and as maps of the nodes that change."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

from numakube.values.display import age_text, amount_text, counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numakube.insight import ClusterFacts
    from numakube.insight.node_map.picture import NodePicture
    from numakube.values.resources import Amounts
    from numakube_planning.defrag.defrag_plan import MovePlan, MoveStep, PlanCosts


def plan_document(plan: MovePlan, costs: PlanCosts) -> dict[str, Any]:
    """Return the plan for programs."""
    document: dict[str, Any] = {
        "wanted": plan.wanted,
        "nodes": plan.nodes,
        "steps": [{"node": step.node, "moves": list(_moves(step))} for step in plan.steps],
        "whyNot": plan.why_not,
        **({"waiting": plan.takers} if plan.takers else {}),
        **({"aligns": plan.aligns} if plan.aligns else {}),
        "costs": {
            "restarts": costs.restarts,
            "priorities": {str(priority): count for priority, count in costs.priorities.items()},
            "disruptionBudgets": {
                name: {"used": used, "allowed": allowed}
                for name, (used, allowed) in costs.budgets.items()
            },
            "seconds": costs.seconds,
        },
    }
    if plan.stranded is not None:
        after = plan.stranded_after or {}
        document["stranded"] = {"before": dict(plan.stranded), "after": dict(after)}
    return document


def _moves(step: MoveStep) -> Iterator[dict[str, Any]]:
    for move in step.moves:
        cordoned = list(move.closed)
        yield {"pod": move.pod, "from": move.from_node, "to": move.to_node, "cordoned": cordoned}


def plan_lines(plan: MovePlan, costs: PlanCosts) -> Iterator[str]:
    """Yield the plan as text."""
    for number, step in enumerate(plan.steps, 1):
        yield from _step_lines(number, step)
        if not plan.aligns:
            yield f"   Uncordon {' and '.join(step.moves[-1].closed)}: {_won(plan, step)}."
        elif step.moves[-1].closed:
            yield f"   Uncordon {' and '.join(step.moves[-1].closed)}."
    yield from _outcome(plan) if plan.stranded is None else _stranded(plan)
    if plan.steps:
        yield from _cost_lines(costs)


def blind_lines(nodes: Sequence[str]) -> Iterator[str]:
    """Say which nodes pods that are aligned are kept off, if any."""
    if nodes:
        more = f" and {len(nodes) - 3} more" if len(nodes) > 3 else ""
        named = f"{', '.join(nodes[:3])}{more}"
        yield f"Left out, since nothing is known of their NUMA zones: {named}."


def _won(plan: MovePlan, step: MoveStep) -> str:
    if plan.stranded is not None:
        return "less of it is stranded"
    where = "there" if step.moves[-1].closed == (step.node,) else f"on {step.node}"
    return f"one more pod fits {where}"


def _step_lines(number: int, step: MoveStep) -> Iterator[str]:
    begin = f"{number}. Cordon"
    for closed, moves in groupby(step.moves, key=lambda one: one.closed):
        yield f"{begin} {' and '.join(closed)}, and evict:" if closed else f"{number}. Evict:"
        for move in moves:
            from_node = f" from {move.from_node}" if len(closed) > 1 else ""
            yield f"     {move.pod}{from_node}, which goes to {move.to_node}"
        begin = "   Now cordon only"


def _outcome(plan: MovePlan) -> Iterator[str]:
    if plan.aligns:
        result = (
            "is aligned" if plan.nodes else f"is not aligned, and no move helps: {plan.why_not}"
        )
        yield f"{plan.aligns} {result} then." if plan.steps else f"{plan.aligns} {result}."
        return
    fit = f"{len(plan.nodes)} of {plan.wanted} pods fit"
    if not plan.steps:
        yield f"{fit} as it is." if not plan.why_not else f"{fit}, and no moves help."
    else:
        moved = "1 pod is moved" if plan.moves == 1 else f"{plan.moves} pods are moved"
        together = " at the same time" if len(plan.nodes) > 1 else ""
        yield f"{fit}{together} then; {moved}."
    if plan.why_not:
        never = (
            "It fits no node, even without all pods that may leave. " if plan.is_hopeless else ""
        )
        yield f"The next one does not: {never}{plan.why_not}"
    if plan.takers:
        more = f" and {len(plan.takers) - 3} more" if len(plan.takers) > 3 else ""
        named = f"{', '.join(plan.takers[:3])}{more}"
        yield f"Waiting already, and may take the room first: {named}."


def _stranded(plan: MovePlan) -> Iterator[str]:
    before, after = plan.stranded or {}, plan.stranded_after or {}
    if not plan.steps:
        yield f"Stranded: {_amounts(before)}; no move helps." if before else "Nothing is stranded."
        return
    moved = "1 pod is moved" if plan.moves == 1 else f"{plan.moves} pods are moved"
    yield f"Stranded before: {_amounts(before)}; after: {_amounts(after)}; {moved}."


def _amounts(amounts: Amounts) -> str:
    parts = [amount_text(name, amount) for name, amount in sorted(amounts.items()) if amount]
    return ", ".join(parts) or "nothing"


def _cost_lines(costs: PlanCosts) -> Iterator[str]:
    if list(costs.priorities) != [0]:
        parts = [f"{count} of priority {one}" for one, count in costs.priorities.items()]
        yield f"Restarted: {', '.join(parts)}."
    for name, (used, allowed) in costs.budgets.items():
        yield f"Disruption budget {name}: {used} of the {counted(allowed, 'pod')} that may go."
    if costs.seconds:
        yield f"That takes about {age_text(costs.seconds)}, as long as these pods took to start."


def plan_pictures(plan: MovePlan, facts: ClusterFacts) -> Iterator[NodePicture]:
    """Yield each node that changes, as it would be after all moves, with the changes marked."""
    from numakube.insight.node_map import PlannedNode as Drawn
    from numakube.insight.node_map import planned

    pods = {pod.metadata.key: pod for pod in facts.pods}
    moves = [move for step in plan.steps for move in step.moves]
    for node in dict.fromkeys(name for move in moves for name in (move.from_node, move.to_node)):
        leaving = [move.pod for move in moves if move.from_node == node]
        arriving = [pods[move.pod] for move in moves if move.to_node == node]
        drawn = planned(facts, node, arriving=arriving, leaving=leaving)
        if isinstance(drawn, Drawn):
            yield drawn.picture
