"""What the driver counts and shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

if TYPE_CHECKING:
    from numakube_dra_driver.ledger import Held
    from numakube_dra_driver.offer import Offer

OFFERED, CLAIMED = "offered", "claimed"
OK, ERROR = "ok", "error"
_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 20.0)


class DraMetrics:
    """The metrics of one driver process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.prepare_seconds = Histogram(
            "numakube_dra_prepare_seconds",
            "How long it takes to prepare a claim, by outcome.",
            ("result",),
            buckets=_BUCKETS,
            registry=registry,
        )
        self.unprepare_seconds = Histogram(
            "numakube_dra_unprepare_seconds",
            "How long it takes to unprepare a claim, by outcome.",
            ("result",),
            buckets=_BUCKETS,
            registry=registry,
        )
        self.publish_seconds = Histogram(
            "numakube_dra_publish_seconds",
            "How long it takes to bring the node's slices up to date.",
            buckets=_BUCKETS,
            registry=registry,
        )
        self.written = Counter(
            "numakube_dra_slices_written_total",
            "Slices that were created, updated or deleted.",
            ("verb",),
            registry=registry,
        )
        self.orphans = Counter(
            "numakube_dra_orphans_total",
            "Claims that were taken back because nobody knew them any more.",
            registry=registry,
        )
        self._claims = Gauge(
            "numakube_dra_claims", "Claims that are prepared on the node.", registry=registry
        )
        self._cpus = Gauge(
            "numakube_dra_cpus",
            "CPUs by device, offered and claimed.",
            ("device", "state"),
            registry=registry,
        )

        self._memory = Gauge(
            "numakube_dra_memory_bytes",
            "Memory and hugepages by device, offered and claimed.",
            ("device", "state"),
            registry=registry,
        )

    def show(self, offer: Offer, held: Held, claims: int) -> None:
        """Show what is offered and what of it is claimed."""
        self._claims.set(claims)
        self._memory.clear()
        for pool in offer.memory.values():
            self._memory.labels(pool.name, OFFERED).set(pool.size_bytes)
            self._memory.labels(pool.name, CLAIMED).set(held.amounts.get(pool.name, 0))
        self._cpus.clear()
        for group in offer.groups.values():
            self._cpus.labels(group.name, OFFERED).set(group.cpus.bit_count())
            self._cpus.labels(group.name, CLAIMED).set((group.cpus & held.cpus).bit_count())
