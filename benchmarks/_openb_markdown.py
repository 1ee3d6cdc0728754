"""The results of `benchmarks.openb_table` as Markdown, with 95 % intervals over seeds."""

from __future__ import annotations

from math import sqrt
from statistics import mean, stdev
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

T_95: Final = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26)
"""Of Student's distribution, two-sided, for 2 to 10 seeds."""
_SCOPES: Final = {"none": ""}


def _errors(run: dict[str, Any]) -> float:
    return _rate(run, "TopologyAffinityError")


def _unexpected(run: dict[str, Any]) -> float:
    return _rate(run, "UnexpectedAdmissionError")


def _rate(run: dict[str, Any], reason: str) -> float:
    errors, bound = int(run["rejections"].get(reason, 0)), int(run["bound"])
    return 1000 * errors / max(1, bound)


MEASURES: Final[tuple[tuple[str, Callable[[Any], float], int], ...]] = (
    ("Pods whose first placement was refused, %",
     lambda run: 100 * run["first_refused"] / run["pods"], 1),
    ("TopologyAffinityErrors per 1,000 bound pods", _errors, 0),
    ("UnexpectedAdmissionErrors per 1,000 bound pods", _unexpected, 0),
    ("GPUs allocated in the end, %", lambda run: 100 * run["allocated"]["nvidia.com/gpu"], 1),
    ("CPUs allocated in the end, %", lambda run: 100 * run["allocated"]["cpu"], 1),
    ("Running pods with all their own resources on one NUMA node, %",
     lambda run: 100 * run["aligned"] / max(1, run["alignable"]), 1),
)  # fmt: skip


def interval(values: Sequence[float], digits: int) -> str:
    """Return the mean and how far it may be off."""
    if len(values) < 2:
        return f"{mean(values):.{digits}f}"
    t = T_95[min(len(values), len(T_95) + 1) - 2]
    off = t * stdev(values) / sqrt(len(values))
    if not off:
        return f"{mean(values):.{digits}f}"
    return f"{mean(values):.{digits}f} ± {off:.{digits}f}"


def _table(runs: Sequence[Any], measure: Callable[[Any], float], digits: int) -> Iterator[str]:
    schedulers = list(dict.fromkeys(run["scheduler"] for run in runs))
    schedulers.sort(key=_order)
    yield f"| policy | scope | {' | '.join(schedulers)} |"
    yield "|---" * (len(schedulers) + 2) + "|"
    for policy, scope in sorted({(run["policy"], run["scope"]) for run in runs}, key=_strictest):
        cells = []
        for name in schedulers:
            values = [
                measure(run)
                for run in runs
                if (run["policy"], run["scope"], run["scheduler"]) == (policy, scope, name)
            ]
            cells.append(interval(values, digits) if values else "")
        yield f"| {policy} | {_SCOPES.get(policy, scope)} | {' | '.join(cells)} |"


def _order(scheduler: str) -> int:
    known = (
        "least-allocated",
        "most-allocated",
        "upstream-10s",
        "upstream-60s",
        "numakube",
        "numakube-fgd",
    )
    return known.index(scheduler) if scheduler in known else len(known)


def _strictest(setting: tuple[str, str]) -> tuple[int, str]:
    return ("single-numa-node", "restricted", "best-effort", "none").index(setting[0]), setting[1]


def tables(runs: Iterable[Any]) -> str:
    """Return a table for each measure, by size of the cluster and demand."""
    runs = list(runs)
    lines: list[str] = []
    for nodes, demand in sorted({(run["nodes"], run["demand"]) for run in runs}):
        own = [run for run in runs if (run["nodes"], run["demand"]) == (nodes, demand)]
        seeds = len({run["seed"] for run in own})
        pods = round(mean(run["pods"] for run in own))
        asked = f"{100 * demand:.0f} % of the GPUs asked for"
        lines += [f"{nodes} nodes, {pods} pods, {asked}, {seeds} seeds", ""]
        for title, measure, digits in MEASURES:
            lines += [f"{title}:", "", *_table(own, measure, digits), ""]
    return "\n".join(lines)
