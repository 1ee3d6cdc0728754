"""What tests of the whole know of levels; see `tests.annexes.contributions`."""

from __future__ import annotations

from numakube_levels.domain_metrics import DomainMetrics

METRICS = {"levels": DomainMetrics}
METRIC_TITLES = {"levels": "Levels"}
