"""Quiet hours and the hourly budget hold."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from numakube.errors import ConfigError
from numakube_planning.rebalancer.goals import HourlyBudget, quiet_hours


@pytest.mark.parametrize(
    ("text", "hour", "quiet"),
    [
        ("", 12, False),
        ("08:00-18:00", 8, True),
        ("08:00-18:00", 18, False),
        ("22:00-06:00", 23, True),
        ("22:00-06:00", 5, True),
        ("22:00-06:00", 12, False),
        ("08:00-09:00, 11:00-13:00", 12, True),
    ],
)
def test_quiet_hours_are_spans_of_the_day(text: str, hour: int, *, quiet: bool) -> None:
    """Which may go past midnight."""
    assert (datetime(2026, 1, 1, hour, tzinfo=UTC) in quiet_hours(text)) is quiet


@pytest.mark.parametrize("text", ["8-18", "25:00-26:00", "08:00", "08:00-18:00;"])
def test_other_texts_are_refused(text: str) -> None:
    """With an example."""
    with pytest.raises(ConfigError, match="08:00-18:00"):
        quiet_hours(text)


def test_moves_come_back_after_an_hour() -> None:
    """One by one, as they were spent."""
    budget = HourlyBudget(2)
    budget.spend(0.0)
    budget.spend(60.0)
    assert [budget.left(now) for now in (61.0, 3600.0, 3660.0)] == [0, 1, 2]
