"""A browser and a dashboard for it; without a browser the tests are skipped, and say so."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import pytest_asyncio
from packages.pages.tests.browser.devtools import Browser, BrowserError

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "chrome")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def browser(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Browser]:
    """A browser with a profile of its own."""
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        pytest.skip(f"no browser on the path (looked for {', '.join(PROGRAMS)})")
    folder: Path = tmp_path_factory.mktemp("browser")
    async with AsyncExitStack() as stack:
        try:
            started = await stack.enter_async_context(Browser.launched(program, folder))
        except (BrowserError, TimeoutError, OSError) as error:
            pytest.skip(f"{program} does not start here: {error!r}")
        yield started
