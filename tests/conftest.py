"""Settings for all tests."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# How long an example takes says more about the load of the machine than about the code; pytest's
# time limit still ends a test that hangs.
settings.register_profile("numakube", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("numakube")
