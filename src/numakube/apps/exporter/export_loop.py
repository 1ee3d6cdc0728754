"""The exporter's loop: wake up, read the node, compute, publish; one thing at a time.

A kubelet that is away is asked again in growing pauses, and after a while the object is marked
stale, so that no one trusts an old report. If it has restarted and is not ready, that is done at
the second look: the report is of another process. While the API server is away nothing is written;
later the node is read again first, so that nothing old is ever written. A kubelet that is busy may
write between two looks at it: it is looked at again, for a second at most, before exact data is
given up. If only surprises are reported, a report that readers can foresee is not written.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import structlog

from numakube.apps.exporter.metrics import SCAN, UPDATE
from numakube.apps.exporter.nrt_writer import Operation
from numakube.apps.exporter.report import topology_of
from numakube.errors import (
    ApiError,
    ClusterUnreachable,
    KubeletNotReady,
    KubeletUnavailable,
    KubeletWillNotStart,
    MissingDefinition,
)
from numakube.kube.catalog import PODS
from numakube.kube.client import strategic_patch
from numakube.kube.clock import growing
from numakube.values.times import format_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numakube.apps.exporter.metrics import ExporterMetrics
    from numakube.apps.exporter.node_scan import NodeInputs, NodeSource
    from numakube.apps.exporter.nrt_writer import Publisher
    from numakube.apps.exporter.report import Report
    from numakube.apps.exporter.report_options import ReportOptions
    from numakube.apps.exporter.scan_wakeups import ScanCause, Wakeup, Wakeups
    from numakube.apps.exporter.surprises import Silence
    from numakube.kube.client import Client
    from numakube.kube.clock import Clock


# Conditions on the exporter's own pod, which its readiness gates wait for.
#
# ``PodresourcesFetched`` and ``NodeTopologyUpdated``, as RTE sets them. A condition is written when
# it changes, once; a write that failed is tried again with the next scan.


FETCHED: Final = "PodresourcesFetched"
UPDATED: Final = "NodeTopologyUpdated"

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class ExporterCondition:
    """One condition; reason and message only if it is false."""

    type: str
    is_true: bool
    reason: str = ""
    message: str = ""


def fetched(*, ok: bool) -> ExporterCondition:
    """Return whether the kubelet could be read."""
    if ok:
        return ExporterCondition(FETCHED, is_true=True)
    return ExporterCondition(FETCHED, False, "ScanFailed", "failed to scan pod resources")


def updated(*, ok: bool) -> ExporterCondition:
    """Return whether the object could be written."""
    if ok:
        return ExporterCondition(UPDATED, is_true=True)
    message = "failed to update noderesourcetopology object"
    return ExporterCondition(UPDATED, False, "UpdateFailed", message)


class OwnPod:
    """The exporter's own pod."""

    def __init__(self, client: Client, namespace: str, name: str) -> None:
        self._client = client
        self._namespace = namespace
        self._name = name
        self._written: dict[str, ExporterCondition] = {}
        self._said = ""

    async def set(self, condition: ExporterCondition) -> None:
        """Set *condition* unless it is set already; failures are logged."""
        if self._written.get(condition.type) == condition:
            return
        entry = {
            "type": condition.type,
            "status": "True" if condition.is_true else "False",
            "reason": condition.reason,
            "message": condition.message,
            "lastTransitionTime": format_time(self._client.clock.now()),
        }
        patch = strategic_patch({"status": {"conditions": [entry]}})
        try:
            await self._client.patch(
                PODS, self._name, patch, namespace=self._namespace, subresource="status"
            )
        except (ApiError, ClusterUnreachable) as error:
            if str(error) != self._said:
                _log.warning("condition_not_set", condition=condition.type, error=str(error))
            self._said = str(error)
            return
        self._written[condition.type] = condition


FIRST_RETRY_SECONDS: Final = 0.25
LONGEST_RETRY_SECONDS: Final = 10.0
SECOND_LOOKS_SECONDS: Final = (0.05, 0.1, 0.2, 0.4, 0.8)
"""Pauses before another look if the kubelet's list and its files are of different moments."""

LOOK_AGAIN_SECONDS: Final = 0.5
"""When to look again for the API to tell of an end that the kubelet knows already."""


@dataclass(slots=True, kw_only=True)
class Exporter:
    """Publishes one node.

    Attributes:
        source: what is read.
        publisher: where reports go.
        wakeups: when to look.
        options: what decides about the content.
        clock: the time.
        metrics: what is counted.
        stale_after: seconds without the kubelet after which the object is marked stale.
        pod: the exporter's own pod, for its conditions.
        silence: decides what need not be written; everything is by default.
        on_report: told of every report, such as to keep the fingerprint's status.
        last_report: what was published last.
        has_published: set once something was published.
    """

    source: NodeSource
    publisher: Publisher
    wakeups: Wakeups
    options: ReportOptions
    clock: Clock
    metrics: ExporterMetrics
    stale_after: float = 10.0
    pod: OwnPod | None = None
    silence: Silence | None = None
    on_report: tuple[Callable[[Report], None], ...] = ()
    last_report: Report | None = None
    has_published: asyncio.Event = field(default_factory=asyncio.Event)
    kubelet_trouble: str = "the kubelet has not been read yet"
    publish_trouble: str = "nothing has been published yet"
    _away_since: float | None = None
    _failures: int = 0
    _stale: bool = False
    _hopeless: bool = False
    _woke_at: float | None = None
    _said: set[str] = field(default_factory=set)

    async def run(self) -> None:
        """Export until the wake-ups end."""
        while (wakeup := await self.wakeups.next()) is not None:
            await self.step(wakeup)

    async def step(self, wakeup: Wakeup) -> bool:
        """Read and publish once; tell whether both succeeded."""
        slept = self._slept()
        self.metrics.woke(frozenset(map(str, wakeup.triggers)), wakeup.cause, slept)
        report = await self._look(wakeup.cause)
        if report is None:
            self._retry()
            return False
        self._keep(report)
        if self.silence is not None and self.silence.covers(report):
            self._is_foreseen(report, self.silence)
        elif not await self._publish(report, wakeup.cause, slept):
            self._retry()
            return False
        self._failures = 0
        return True

    def _slept(self) -> float | None:
        now = self.clock.monotonic()
        since, self._woke_at = self._woke_at, now
        return None if since is None else now - since

    async def _look(self, cause: ScanCause) -> Report | None:
        """Read and compute, several times if what is read is of different moments.

        Not if it was so the last time too: then a second look does not help.
        """
        in_vain = self.last_report is not None and self.last_report.contradictory
        for pause in (*(() if in_vain else SECOND_LOOKS_SECONDS), None):
            inputs = await self._read(cause)
            if inputs is None:
                return None
            report = topology_of(inputs, self.options, cause=cause)
            if pause is None or not report.contradictory:
                break
            await self.clock.sleep(pause)
        return report

    async def _read(self, cause: ScanCause) -> NodeInputs | None:
        try:
            with self._timed(SCAN, cause):
                inputs = await self.source.read()
        except KubeletUnavailable as error:
            await self._kubelet_is_away(error)
            return None
        self._kubelet_is_back()
        await self._condition(fetched(ok=True))
        return inputs

    async def _kubelet_is_away(self, error: KubeletUnavailable) -> None:
        now = self.clock.monotonic()
        again = self._away_since is not None
        if self._away_since is None:
            self._away_since = now
            _log.warning("kubelet_away", node=self.options.node_name, error=str(error))
        self.kubelet_trouble = str(error)
        await self._condition(fetched(ok=False))
        restarted = again and isinstance(error, KubeletNotReady)
        due = restarted or now - self._away_since >= self.stale_after
        hopeless = isinstance(error, KubeletWillNotStart)
        if due and (not self._stale or hopeless != self._hopeless):
            await self._mark_stale(error)
            self._hopeless = hopeless

    async def _mark_stale(self, error: KubeletUnavailable) -> None:
        told = isinstance(error, KubeletNotReady | KubeletWillNotStart)
        reason = str(error) if told else f"the kubelet does not answer: {error}"
        try:
            await self.publisher.mark_stale(reason)
        except (ApiError, ClusterUnreachable) as failure:
            _log.warning("object_not_marked_stale", error=str(failure))
            return
        self._stale = True
        if self.silence is not None:
            self.silence.end()
        self.metrics.stale.set(1)
        _log.warning("object_marked_stale", node=self.options.node_name)

    def _kubelet_is_back(self) -> None:
        if self._away_since is not None:
            away = self.clock.monotonic() - self._away_since
            _log.info("kubelet_back", node=self.options.node_name, away_seconds=round(away, 3))
        self._away_since = None
        self.kubelet_trouble = ""
        self.metrics.last_scan.set(self.clock.now().timestamp())

    def _keep(self, report: Report) -> None:
        self._tell_problems(report)
        self.metrics.zones.keep(report)
        for keep in self.on_report:
            keep(report)

    def _tell_problems(self, report: Report) -> None:
        """Log what is new, count everything."""
        self.metrics.problems.clear()
        details = {str(problem): problem.kind for problem in report.problems}
        for detail, kind in details.items():
            self.metrics.problems.labels(str(kind)).inc()
            if detail not in self._said:
                _log.warning("odd_fact", kind=str(kind), detail=detail)
        self._said = set(details)

    async def _publish(self, report: Report, cause: ScanCause, slept: float | None) -> bool:
        try:
            with self._timed(UPDATE, cause):
                written = await self.publisher.publish(report, cause=cause, slept=slept)
        except (ApiError, ClusterUnreachable, MissingDefinition) as error:
            self._publish_failed(str(error))
            if self.silence is not None:
                self.silence.end()
            await self._condition(updated(ok=False))
            return False
        if written.operation is not Operation.NONE:
            share = written.sent_bytes / max(1, written.whole_bytes)
            self.metrics.wrote(written.operation, cause, share=share)
            self.metrics.report_bytes.set(written.whole_bytes)
            _log.info("object_written", operation=str(written.operation), cause=cause)
        if self.silence is not None:
            self.silence.wrote(report)
        self.last_report = report
        self.has_published.set()
        self.publish_trouble = ""
        self._stale = False
        self.metrics.stale.set(0)
        await self._condition(updated(ok=True))
        return True

    def _is_foreseen(self, report: Report, silence: Silence) -> None:
        self.last_report = report
        self.metrics.foreseen.inc()
        if silence.waits:
            self.wakeups.retry_after(LOOK_AGAIN_SECONDS)

    def _publish_failed(self, error: str) -> None:
        self.metrics.write_failed()
        if error != self.publish_trouble:
            _log.warning("object_not_written", node=self.options.node_name, error=error)
        self.publish_trouble = error

    def _retry(self) -> None:
        """Have another look soon, later each time."""
        pause = growing(self._failures, base=FIRST_RETRY_SECONDS, cap=LONGEST_RETRY_SECONDS)
        if self._away_since is not None and not self._stale:
            left = self._away_since + self.stale_after - self.clock.monotonic()
            pause = min(pause, max(FIRST_RETRY_SECONDS, left))
        self._failures += 1
        self.wakeups.retry_after(pause)

    async def _condition(self, condition: ExporterCondition) -> None:
        if self.pod is not None:
            await self.pod.set(condition)

    @contextmanager
    def _timed(self, operation: str, cause: ScanCause) -> Iterator[None]:
        begun = self.clock.monotonic()
        try:
            yield
        finally:
            self.metrics.took(operation, cause, self.clock.monotonic() - begun)
