"""What the driver counts and shows."""

from __future__ import annotations

from collections import Counter as Counts
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from numakube.values.cpuset import union

if TYPE_CHECKING:
    from numakube_dra_driver.devices import OfferedFunction
    from numakube_dra_driver.ledger import Held
    from numakube_dra_driver.offer import Offer

OFFERED, CLAIMED, UNUSABLE = "offered", "claimed", "unusable"
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
        self._offer: Offer | None = None
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

        self._functions = Gauge(
            "numakube_dra_functions",
            "PCI functions by pool: offered, claimed, and those that no claim can have.",
            ("resource", "state"),
            registry=registry,
        )

    def show(self, offer: Offer, held: Held, claims: int) -> None:
        """Show what is offered and what of it is claimed."""
        self._claims.set(claims)
        self._functions.clear()
        counts = Counts(
            (one.resource, _state(one, held))
            for one in (offer.functions.by_name.values() if offer.functions else ())
        )
        for (resource, state), count in counts.items():
            self._functions.labels(resource, state).set(count)
        if offer is not self._offer:
            self._show_offer(offer)
        for pool in offer.memory.values():
            self._memory.labels(pool.name, CLAIMED).set(held.amounts.get(pool.name, 0))
        for group in offer.groups.values():
            self._cpus.labels(group.name, CLAIMED).set((group.cpus & held.cpus).bit_count())

    def _show_offer(self, offer: Offer) -> None:
        """Show what is offered, which seldom changes."""
        self._offer = offer
        self._memory.clear()
        for pool in offer.memory.values():
            self._memory.labels(pool.name, OFFERED).set(pool.size_bytes)
        self._cpus.clear()
        for group in offer.groups.values():
            self._cpus.labels(group.name, OFFERED).set(group.cpus.bit_count())


def _state(function: OfferedFunction, held: Held) -> str:
    if function.id in held.functions:
        return CLAIMED
    return UNUSABLE if function.trouble else OFFERED


class DraCpuMetrics:
    """The same of CPUs, as dra-driver-cpu calls it."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def gauge(name: str, about: str) -> Gauge:
            return Gauge(f"dra_cpu_{name}", about, registry=registry)

        self._allocated = gauge("allocated_cpus", "CPUs of prepared claims.")
        self._available = gauge("available_cpus", "CPUs that claims can still have.")
        self._reserved = gauge("reserved_cpus", "CPUs that are not offered.")
        self._active = gauge("resource_claims_active", "Claims that are prepared.")
        self._prepared = Counter(
            "dra_cpu_prepare_claims_total", "Claims to prepare.", ("result",), registry=registry
        )
        self._unprepared = Counter(
            "dra_cpu_unprepare_claims_total", "Claims to unprepare.", ("result",), registry=registry
        )
        self._seconds = Histogram(
            "dra_cpu_prepare_claim_duration_seconds",
            "How long it takes to prepare a claim.",
            buckets=_BUCKETS,
            registry=registry,
        )
        self._claim_cpus = Histogram(
            "dra_cpu_claim_allocated_cpus",
            "CPUs of claims that were prepared.",
            buckets=(1, 2, 4, 8, 16, 32, 64, 128, 256),
            registry=registry,
        )

    def prepared(self, result: str, seconds: float) -> None:
        """Count a claim that was to be prepared."""
        self._prepared.labels(_WORDS[result]).inc()
        self._seconds.observe(seconds)

    def unprepared(self, result: str) -> None:
        """Count a claim that was to be unprepared."""
        self._unprepared.labels(_WORDS[result]).inc()

    def given(self, cpus: int) -> None:
        """Count the CPUs of a claim that has got them."""
        self._claim_cpus.observe(cpus)

    def show(self, offer: Offer, held: Held, claims: int) -> None:
        """Show what is offered and what of it is claimed."""
        offered = union(group.cpus for group in offer.groups.values())
        every = offer.manager.topology.all_cpus
        self._allocated.set((held.cpus & offered).bit_count())
        self._available.set((offered & ~held.cpus).bit_count())
        self._reserved.set((every & ~offered).bit_count())
        self._active.set(claims)


_WORDS: Final = {OK: "success", ERROR: "error"}
