"""Settings for all tests."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator

import pytest
import structlog
from hypothesis import HealthCheck, settings

# How long an example takes says more about the load of the machine than about the code; pytest's
# time limit still ends a test that hangs.
settings.register_profile("numakube", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# Continuous integration tries the same examples every time, so that a change is judged by itself;
# at a desk they are new each time, which is how rare mistakes are found.
settings.register_profile("ci", parent=settings.get_profile("numakube"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "numakube")

# Tests print plain logs: drawing tracebacks with all their variables takes seconds.
structlog.configure(
    processors=[
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.format_exc_info,
        structlog.processors.KeyValueRenderer(key_order=["level", "event"]),
    ],
)

_PLAIN_LOGS = structlog.get_config()

pytest_plugins = ["tests.sites.plugin"]


@pytest.hookimpl(wrapper=True, optionalhook=True)
def pytest_xdist_auto_num_workers() -> Generator[None, int, int]:
    """Run one worker more than there are cores: tests wait for a fifth of their time."""
    return (yield) + 1


@pytest.fixture(autouse=True)
def plain_logs() -> Iterator[None]:
    """Take back what a command that ran inside a test did to the logs."""
    yield
    if structlog.get_config() != _PLAIN_LOGS:
        structlog.configure(**_PLAIN_LOGS)
