"""Marks of tests that need real binaries."""

from __future__ import annotations

from typing import Final

import pytest
from tests.real.api_server import VARIABLE, assets

needs_assets: Final = pytest.mark.skipif(
    assets() is None, reason=f"needs a real kube-apiserver: set {VARIABLE}"
)
