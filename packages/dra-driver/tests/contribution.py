"""What tests of the whole know of the driver; see `tests.annexes.contributions`."""

from __future__ import annotations

from numakube_dra_driver.claims.process import ClaimWriterMetrics
from numakube_dra_driver.doctor_checks import RULES
from numakube_dra_driver.manifest import DraManifest
from numakube_dra_driver.metrics import DraMetrics

MODULE_CEILINGS = {"dra-driver": 155, "claim-writer": 131}
METRICS = {"dra-driver": DraMetrics, "claim-writer": ClaimWriterMetrics}
METRIC_TITLES = {"dra-driver": "DRA driver", "claim-writer": "Claim writer"}
FLAVOURS = {"dra pool": lambda: DraManifest(name="pool", account="drivers").objects()}
BREAKS = frozenset(rule.id for rule in RULES)
"""By ``test_doctor_checks``."""
AS_ROOT = {
    "dra": "control groups and the kubelet's sockets",
    "dra pool": "control groups and the kubelet's sockets",
}
