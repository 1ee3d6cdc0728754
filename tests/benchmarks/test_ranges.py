"""A figure that leaves the range in which it was is seen, on fast machines as on slow ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks._ranges import Range, keep, kept, ranges_of, with_range

from benchmarks import _ranges

RESULT = {"benchmark": "claims", "metric": "first decision", "value": 10.0, "unit": "ms"}
KEY = "claims: first decision (ms)"


def left(value: float, effort: float = 10.0, **known: float) -> object:
    ranges = {KEY: Range(**({"mean": 1.0, "spread": 0.1, "runs": 5} | known))}  # type: ignore[arg-type]
    return with_range({**RESULT, "value": value}, ranges, effort)["left"]


def test_a_figure_within_its_spread_stays_in_its_range() -> None:
    assert [left(value) for value in (6.0, 10.0, 14.0)] == ["no"] * 3
    assert (left(5.9), left(14.1)) == ("below", "above")


def test_a_steady_figure_may_still_move_by_a_quarter() -> None:
    assert (left(12.4, spread=0.0), left(12.6, spread=0.0)) == ("no", "above")


def test_a_machine_of_half_the_speed_has_a_range_of_twice_the_time() -> None:
    assert (left(20.0, effort=20.0), left(20.0, effort=10.0)) == ("no", "above")


def test_what_has_no_range_or_is_timed_by_the_clock_is_as_it_was() -> None:
    assert with_range(RESULT, {}, 10.0) == RESULT
    clocked = {**RESULT, "benchmark": "gangs"}
    assert with_range(clocked, {KEY: Range(1.0, 0.1, 5)}, 10.0) == clocked


def test_a_range_is_made_of_several_runs_and_kept_beside_the_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(_ranges, "FILE", tmp_path / "ranges.json")
    keep({"other": Range(1.0, 0.0, 1)})
    made = ranges_of([(10.0, [RESULT]), (20.0, [RESULT]), (10.0, [{**RESULT, "unit": "pods"}])])
    assert made == {KEY: Range(mean=0.75, spread=0.35355, runs=2)}
    keep(made)
    assert kept() == {KEY: made[KEY], "other": Range(1.0, 0.0, 1)}


def test_a_fixed_piece_of_work_takes_some_time() -> None:
    assert 0 < _ranges.effort() < 10_000
