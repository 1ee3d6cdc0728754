"""DefaultPreemption is configured as in kube-scheduler."""

from __future__ import annotations

import pytest

from numakube.api.meta import LabelSelector, LabelSelectorRequirement, ObjectMeta
from numakube.api.workloads import (
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
)
from numakube.errors import ConfigError
from numakube.scheduling.framework.registry import Handle
from numakube.scheduling.preemption.disruption_budgets import budgets_of
from numakube.scheduling.preemption.preemption_args import REGISTRY


def test_the_plugin_is_made_by_its_name() -> None:
    """With defaults for what is not said."""
    args = {"kind": "DefaultPreemptionArgs", "minCandidateNodesPercentage": 5}
    assert REGISTRY["DefaultPreemption"](args, Handle()).name == "DefaultPreemption"


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (
            {"minCandidateNodesPercentage": 101},
            "minCandidateNodesPercentage: Invalid value: 101: not in valid range [0, 100]",
        ),
        (
            {"minCandidateNodesAbsolute": -1},
            "minCandidateNodesAbsolute: Invalid value: -1: not in valid range [0, inf)",
        ),
        (
            {"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 0},
            "cannot be zero at the same time as minCandidateNodesAbsolute",
        ),
    ],
)
def test_wrong_arguments_are_refused_in_kube_schedulers_words(
    args: dict[str, object], problem: str
) -> None:
    """So that the known documentation helps."""
    with pytest.raises(ConfigError) as caught:
        REGISTRY["DefaultPreemption"](args, Handle())
    assert problem in str(caught.value)


def budget(selector: LabelSelector | None) -> PodDisruptionBudget:
    """A budget of pods with that selector."""
    return PodDisruptionBudget(
        metadata=ObjectMeta(namespace="default", name="b"),
        spec=PodDisruptionBudgetSpec(selector=selector),
        status=PodDisruptionBudgetStatus(disruptions_allowed=2, disrupted_pods={"p": "now"}),
    )


def test_a_budget_is_read_from_its_object() -> None:
    """What it allows stands in its status."""
    (made,) = budgets_of([budget(LabelSelector(match_labels={"app": "db"}))])
    assert (made.namespace, made.allowed, made.disrupted) == ("default", 2, frozenset({"p"}))
    assert made.pods.matches({"app": "db"})
    assert not made.pods.matches({"app": "web"})


def test_budgets_without_a_proper_selector_protect_nobody() -> None:
    """As in kube-scheduler; a missing selector matches no pod anyway."""
    wrong = LabelSelectorRequirement(key="app", operator="Near", values=("db",))
    assert budgets_of([budget(LabelSelector(match_expressions=(wrong,)))]) == []
    assert budgets_of([budget(LabelSelector())]) == []
    (nobody,) = budgets_of([budget(None)])
    assert not nobody.pods.matches({"app": "db"})
