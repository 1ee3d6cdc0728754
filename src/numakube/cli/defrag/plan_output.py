"""Plans to move pods, as text and as documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.insight.defrag import Plan


def plan_document(plan: Plan) -> dict[str, Any]:
    """Return the plan for programs."""
    return {
        "wanted": plan.wanted,
        "nodes": plan.nodes,
        "steps": [
            {
                "node": step.node,
                "moves": [
                    {"pod": one.pod, "from": one.from_node, "to": one.to_node} for one in step.moves
                ],
            }
            for step in plan.steps
        ],
        "whyNot": plan.why_not,
    }


def plan_lines(plan: Plan) -> Iterator[str]:
    """Yield the plan as text."""
    for number, step in enumerate(plan.steps, 1):
        yield f"{number}. Cordon {step.node}, and evict:"
        for move in step.moves:
            yield f"     {move.pod}, which goes to {move.to_node}"
        yield f"   Uncordon {step.node}: one more pod fits there."
    fit = f"{len(plan.nodes)} of {plan.wanted} pods fit"
    if not plan.steps:
        yield f"{fit} as it is." if not plan.why_not else f"{fit}, and no moves help."
    else:
        moved = "1 pod is moved" if plan.moves == 1 else f"{plan.moves} pods are moved"
        yield f"{fit} then; {moved}."
    if plan.why_not:
        yield f"The next one does not: {plan.why_not}"
