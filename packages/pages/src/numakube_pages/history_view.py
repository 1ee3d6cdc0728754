"""How a cluster was used over days: the page of it, from the Prometheus that scrapes numakube.

The figures are those of `numakube report`. A day of which nothing was recorded is shown as unknown,
which is not zero. One answer serves all readers for some minutes, so that many of them ask no more
of Prometheus than one.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Final

from numakube.errors import NumakubeError
from numakube.values.display import age_text, short_name
from numakube.values.resources import CPU, MEMORY, is_hugepages

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from numakube.kube.clock import Clock
    from numakube_planning.history.cluster_report import ClusterReport, ReportedDay

    Recorded = Callable[[int], Awaitable[ClusterReport]]
    """Returns what is recorded of so many whole days."""

_KEPT_SECONDS: Final = 600.0
_FAILED_SECONDS: Final = 15.0
_FIRST: Final = (CPU, MEMORY)
_UNKNOWN: Final = "\N{EN DASH}"
_PERCENT: Final = 100
_SOON: Final = 10


@dataclass(frozen=True, slots=True)
class DayBar:
    """One day of a resource in percent of what there is; ``None`` where nothing was recorded."""

    day: date
    used: float | None
    stranded: float | None

    @property
    def text(self) -> str:
        """Say it in words."""
        if self.used is None or self.stranded is None:
            return f"{self.day}: not recorded"
        return f"{self.day}: {self.used:.0f} % used, {self.stranded:.0f} % stranded"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceDays:
    """A resource over days, and its averages over those that were recorded."""

    name: str
    short: str
    bars: tuple[DayBar, ...]

    @property
    def used(self) -> str:
        """How much of it pods had."""
        return _mean([bar.used for bar in self.bars])

    @property
    def stranded(self) -> str:
        """How much of it was free and of no use."""
        return _mean([bar.stranded for bar in self.bars])


@dataclass(frozen=True, slots=True, kw_only=True)
class PodDay:
    """What became of pods on a day, as texts."""

    day: date
    placed: str
    wait: str
    waiting: str
    refused_by: tuple[tuple[str, str], ...]
    rejected: str
    misaligned: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryView:
    """Everything that the page shows of some days."""

    source: str
    summary: tuple[str, ...]
    resources: tuple[ResourceDays, ...]
    pods: tuple[PodDay, ...]


class History:
    """What is recorded, asked for when a page is opened."""

    def __init__(self, recorded: Recorded, clock: Clock) -> None:
        self._recorded = recorded
        self._clock = clock
        self._turn = asyncio.Lock()
        self._kept: dict[int, tuple[float, HistoryView | str]] = {}

    async def view(self, days: int) -> HistoryView | str:
        """Return the last *days*, or why they are not known."""
        async with self._turn:
            until, found = self._kept.get(days, (0.0, ""))
            if self._clock.monotonic() < until:
                return found
            try:
                found = view_of(await self._recorded(days))
                seconds = _KEPT_SECONDS
            except NumakubeError as error:
                found, seconds = str(error), _FAILED_SECONDS
            self._kept[days] = (self._clock.monotonic() + seconds, found)
            return found


def view_of(report: ClusterReport) -> HistoryView:
    """Return what the page shows of a report."""
    names = {name for day in report.days for name in day.resources}
    return HistoryView(
        source=report.source,
        summary=report.summary,
        resources=tuple(_over_days(name, report.days) for name in sorted(names, key=_rank)),
        pods=tuple(map(_pod_day, report.days)),
    )


def _rank(name: str) -> tuple[int, str]:
    if name in _FIRST:
        return _FIRST.index(name), name
    return (len(_FIRST) + 1 if is_hugepages(name) else len(_FIRST)), name


def _over_days(name: str, days: tuple[ReportedDay, ...]) -> ResourceDays:
    bars = []
    for day in days:
        use, when = day.resources.get(name), date.fromisoformat(day.date)
        bars.append(
            DayBar(when, None, None)
            if use is None
            else DayBar(when, _percent(use.used_share), _percent(use.stranded_share))
        )
    return ResourceDays(name=name, short=short_name(name), bars=tuple(bars))


def _percent(share: float) -> float:
    return max(0.0, min(_PERCENT * share, float(_PERCENT)))


def _mean(values: list[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{sum(known) / len(known):.0f} %" if known else _UNKNOWN


def _pod_day(day: ReportedDay) -> PodDay:
    wait = day.median_wait_seconds
    by = sorted((day.waiting or {}).items(), key=lambda item: (-item[1], item[0]))
    return PodDay(
        day=date.fromisoformat(day.date),
        placed=_UNKNOWN if day.placed is None else f"{day.placed:,.0f}",
        wait=_UNKNOWN if wait is None else f"{wait:.1f} s" if wait < _SOON else age_text(wait),
        waiting=_sum(day.waiting),
        refused_by=tuple((name, _short(count)) for name, count in by),
        rejected=_sum(day.rejected),
        misaligned=_sum(day.misaligned),
    )


def _sum(values: Mapping[str, float] | None) -> str:
    return _UNKNOWN if values is None else _short(sum(values.values()))


def _short(value: float) -> str:
    return f"{value:,.1f}".removesuffix(".0")
