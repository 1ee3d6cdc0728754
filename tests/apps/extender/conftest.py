"""What the tests of the extender share."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.apps.extender.place import Place, place_of
from tests.sites.bare import BareOpener


@pytest.fixture
async def place(bare_servers: BareOpener) -> AsyncIterator[Place]:
    """An API server without any nodes yet, the lab's or a real one."""
    async with place_of(bare_servers) as place:
        yield place
