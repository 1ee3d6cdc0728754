"""Fixtures of the node package."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def host_sysfs() -> Path:
    """Return the host's own sysfs; skip where there is none, such as on macOS."""
    root = Path("/sys")
    if not (root / "devices/system/cpu/cpu0/topology/core_id").exists():
        pytest.skip("this host has no CPU topology in sysfs")
    return root
