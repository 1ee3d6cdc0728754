"""What came out of a simulation, in sentences that need no table.

Of 30 pods, 12 never run as it is; with 10 more nodes like node-0, all run.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from numakube.values.display import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numakube.simulation.compared_schedulers import Arm
    from numakube.simulation.seed_summary import Summary

_MOST_ARMS: Final = 8
_MOST_REASONS: Final = 3


def headlines(summaries: Sequence[Summary], arms: Mapping[str, Arm]) -> Iterator[str]:
    """Yield what became of the pods: of what-ifs beside the cluster as it is, of others by name.

    *arms* are those of the *summaries*, by name.
    """
    by_name = {one.arm: one for one in summaries}
    changed = [one for one in summaries if arms[one.arm].what_if is not None]
    for one in changed:
        what_if = arms[one.arm].what_if
        if what_if is not None and what_if.base in by_name:
            prefix = f"{what_if.base}: " if len(changed) > 1 else ""
            told = _compared(by_name[what_if.base], one, what_if.sentence)
            yield f"{prefix}{told}{_of_runs(one)}."
    if not changed and 1 < len(summaries) <= _MOST_ARMS:
        told = "; ".join(f"{one.arm}: {_fate(one)}" for one in summaries)
        yield f"{told}{_of_runs(summaries[0])}."
    elif not changed and len(summaries) == 1:
        fate = _fate(summaries[0])
        yield f"{fate[:1].upper()}{fate[1:]}{_of_runs(summaries[0])}."


def legend(arms: Mapping[str, Arm]) -> Iterator[str]:
    """Yield what the names of arms mean that do not say everything."""
    for name, arm in arms.items():
        if arm.what_if is not None and name != f"{arm.what_if.base}, {arm.what_if.text}":
            yield f"{name}: {arm.what_if.text}"


def reasons(summaries: Sequence[Summary]) -> Iterator[str]:
    """Yield why pods never ran, the reason of most pods first, in the first run of each arm."""
    for one in summaries:
        found = Counter(one.runs[0].unplaced).most_common(_MOST_REASONS)
        for why, count in found:
            said = why.partition(". preemption: ")[0]
            yield f"{one.arm}: {counted(count, 'pod')} never placed: {said}"


def _compared(before: Summary, after: Summary, sentence: str) -> str:
    pods, never = _pods(before), _never(before)
    if not pods and not _pods(after):
        return f"No pod comes, and none has to move {sentence}"
    begun = "No pod waits as it is"
    if 0 < never < pods:
        begun = f"Of {counted(pods, 'pod')}, {_amount(never)} never {_run(never)} as it is"
    elif pods:
        fate = _fate(before)
        begun = f"{fate[:1].upper()}{fate[1:]} as it is"
    then = _then(_never(after), pods) if _pods(after) == pods else _fate(after)
    return f"{begun}; {sentence}, {then}"


def _of_runs(one: Summary) -> str:
    return f" (means of {len(one.runs)} runs)" if len(one.runs) > 1 else ""


def _then(never: float, pods: float) -> str:
    if not never:
        return "it runs" if pods == 1 else "all run"
    if never == pods:
        return "it does not" if pods == 1 else "none does"
    return f"{_amount(never)} never {_run(never)}"


def _fate(one: Summary) -> str:
    pods, never = _pods(one), _never(one)
    if not never:
        return _all(pods)
    if never == pods:
        return "the pod never runs" if pods == 1 else f"none of {_amount(pods)} pods ever runs"
    return f"{_amount(never)} of {counted(pods, 'pod')} never {_run(never)}"


def _all(pods: float) -> str:
    return "the pod runs" if pods == 1 else f"all {_amount(pods)} pods run"


def _run(count: float) -> str:
    return "runs" if count == 1 else "run"


def _pods(one: Summary) -> float:
    return _rounded(one.answers["pods"].mean)


def _never(one: Summary) -> float:
    return _rounded(one.answers["neverPlaced"].mean)


def _rounded(value: float) -> float:
    return int(value) if value == int(value) else round(value, 1)


def _amount(value: float) -> str:
    return f"{value:,}"
