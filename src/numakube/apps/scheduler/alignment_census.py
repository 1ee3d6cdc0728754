"""Counts the pods that want alignment and do not have it, as ``kubectl numa check pods`` does.

Nodes are counted again some time after they have changed, a few at a time between which the
scheduler goes on with its work. Most pods are plainly in one zone, which is seen at a glance.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Final

from numakube.api.pod_resources import GUARANTEED
from numakube.apps.dra_devices_by_node import DeviceBook
from numakube.insight.misalignment import Cause, judged, wants_alignment
from numakube.kube.store import Updated
from numakube.topology.held_zones import zone_cpus, zones_of_holding

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from prometheus_client import Gauge

    from numakube.api.pod import Pod
    from numakube.apps.cluster_mirror import Mirror
    from numakube.kube.clock import Clock
    from numakube.kube.store import Change
    from numakube.scheduling.snapshot.pods import PodInfo
    from numakube.topology.exact_report import ExactReport, Holding
    from numakube.topology.pci_places import PciPlaces

PERIOD_SECONDS: Final = 60.0
_SLICE: Final = 4
"""Nodes that are counted before others get their turn: a node with claims takes a millisecond."""


class AlignmentCensus:
    """Keeps a gauge of misaligned pods by cause."""

    def __init__(
        self,
        mirror: Mirror,
        schedulers: Collection[str],
        clock: Clock,
        gauge: Gauge,
        *,
        period_seconds: float = PERIOD_SECONDS,
    ) -> None:
        self._mirror = mirror
        self._schedulers = frozenset(schedulers)
        self._clock = clock
        self._period = period_seconds
        self._counts: dict[str, Counter[Cause]] = {}
        self._changed: set[str] = set()
        self._book = DeviceBook(mirror.stores, note=self._changed.add, pci=self._pci)
        self._gauge = gauge
        for cause in Cause:
            self._gauge.labels(cause).set(0)

    async def run(self) -> None:
        """Count until cancelled."""
        ends = (
            self._mirror.reports.subscribe(lambda change: self._note(change.object.metadata.name)),
            self._mirror.pods.store.subscribe(self._note_resize, replay=False),
            *self._book.open(),
        )
        try:
            while True:
                await self._clock.sleep(self._period)
                await self.count()
        finally:
            for end in ends:
                end()

    async def count(self) -> None:
        """Count on the nodes that have changed, or that are new here."""
        self._changed.update(self._mirror.cluster.row_of.keys() - self._counts.keys())
        while self._changed:
            for _ in range(min(_SLICE, len(self._changed))):
                name = self._changed.pop()
                self._counts[name] = Counter(self._causes(name))
            await asyncio.sleep(0)
        known = self._mirror.cluster.row_of
        self._counts = {name: found for name, found in self._counts.items() if name in known}
        total = sum(self._counts.values(), Counter())
        for cause in Cause:
            self._gauge.labels(cause).set(total[cause])

    def _note(self, name: str) -> None:
        self._changed.add(name)

    def _note_resize(self, change: Change[Pod]) -> None:
        """Note the node of a pod that asks for something else now; no report may change by it."""
        if (
            isinstance(change, Updated)
            and change.old.spec.containers != change.object.spec.containers
        ):
            self._note(change.object.spec.node_name)

    def _causes(self, name: str) -> Iterator[Cause]:
        node = self._mirror.cluster.node(name)
        view = node.numa.topology if node is not None and node.numa is not None else None
        if node is None or view is None or view.report is None:
            return
        cpus, devices = zone_cpus(view.report.machine), self._book.on(node.node)
        for info in node.pods.values():
            holding = view.report.holding(info.uid)
            if holding is None or _is_plain(info, holding, view.report, cpus):
                continue
            if wants_alignment(info.pod, view, self._schedulers):
                cause = judged(info.pod, view, devices).cause
                if cause is not None:
                    yield cause

    def _pci(self, name: str) -> PciPlaces | None:
        node = self._mirror.cluster.node(name)
        view = node.numa.topology if node is not None and node.numa is not None else None
        return None if view is None else view.pci


def _is_plain(pod: PodInfo, holding: Holding, report: ExactReport, cpus: Mapping[int, int]) -> bool:
    """Tell whether a pod is aligned, or wants nothing of the kind, as can be seen at a glance."""
    if pod.pod.spec.resource_claims or holding.devices:
        return False
    if holding.cpus:
        return len(zones_of_holding(report, holding, cpus)) == 1
    return pod.qos_class != GUARANTEED
