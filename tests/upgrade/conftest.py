"""Tests that need an older version, which `make upgrade OLDER=...` installs."""

from __future__ import annotations

import pytest
from tests.upgrade.programs import OLDER


@pytest.fixture(autouse=True)
def an_older_version(request: pytest.FixtureRequest) -> None:
    """Fail, rather than skip, if tests of upgrades run without one."""
    if request.node.get_closest_marker("upgrade"):
        assert OLDER, "NUMAKUBE_OLDER names no environment: run make upgrade OLDER=FOLDER"
