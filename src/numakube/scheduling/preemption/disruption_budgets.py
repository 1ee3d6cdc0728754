"""Which evictions violate a disruption budget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from numakube.api.selectors import selector_of
from numakube.errors import InvalidValue

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numakube.api.workloads import PodDisruptionBudget
    from numakube.scheduling.snapshot.pods import PodInfo


class Matcher(Protocol):
    """Says which labels are meant."""

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Tell whether *labels* are meant."""
        ...


@dataclass(frozen=True, slots=True)
class Budget:
    """How many of the pods that *pods* matches may go.

    Attributes:
        allowed: how many more may go now.
        disrupted: names of pods whose eviction the API server has counted already.
    """

    namespace: str
    pods: Matcher
    allowed: int
    disrupted: frozenset[str] = frozenset()

    def protects(self, pod: PodInfo) -> bool:
        """Tell whether the eviction of *pod* counts against the budget."""
        return (
            pod.namespace == self.namespace
            and pod.name not in self.disrupted
            and bool(pod.labels)
            and self.pods.matches(pod.labels)
        )


def budgets_of(objects: Iterable[PodDisruptionBudget]) -> list[Budget]:
    """Return what *objects* allow; one whose selector is empty or wrong protects no pod."""
    budgets = []
    for one in objects:
        try:
            selector = selector_of(one.spec.selector)
        except InvalidValue:
            continue
        if not selector.is_empty:
            status = one.status
            disrupted = frozenset(status.disrupted_pods)
            budgets.append(
                Budget(one.metadata.namespace, selector, status.disruptions_allowed, disrupted)
            )
    return budgets


def split_by_violation(
    pods: Iterable[PodInfo], budgets: Sequence[Budget]
) -> tuple[list[PodInfo], list[PodInfo]]:
    """Return those of *pods* whose eviction violates a budget, and the others, in their order.

    Budgets are used up in the order of *pods*: the first to go are still within them.
    """
    left = [budget.allowed for budget in budgets]
    violating: list[PodInfo] = []
    fine: list[PodInfo] = []
    for pod in pods:
        violates = False
        for number, budget in enumerate(budgets):
            if budget.protects(pod):
                left[number] -= 1
                violates = violates or left[number] < 0
        (violating if violates else fine).append(pod)
    return violating, fine
