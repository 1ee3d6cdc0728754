"""What the exporter does with ``--measure``: measures the node, and publishes what is news.

Every fifteen seconds the node is measured, beside the exporter's loop and in a thread of its own.
Metrics show every reading. The annotation of the report changes only with news
(`numakube_measured.news`), and then the exporter is woken to write it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import structlog

from numakube.errors import NumakubeError
from numakube.topology import uid_hash
from numakube_measured.measurement import ANNOTATION, write_measurement
from numakube_measured.metrics import MeasuredFigures
from numakube_measured.news import News
from numakube_measured.node_measuring import NodeMeasurer
from numakube_measured.promised_pods import promised_pods

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.apps.exporter import NodeSources
    from numakube.apps.exporter.node_scan import NodeInputs
from numakube_measured.measurement import Measurement

EVERY_SECONDS: Final = 15.0

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class MeasuringReader:
    """Measures one node for as long as its exporter runs."""

    def __init__(self, sources: NodeSources) -> None:
        self._sources = sources
        self._measurer = NodeMeasurer(sources.sysfs, sources.proc, rng=sources.rng)
        self._figures = (
            None
            if sources.registry is None
            else MeasuredFigures(sources.node_name, sources.registry)
        )
        self._news = News()
        self._names: Mapping[str, str] = {}
        self._inputs: NodeInputs | None = None
        self._text = ""
        self._said: set[str] = set()

    def read(self) -> MeasuringReader:
        """Return itself: the measurement is of another moment than the scan, and says of which."""
        return self

    def annotations(self, inputs: NodeInputs, problems: list[str]) -> dict[str, str]:
        """Return the measurement that was published last; the first one is taken at once."""
        del problems
        is_first = self._inputs is None
        self._inputs = inputs
        if is_first:
            self._keep(self._measured(inputs))
        return {ANNOTATION: self._text} if self._text else {}

    async def run(self) -> None:
        """Measure until cancelled."""
        while True:
            await self._sources.clock.sleep(EVERY_SECONDS)
            inputs = self._inputs
            if inputs is None:
                continue
            if self._keep(await asyncio.to_thread(self._measured, inputs)):
                self._sources.wake()

    def _measured(self, inputs: NodeInputs) -> Measurement | None:
        clock = self._sources.clock
        begun = clock.monotonic()
        pods = promised_pods(inputs, self._sources.pods())
        try:
            measurement = self._measurer.read(
                pods,
                _zone_of_cpu(inputs),
                now=clock.now(),
                at=begun,
            )
        except (OSError, NumakubeError, ValueError) as error:
            # Of a kernel that refuses what it offers, or of files that are no kernel's: the
            # exporter must not end for it.
            _log.warning("node_not_measured", error=str(error))
            return None
        self._names = {uid_hash(pod.uid): pod.key for pod in pods.values()}
        if self._figures is not None:
            self._figures.seconds.observe(clock.monotonic() - begun)
            self._figures.read_at.set(clock.now().timestamp())
        return measurement

    def _keep(self, measurement: Measurement | None) -> bool:
        """Take over a reading; tell whether it is news."""
        if measurement is None:
            return False
        for line in measurement.untold:
            if line not in self._said:
                _log.info("not_measured", detail=line)
        self._said |= set(measurement.untold)
        if self._figures is not None:
            self._figures.keep(measurement, self._names)
        if not self._news.take(measurement, self._sources.clock.monotonic()):
            return False
        self._text = write_measurement(measurement)
        return True


def _zone_of_cpu(inputs: NodeInputs) -> Mapping[int, int]:
    return {cpu: zone.id for zone in inputs.hardware.zones for cpu in zone.cpus}


class MeasuredAnnotation:
    """What the exporter finds by its entry point."""

    written = frozenset({ANNOTATION})

    def reader(self, sources: NodeSources) -> MeasuringReader:
        """Return what measures the node."""
        return MeasuringReader(sources)


MEASURED: Final = MeasuredAnnotation()
