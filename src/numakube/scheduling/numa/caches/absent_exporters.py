"""Which nodes have lost their exporter, so that nobody keeps their reports up to date.

A report says which pod wrote it, and the pods of every node are known: nothing has to be asked or
written to see that the exporter is gone. One that is being replaced is given a while.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.scheduling.numa.caches.known_pods import PodStage
from numakube.topology.exporter_presence import is_exporter, is_ready, trouble_with

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numakube.scheduling.numa.caches.known_pods import KnownPods
    from numakube.scheduling.numa.caches.latest_reports import Report

LOOK_SECONDS: Final = 10.0
"""How often to look: there may be thousands of nodes."""
PATIENCE_SECONDS: Final = 30.0
"""How long an exporter may be away before nobody waits for it: a look later it is known."""
PATIENCE_LOOKS: Final = 3
"""How often it has to be missed: who was stopped meanwhile has yet to read what happened."""


class AbsentExporters:
    """Looks for the exporters of nodes."""

    def __init__(self, pods: KnownPods) -> None:
        self._pods = pods
        self._looked_at = float("-inf")
        # Since when, and in how many looks it was missed.
        self._away: dict[str, tuple[float, int]] = {}
        # The uid of the pod that was found at work, so that it need not be looked for again.
        self._at_work: dict[str, tuple[str, str]] = {}

    def look(self, reports: Iterable[Report], now: float) -> Iterator[tuple[str, str]]:
        """Yield the nodes of which something else is to be said than their reports do, and that."""
        if now - self._looked_at < LOOK_SECONDS:
            return
        self._looked_at = now
        for report in list(reports):
            trouble = self._trouble(report, now)
            if trouble != report.topology.orphaned:
                yield report.node, trouble

    def wrote(self, node: str) -> None:
        """Note that there is a new report of *node*: who writes is there, ready or not."""
        self._away.pop(node, None)

    def forget(self, node: str) -> None:
        """Forget what is known of the exporter of *node*."""
        self._away.pop(node, None)
        self._at_work.pop(node, None)

    def _trouble(self, report: Report, now: float) -> str:
        exporter, node = report.topology.exporter, report.node
        if not exporter or self._works(node, exporter):
            self._away.pop(node, None)
            return ""
        since, looks = self._away.get(node, (now, 0))
        self._away[node] = since, looks + 1
        if now - since < PATIENCE_SECONDS or looks + 1 < PATIENCE_LOOKS:
            return report.topology.orphaned
        return trouble_with(exporter, (pod.info.pod for pod in self._pods.at(node)))

    def _works(self, node: str, exporter: str) -> bool:
        whose, uid = self._at_work.get(node, ("", ""))
        known = self._pods.get(uid) if whose == exporter else None
        if known is not None and known.node == node and known.stage < PodStage.ENDED:
            return is_ready(known.info.pod)
        for pod in self._pods.at(node):
            if is_exporter(pod.info.pod, exporter) and is_ready(pod.info.pod):
                self._at_work[node] = exporter, pod.uid
                return True
        return False
