"""What tests of the webhook share."""

from __future__ import annotations

from pathlib import Path

import pytest
from packages.placement.tests.webhook.running import Files


@pytest.fixture
def files(tmp_path: Path) -> Files:
    """A certificate, its key and its authority."""
    return Files.write(tmp_path)
