"""What the tests of the extender share."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.apps.extender.place import Place, place_of


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    """An API server without any nodes yet."""
    async with place_of() as place:
        yield place
