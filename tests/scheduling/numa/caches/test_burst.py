"""The benchmark's burst in small: what it claims holds for a few nodes too."""

from __future__ import annotations

import pytest
from benchmarks.burst import How, play


@pytest.fixture(scope="module")
def outcomes() -> dict[How, tuple[int, int, int]]:
    """Placed pods, admission failures and mispredictions of each scheduler."""
    found = {}
    for how in How:
        outcome = play(how, seed=3, period=10.0, nodes=8, pods=80)
        found[how] = outcome.placed(), outcome.failures, outcome.mispredictions
    return found


def test_predict_has_no_admission_failures(outcomes: dict[How, tuple[int, int, int]]) -> None:
    """And nothing came as a surprise, although pods ended while others were on their way."""
    _, failures, mispredictions = outcomes[How.PREDICT]
    assert (failures, mispredictions) == (0, 0)


def test_predict_places_at_least_as_many_pods_as_overreserve(
    outcomes: dict[How, tuple[int, int, int]],
) -> None:
    """It does not wait for reports."""
    assert outcomes[How.PREDICT][0] >= outcomes[How.OVERRESERVE][0]


def test_a_blind_scheduler_runs_into_refusals(outcomes: dict[How, tuple[int, int, int]]) -> None:
    """Otherwise the burst would prove nothing."""
    assert outcomes[How.BLIND][1] > 0
