"""What tests of the whole know of zone affinity; see `tests.annexes.contributions`."""

from __future__ import annotations

from numakube_zone_affinity.doctor_checks import RULES

BREAKS = frozenset(rule.id for rule in RULES)
"""By ``test_zone_affinity`` and ``test_linked_devices``."""
