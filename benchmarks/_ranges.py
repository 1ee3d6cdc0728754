"""The ranges in which figures have been, so that one that leaves its own is seen.

A range is the mean and the spread of several runs, kept in ``ranges.json`` for the benchmarks that
measure CPU time. Machines differ in speed, so a figure is kept as a multiple of what a fixed piece
of work takes on the same machine in the same minute.
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

FILE: Final = Path(__file__).with_name("ranges.json")
TIMED_BY_CPU: Final = frozenset(
    {
        "claims",
        "extender",
        "koordinator",
        "kube_decode",
        "kubelet_model",
        "numa_filter",
        "numa_native",
        "numa_nodes",
        "scheduler_plugins",
    }
)
"""Benchmarks whose times are CPU time; the clock says more about the neighbours of a machine."""
UNITS: Final = ("us", "ms", "s")
_SPREADS: Final = 4.0
_LEAST_SHARE: Final = 0.25
"""However steady a figure was: the machine's caches and its neighbours move it by as much."""
_ROUNDS: Final = 7


class Range(msgspec.Struct, frozen=True):
    """What a figure was, as a multiple of the `effort` of its machine in milliseconds."""

    mean: float
    spread: float
    runs: int

    def ends(self, effort: float) -> tuple[float, float]:
        """Return the least and the most that a figure should be on a machine of this *effort*."""
        room = max(_SPREADS * self.spread, _LEAST_SHARE * self.mean)
        return max(0.0, self.mean - room) * effort, (self.mean + room) * effort


def effort() -> float:
    """Return the milliseconds of CPU that a fixed piece of work takes here and now."""
    return 1000 * statistics.median(_once() for _ in range(_ROUNDS))


def _once() -> float:
    start = time.process_time()
    counts: dict[int, int] = {}
    for number in range(60_000):
        counts[number % 997] = counts.get(number % 991, 0) + number
    table = np.arange(200_000, dtype=np.int64).reshape(-1, 8)
    for column in range(8):
        (table[:, column] > column).nonzero()
    return time.process_time() - start


def kept() -> dict[str, Range]:
    """Return the ranges in the repository, by benchmark and metric."""
    if not FILE.exists():
        return {}
    return msgspec.json.decode(FILE.read_bytes(), type=dict[str, Range])


def is_timed(result: Mapping[str, object]) -> bool:
    """Tell whether a result is one that a range can be kept of."""
    return result.get("benchmark") in TIMED_BY_CPU and result.get("unit") in UNITS


def key_of(result: Mapping[str, object]) -> str:
    """Return under what the range of a result is kept."""
    return f"{result['benchmark']}: {result['metric']} ({result['unit']})"


def with_range(
    result: Mapping[str, object], ranges: Mapping[str, Range], effort_ms: float
) -> dict[str, object]:
    """Add the range of a result, and whether it has left it."""
    value = result.get("value")
    if not is_timed(result) or not isinstance(value, int | float):
        return dict(result)
    known = ranges.get(key_of(result))
    if known is None:
        return dict(result)
    low, high = known.ends(effort_ms)
    left = "below" if value < low else "above" if value > high else "no"
    return {**result, "range": [round(low, 3), round(high, 3)], "left": left}


def ranges_of(runs: Iterable[tuple[float, Sequence[Mapping[str, object]]]]) -> dict[str, Range]:
    """Return the ranges of several *runs*: the effort at the time of each, and its results."""
    values: dict[str, list[float]] = {}
    for effort_ms, results in runs:
        for result in results:
            value = result.get("value")
            if is_timed(result) and isinstance(value, int | float):
                values.setdefault(key_of(result), []).append(value / effort_ms)
    return {
        key: Range(
            mean=round(statistics.fmean(each), 5),
            spread=round(statistics.stdev(each), 5) if len(each) > 1 else 0.0,
            runs=len(each),
        )
        for key, each in sorted(values.items())
    }


def keep(ranges: Mapping[str, Range]) -> None:
    """Write *ranges* into the repository in place of those of the same names."""
    together = dict(sorted({**kept(), **ranges}.items()))
    FILE.write_bytes(msgspec.json.format(msgspec.json.encode(together), indent=1) + b"\n")
