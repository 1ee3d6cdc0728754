"""Runs of the same arm with several seeds, as means with their confidence intervals."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numakube.simulation.run_result import RunResult

_STUDENT: Final = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
"""The 97.5 % quantiles of Student's t distribution for 1 to 30 degrees of freedom."""
_NORMAL: Final = 1.960


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over runs.

    Attributes:
        half_width: of the 95 % confidence interval around it; ``None`` of a single run.
    """

    mean: float
    half_width: float | None = None


def estimate(values: Sequence[float]) -> Estimate:
    """Return the mean of *values*, and how sure it is."""
    if len(values) == 1:
        return Estimate(values[0])
    freedom = len(values) - 1
    quantile = _STUDENT[freedom - 1] if freedom <= len(_STUDENT) else _NORMAL
    return Estimate(fmean(values), quantile * stdev(values) / sqrt(len(values)))


def share(part: float, whole: float) -> float:
    """Return *part* of *whole* in percent."""
    return 100 * part / whole if whole else 0.0


ANSWERS: Final[Mapping[str, Callable[[RunResult], float]]] = {
    "pods": lambda run: run.pods,
    "neverPlaced": lambda run: run.never_placed,
    "topologyErrorsPer1000": lambda run: run.topology_errors_per_1000,
    "otherErrorsPer1000": lambda run: run.other_errors_per_1000,
    "rejections": lambda run: sum(run.rejections.values()),
    "firstRefusedPercent": lambda run: share(run.first_refused, run.pods),
    "givenUp": lambda run: run.given_up,
    "evictions": lambda run: run.evictions,
    "secondsToRunP50": lambda run: run.seconds_to_run.get("p50", 0.0),
    "secondsToRunP99": lambda run: run.seconds_to_run.get("p99", 0.0),
    "alignedPercent": lambda run: share(run.aligned, run.alignable),
    "pairsTogetherPercent": lambda run: share(run.pairs_together, run.pairs),
}
"""What is said of an arm, besides what is said of each resource."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """All runs of one arm.

    Attributes:
        answers: by the names of `ANSWERS`.
        allocated: percent of each resource at the end of the run; ``peak`` at its highest.
        stranded: percent of each resource.
        runs: one for each seed.
    """

    arm: str
    answers: Mapping[str, Estimate]
    allocated: Mapping[str, Estimate]
    peak: Mapping[str, Estimate]
    stranded: Mapping[str, Estimate]
    runs: tuple[RunResult, ...]


def summaries_of(results: Iterable[RunResult]) -> tuple[Summary, ...]:
    """Return a summary of each arm, in the order in which arms come first."""
    arms: dict[str, list[RunResult]] = {}
    for one in results:
        arms.setdefault(one.arm, []).append(one)
    return tuple(_summary(arm, sorted(runs, key=lambda r: r.seed)) for arm, runs in arms.items())


def _summary(arm: str, runs: Sequence[RunResult]) -> Summary:
    return Summary(
        arm=arm,
        answers={name: estimate([of(run) for run in runs]) for name, of in ANSWERS.items()},
        allocated=_by_resource([run.allocated for run in runs]),
        peak=_by_resource([run.peak_allocated for run in runs]),
        stranded=_by_resource([run.stranded for run in runs]),
        runs=tuple(runs),
    )


def _by_resource(shares: Sequence[Mapping[str, float]]) -> dict[str, Estimate]:
    names = sorted({name for one in shares for name in one})
    return {name: estimate([100 * one.get(name, 0.0) for one in shares]) for name in names}


def summary_document(summaries: Iterable[Summary]) -> list[dict[str, object]]:
    """Return *summaries* as plain values."""
    return [
        {
            "arm": one.arm,
            "seeds": [run.seed for run in one.runs],
            **{name: _plain(answer) for name, answer in one.answers.items()},
            "allocatedPercent": {name: _plain(each) for name, each in one.allocated.items()},
            "peakAllocatedPercent": {name: _plain(each) for name, each in one.peak.items()},
            "strandedPercent": {name: _plain(each) for name, each in one.stranded.items()},
            "rejectionsByReason": [run.rejections for run in one.runs],
            "neverPlacedByReason": [run.unplaced for run in one.runs],
        }
        for one in summaries
    ]


def _plain(one: Estimate) -> dict[str, float]:
    known = {"mean": one.mean, "halfWidth95": one.half_width}
    return {name: round(value, 4) for name, value in known.items() if value is not None}
