"""The conditions of the operator's objects."""

from __future__ import annotations

import pytest

from numakube.api.numaresources import OperatorCondition
from numakube.apps.operator.planned_actions import (
    Extra,
    PassVerdict,
    PlannedState,
    conditions_of,
    degraded,
)


def held(conditions: tuple[OperatorCondition, ...]) -> set[str]:
    """Return the types of conditions that hold."""
    return {condition.type for condition in conditions if condition.status == "True"}


@pytest.mark.parametrize(
    ("state", "types"),
    [
        (PlannedState.AVAILABLE, {"Available", "Upgradeable"}),
        (PlannedState.PROGRESSING, {"Progressing"}),
        (PlannedState.DEGRADED, {"Degraded"}),
    ],
)
def test_exactly_one_state_holds(state: PlannedState, types: set[str]) -> None:
    """Available goes with upgradeable."""
    found = conditions_of(PassVerdict(state=state), (), generation=3, now="2026-01-01T00:00:00Z")
    assert held(found) == types
    assert {condition.observed_generation for condition in found} == {3}
    assert all(condition.reason for condition in found)


def test_the_time_changes_with_the_status_only() -> None:
    """And a condition that this pass knows nothing of stays."""
    waiting = PassVerdict(state=PlannedState.PROGRESSING, message="a is updating")
    first = conditions_of(waiting, (), generation=1, now="1")
    paused = Extra(type="MachineConfigPoolPaused", holds=True, message="detected paused MCPs: a")
    still = PassVerdict(state=PlannedState.PROGRESSING, message="b is updating", extras=(paused,))
    second = {
        condition.type: condition
        for condition in conditions_of(still, first, generation=2, now="2")
    }
    assert second["Progressing"].last_transition_time == "1"
    assert second["Progressing"].message == "b is updating"
    wrong = degraded("InternalError", "no")
    third = {
        condition.type: condition
        for condition in conditions_of(wrong, tuple(second.values()), generation=2, now="3")
    }
    assert third["Degraded"].last_transition_time == "3"
    assert third["Progressing"].last_transition_time == "3"
    assert third["Available"].last_transition_time == "1"
    assert third["MachineConfigPoolPaused"] == second["MachineConfigPoolPaused"]
    assert third["Degraded"].reason == "InternalError"
