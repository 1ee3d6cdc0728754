"""Metrics of domains, worked out when they are read: which are whole, and what is out of reach."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prometheus_client import Gauge
from prometheus_client.registry import Collector

from numakube.scheduling.framework.registry import Service
from numakube_levels.domain_states import STATES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from prometheus_client import CollectorRegistry, Metric

    from numakube_levels.domain_states import GangShape, LevelSummary

    Seen = tuple[str, GangShape, LevelSummary]


class DomainMetrics:
    """What is shown of domains; at most eight shapes of gangs each."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._look: Callable[[], Iterable[Seen]] | None = None
        registry.register(_BeforeOthers(self._refresh))
        self._domains = Gauge(
            "numakube_domains",
            "Domains of the level that gangs ask for, by state: whole, claimed (by gangs), full or"
            " broken, as gangs of one shape see them.",
            ("level", "shape", "state"),
            registry=registry,
        )
        self._largest = Gauge(
            "numakube_largest_gang",
            "Pods of a shape that fit in one domain now.",
            ("level", "shape"),
            registry=registry,
        )
        self._unreachable = Gauge(
            "numakube_unreachable_devices",
            "Free devices that no gang of a shape can have in one domain.",
            ("level", "shape", "resource"),
            registry=registry,
        )

    def follow(self, look: Callable[[], Iterable[Seen]]) -> None:
        """Show what *look* returns, whenever the figures are read; the first that follows is it."""
        self._look = self._look or look

    def _refresh(self) -> None:
        for gauge in (self._domains, self._largest, self._unreachable):
            gauge.clear()
        for level, shape, total in self._look() if self._look is not None else ():
            for state in STATES:
                self._domains.labels(level, shape.name, state).set(total.by_state[state])
            self._largest.labels(level, shape.name).set(total.largest)
            self._unreachable.labels(level, shape.name, shape.device).set(total.unreachable)


class _BeforeOthers(Collector):
    """Brings gauges up to date that are read right after it."""

    def __init__(self, refresh: Callable[[], None]) -> None:
        self._refresh = refresh

    def collect(self) -> Iterable[Metric]:
        """Return nothing of its own."""
        self._refresh()
        return ()

    def describe(self) -> Iterable[Metric]:
        """Return nothing of its own."""
        return ()


DOMAIN_METRICS: Final = Service[DomainMetrics]("domain-metrics")
"""One for all profiles of a scheduler."""
