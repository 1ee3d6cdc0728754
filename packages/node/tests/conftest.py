"""Fixtures and settings for all tests of this distribution."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

# How long an example takes says more about the load of the machine than about the code.
_CHOSEN = settings.get_profile(settings.get_current_profile_name())
settings.register_profile("node", parent=_CHOSEN, deadline=None)
settings.load_profile("node")


@pytest.fixture
def host_sysfs() -> Path:
    """Return the host's own sysfs; skip where there is none, such as on macOS."""
    root = Path("/sys")
    if not (root / "devices/system/cpu/cpu0/topology/core_id").exists():
        pytest.skip("this host has no CPU topology in sysfs")
    return root
