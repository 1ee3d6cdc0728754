"""What the webhook counts."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram


class WebhookMetrics:
    """The metrics of an admission webhook."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.reviews = Counter(
            "numakube_webhook_reviews_total",
            "Objects looked at, by kind and answer: allowed, warned, denied or unreadable.",
            ("kind", "answer"),
            registry=registry,
        )
        self.seconds = Histogram(
            "numakube_webhook_review_seconds",
            "Time to look at one object.",
            buckets=(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5),
            registry=registry,
        )
        self.registered = Gauge(
            "numakube_webhook_registered",
            "Whether API servers know the authority of the webhook's certificate.",
            registry=registry,
        )
