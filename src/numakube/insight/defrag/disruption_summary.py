"""What a plan costs, and what it brings.

Costs are restarts: how many, of which priorities, which disruption budgets they use, and how long
they take. The latter is what the same pods took from their creation until they were ready, one
after the other; pods of which that is not known count for nothing. Pods with local storage are
never moved, so that no data is lost.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from numakube.errors import InvalidValue
from numakube.scheduling.preemption.budgets import budgets_of
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.values.times import parse_time

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.api.pod import Pod
    from numakube.insight.defrag.plan import Plan
    from numakube.insight.facts import ClusterFacts


@dataclass(frozen=True, slots=True)
class PlanCosts:
    """What carrying out a plan takes.

    Attributes:
        restarts: pods that are moved.
        priorities: how many of each priority.
        budgets: by ``namespace/name``, how many evictions count against a disruption budget, and
            how many it allows now.
        seconds: how long the restarts take, one after the other, as far as that is known.
    """

    restarts: int
    priorities: Mapping[int, int]
    budgets: Mapping[str, tuple[int, int]]
    seconds: float


def costs_of(plan: Plan, facts: ClusterFacts) -> PlanCosts:
    """Return what *plan*, made for *facts*, costs."""
    pods = {one.metadata.key: one for one in facts.pods}
    moved = [pods[move.pod] for step in plan.steps for move in step.moves if move.pod in pods]
    infos = [PodInfo(one) for one in moved]
    budgets: dict[str, tuple[int, int]] = {}
    for key, one in facts.objects.disruption_budgets.items():
        for budget in budgets_of([one]):
            used = sum(map(budget.protects, infos))
            if used:
                budgets[key] = used, budget.allowed
    return PlanCosts(
        restarts=len(moved),
        priorities=dict(sorted(Counter(one.priority for one in infos).items())),
        budgets=budgets,
        seconds=sum(map(_seconds_to_ready, moved)),
    )


def _seconds_to_ready(pod: Pod) -> float:
    """Return how long *pod* took from its creation until it was ready; 0 if that is unknown."""
    conditions = pod.status.conditions if pod.status else ()
    ready = next((one for one in conditions if (one.type, one.status) == ("Ready", "True")), None)
    created = pod.metadata.creation_timestamp
    if ready is None or ready.last_transition_time is None or created is None:
        return 0.0
    try:
        taken = parse_time(ready.last_transition_time) - parse_time(created)
    except InvalidValue:
        return 0.0
    return max(0.0, taken.total_seconds())
