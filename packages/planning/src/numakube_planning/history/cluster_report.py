"""How a cluster was used over days: what was free, what was stranded, who waited and why.

Each figure is of one whole day in UTC. What nobody recorded is not known, which is not zero.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import msgspec

from numakube.errors import ConfigError
from numakube.values.display import short_name
from numakube_planning.history.prometheus import DAY

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numakube_planning.history.prometheus import Days, Prometheus

API_VERSION: Final = "insight.numakube.dev/v1alpha1"
_OURS: Final = (
    'on (job, instance) group_left () max_over_time(numakube_build_info{component="scheduler"}[1d])'
)
"""kube-scheduler has metrics of the same names."""
_ALLOCATABLE: Final = "sum by (resource) (avg_over_time(numakube_zone_allocatable[1d]))"
_FREE: Final = "sum by (resource) (avg_over_time(numakube_zone_available[1d]))"
_STRANDED: Final = "sum by (resource) (avg_over_time(numakube_zone_stranded[1d]))"
_ATTEMPTS: Final = f"sum by (result) (increase(scheduler_schedule_attempts_total[1d]) * {_OURS})"
_WAIT: Final = (
    "histogram_quantile(0.5, sum by (le)"
    f" (increase(scheduler_pod_scheduling_sli_duration_seconds_bucket[1d]) * {_OURS}))"
)
_WAITING: Final = f"sum by (plugin) (avg_over_time(scheduler_unschedulable_pods[1d]) * {_OURS})"
_REJECTED: Final = "sum by (reason) (increase(numakube_kubelet_rejections_total[1d]))"
_MISALIGNED: Final = "max by (cause) (avg_over_time(numakube_misaligned_pods[1d]))"
_SCHEDULED: Final = "scheduled"
_PERCENT: Final = 100
_WORTH_TELLING: Final = 0.05
"""The share of a resource that has to be stranded before the report speaks of it."""


class Use(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A resource on a day, on average; CPUs in cores, memory in bytes."""

    allocatable: float
    used: float
    stranded: float

    @property
    def used_share(self) -> float:
        """Which part of it pods had."""
        return self.used / self.allocatable if self.allocatable else 0.0

    @property
    def stranded_share(self) -> float:
        """Which part of it was free and of no use."""
        return self.stranded / self.allocatable if self.allocatable else 0.0


class ReportedDay(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One day; None and missing entries are not known.

    Attributes:
        date: in UTC.
        resources: those with a record of that day.
        placed: pods that our schedulers placed; None, as are the three last ones, if none of them
            was recorded that day.
        median_wait_seconds: from the first sight of a pod to its binding.
        waiting: pods on average that each plugin kept from being scheduled.
        rejected: pods that kubelets rejected after they were bound, by reason.
        misaligned: pods on average that want alignment and do not have it, by cause.
    """

    date: str
    resources: dict[str, Use] = {}
    placed: float | None = None
    median_wait_seconds: float | None = None
    waiting: dict[str, float] | None = None
    rejected: dict[str, float] | None = None
    misaligned: dict[str, float] | None = None


class ClusterReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Some days of a cluster.

    Attributes:
        source: which Prometheus told.
        summary: what is worth knowing, in sentences.
    """

    api_version: str = API_VERSION
    kind: str = "ClusterReport"
    source: str
    days: tuple[ReportedDay, ...]
    summary: tuple[str, ...] = ()


def ends_of(now: float, days: int) -> tuple[int, ...]:
    """Return the ends of the last whole days in UTC before *now*."""
    last = int(now) // DAY * DAY
    return tuple(last - DAY * back for back in reversed(range(days)))


async def cluster_report(prometheus: Prometheus, ends: tuple[int, ...]) -> ClusterReport:
    """Return what happened on the days that end at *ends*.

    Raises:
        ApiError: Prometheus refuses.
        ClusterUnreachable: it does not answer.
        ConfigError: it knows nothing of numakube.
    """
    questions = {
        _ALLOCATABLE: "resource",
        _FREE: "resource",
        _STRANDED: "resource",
        _ATTEMPTS: "result",
        _WAIT: "",
        _WAITING: "plugin",
        _REJECTED: "reason",
        _MISALIGNED: "cause",
    }
    found = {
        query: await prometheus.by_day(query, ends, label) for query, label in questions.items()
    }
    if not found[_ALLOCATABLE]:
        raise ConfigError(
            f"{prometheus.name} has no numakube_zone_allocatable of these days: does it scrape the"
            " exporters? (docs/how-to/alerts.md)"
        )
    days = tuple(_day(found, place, end) for place, end in enumerate(ends))
    return ClusterReport(source=prometheus.name, days=days, summary=tuple(_summary(days)))


def _day(found: Mapping[str, Mapping[str, Days]], place: int, end: int) -> ReportedDay:
    def at(query: str) -> dict[str, float]:
        values = {name: days[place] for name, days in found[query].items()}
        return {name: value for name, value in sorted(values.items()) if value is not None}

    def of_scheduler(query: str) -> dict[str, float] | None:
        """Return what is above zero; without a scheduler's record, no series is not none."""
        if not attempts:
            return None
        return {name: value for name, value in at(query).items() if value > 0}

    allocatable, free, stranded = at(_ALLOCATABLE), at(_FREE), at(_STRANDED)
    attempts = at(_ATTEMPTS)
    return ReportedDay(
        date=datetime.fromtimestamp(end - DAY, UTC).date().isoformat(),
        resources={
            name: Use(
                allocatable=total,
                used=max(0.0, total - free[name]),
                stranded=stranded.get(name, 0.0),
            )
            for name, total in allocatable.items()
            if name in free
        },
        placed=attempts.get(_SCHEDULED, 0.0) if attempts else None,
        median_wait_seconds=at(_WAIT).get(""),
        waiting=of_scheduler(_WAITING),
        rejected=of_scheduler(_REJECTED),
        misaligned=of_scheduler(_MISALIGNED),
    )


def _summary(days: tuple[ReportedDay, ...]) -> Iterator[str]:
    """Yield what is worth knowing, the costliest first."""
    known = [day for day in days if day.resources]
    scheduled = [day for day in days if day.placed is not None]
    for what, recorded in (("exporters", known), ("schedulers", scheduled)):
        if len(recorded) < len(days):
            yield (
                f"Of {len(days) - len(recorded)} of {len(days)} days no {what} are recorded;"
                " they count for nothing here."
            )
    shares = {
        name: _mean(day.resources[name].stranded_share for day in known if name in day.resources)
        for name in {name for day in known for name in day.resources}
    }
    for name, share in sorted(shares.items(), key=lambda item: (-item[1], item[0])):
        if share >= _WORTH_TELLING:
            yield (
                f"{_PERCENT * share:.0f}% of {short_name(name)} was free and of no use, since zones"
                " lacked what goes with it: kubectl numa top namespaces --sort-by strands"
            )
    waiting = _totals(day.waiting for day in scheduled)
    if waiting:
        plugin, most = max(waiting.items(), key=lambda item: (item[1], item[0]))
        average = most / len(scheduled)
        yield f"{average:.1f} pods waited on average because of {plugin}, which refused most."
    for reason, count in sorted(_totals(day.rejected for day in scheduled).items()):
        yield f"Kubelets rejected {count:.0f} pods after they were bound ({reason})."
    misaligned = sum(_totals(day.misaligned for day in scheduled).values())
    if misaligned:
        yield (
            f"{misaligned / len(scheduled):.1f} pods on average wanted alignment and did not have"
            " it: kubectl numa check pods"
        )


def _totals(days: Iterable[Mapping[str, float] | None]) -> dict[str, float]:
    totals: dict[str, float] = {}
    for values in days:
        for name, value in (values or {}).items():
            totals[name] = totals.get(name, 0.0) + value
    return totals


def _mean(values: Iterable[float]) -> float:
    listed = list(values)
    return sum(listed) / len(listed) if listed else 0.0
