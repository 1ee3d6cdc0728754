"""Fixtures of the plugin's tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.apps.sriov.build import Bed


@pytest.fixture
def bed(tmp_path: Path) -> Bed:
    """Return an empty host."""
    return Bed(tmp_path)
