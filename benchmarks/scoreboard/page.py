"""The table that people read, made of the turns that were played."""

from __future__ import annotations

from collections import defaultdict
from statistics import median
from typing import TYPE_CHECKING, Final

from benchmarks.scoreboard.rivals import OURS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from benchmarks.scoreboard.rows import Row
    from benchmarks.scoreboard.turns import Turn

_HEAD: Final = (
    "scheduler", "pods/s", "with events", "half bound in", "99 % in", "CPU a pod",
    "API server and etcd", "limit, pods/s", "memory", "not placed", "rejected",
)  # fmt: skip
_NONE: Final = ""

INTRODUCTION: Final = """\
# Scoreboard

`make scoreboard` plays every row with every scheduler that is there, in turn, on one machine and
on a new API server with etcd each time, and writes this page. The schedulers have no limit on their
requests and their default number of workers.

- **pods/s**: from the creation of the first pod to the binding of the last; in brackets the slowest
  and the fastest turn. "With events": until the event of each pod was written, too. "Half bound in"
  and "99 % in" are times from a pod's creation, of pods that all come at once.
- **CPU a pod**: milliseconds of the scheduler; beside it those of API server and etcd. With all
  cores for themselves, these bind at most as many pods a second as **limit** says.
- **not placed**: pods that were not bound when no other was bound for half a minute.
- **rejected**: pods that kubelets would reject after they were bound. No kubelet runs; the model of
  each is given its pods in the order of their binding.
"""


def page(rows: Sequence[Row], turns: Sequence[Turn], absent: Sequence[str]) -> str:
    """Return the page; *absent* are the rivals that were not there."""
    return "\n".join([INTRODUCTION, *_setting(turns, absent), *_groups(rows, turns)])


def _setting(turns: Sequence[Turn], absent: Sequence[str]) -> Iterator[str]:
    there = sorted({(turn.rival, turn.version) for turn in turns})
    yield f"Cores: {max(turn.cores for turn in turns)}. Schedulers: " + (
        ", ".join(f"{name} {version}" for name, version in there) + "."
    )
    if absent:
        yield f"Not there, so not measured: {', '.join(absent)}."
    yield ""


def _groups(rows: Sequence[Row], turns: Sequence[Turn]) -> Iterator[str]:
    by_row: dict[str, list[Turn]] = defaultdict(list)
    for turn in turns:
        by_row[turn.row].append(turn)
    group = ""
    for row in rows:
        if row.title not in by_row:
            continue
        if row.group != group:
            group = row.group
            yield f"## {group}\n"
        yield from _table(row, by_row[row.title])


def _table(row: Row, turns: Sequence[Turn]) -> Iterator[str]:
    by_rival: dict[str, list[Turn]] = defaultdict(list)
    for turn in turns:
        by_rival[turn.rival].append(turn)
    yield f"### {row.title[0].upper()}{row.title[1:]}\n"
    yield "| " + " | ".join(_HEAD) + " |"
    yield "|" + "---|" * len(_HEAD)
    for rival in sorted(by_rival, key=lambda name: (name != OURS, name)):
        yield "| " + " | ".join(_cells(by_rival[rival])) + " |"
    yield ""
    yield _comparison(row, by_rival) + "\n"


def _cells(turns: Sequence[Turn]) -> Iterator[str]:
    def middle(figure: Callable[[Turn], float | None]) -> float | None:
        known = [value for turn in turns if (value := figure(turn)) is not None]
        return median(known) if known else None

    rates = [turn.bound_per_second for turn in turns]
    spread = f" ({min(rates):.0f} to {max(rates):.0f})" if len(turns) > 1 else ""
    told, server = middle(lambda turn: turn.told_per_second), median(_server(turns))
    missing = max(turn.wanted - turn.bound for turn in turns)
    rejected = middle(lambda turn: turn.rejected)
    yield turns[0].rival
    yield f"{median(rates):.0f}{spread}"
    yield _NONE if told is None else f"{told:.0f}"
    yield f"{median(turn.median_seconds for turn in turns):.2f} s"
    yield f"{median(turn.slowest_seconds for turn in turns):.2f} s"
    yield f"{median(turn.scheduler_milliseconds for turn in turns):.2f} ms"
    yield f"{server:.2f} ms"
    yield f"{1000 * turns[0].cores / server:.0f}" if server else _NONE
    yield f"{max(turn.memory_mb for turn in turns)} MB"
    yield f"{missing}" if missing else _NONE
    yield _NONE if rejected is None else f"{rejected:.0f}"


def _server(turns: Sequence[Turn]) -> list[float]:
    return [turn.server_milliseconds for turn in turns]


def _comparison(row: Row, by_rival: dict[str, list[Turn]]) -> str:
    if row.only_ours:
        return f"No other scheduler takes part: {row.only_ours}."
    ours = by_rival.get(OURS, [])
    ratios = {
        rival: _ratio(ours, theirs)
        for rival, theirs in sorted(by_rival.items())
        if rival != OURS and ours
    }
    if not ratios:
        return "Nobody else was there."
    return "; ".join(
        f"{ratio:.2f} times as many pods a second as {rival}"
        if ratio is not None
        else f"{rival} bound none"
        for rival, ratio in ratios.items()
    ) + "."  # fmt: skip


def _ratio(ours: Sequence[Turn], theirs: Sequence[Turn]) -> float | None:
    """Return the median of the ratios of turns that were played one after the other."""
    by_turn = {turn.turn: turn.bound_per_second for turn in theirs}
    ratios = [turn.bound_per_second / by_turn[turn.turn] for turn in ours if by_turn.get(turn.turn)]
    return median(ratios) if ratios else None
