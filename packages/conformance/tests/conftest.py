"""Command lines inside the test's process, and settings for all tests of this distribution."""

from __future__ import annotations

from hypothesis import settings
from tests.cli.conftest import numakube, usual_width

__all__ = ["numakube", "usual_width"]

# How long an example takes says more about the load of the machine than about the code.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")
