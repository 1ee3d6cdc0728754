"""What tests of the whole know of measuring; see `tests.annexes.contributions`."""

from __future__ import annotations

from functools import partial

from numakube_measured.doctor_checks import RULES
from numakube_measured.metrics import MeasuredFigures

BREAKS = frozenset(rule.id for rule in RULES)
"""By ``test_observing``."""

METRICS = {"measured": partial(MeasuredFigures, "node")}
METRIC_TITLES = {"measured": "Exporter with measuring"}
METRIC_UNITS = {
    "_bytes_per_second": "bytes per second",
    "_pages_per_second": "pages per second",
    "numakube_measured_unknown": "1",
}
