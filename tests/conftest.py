"""Settings for all tests."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from hypothesis import HealthCheck, settings
from tests.annexes.needs import is_without_its_annexes

from numakube.annexes import Group, points

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


def _configure_logs_for_a_test(**settings: Any) -> None:
    """Configure logs so that no logger of a module keeps for good what one test set."""
    _CONFIGURE(**settings | {"cache_logger_on_first_use": False})


_CONFIGURE = structlog.configure
pytest.MonkeyPatch().setattr(structlog, "configure", _configure_logs_for_a_test)

# Clusters come from the lab; a test that needs one is left out where the lab is not installed.
pytest_plugins = ["tests.sites.plugin"] if "lab" in points(Group.ANNEXES) else []


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out tests that need an annex which is not installed."""
    return True if is_without_its_annexes(collection_path) else None


@pytest.hookimpl(wrapper=True, optionalhook=True)
def pytest_xdist_auto_num_workers() -> Generator[None, int, int]:
    """Run one worker more than there are cores: tests wait for a fifth of their time."""
    return (yield) + 1


@pytest.fixture(autouse=True)
def plain_logs() -> Iterator[None]:
    """Take back what a command that ran inside a test did to the logs, also in another folder."""
    _reset_logs()
    yield
    _reset_logs()


def _reset_logs() -> None:
    structlog.configure(**_PLAIN_LOGS)
    # What is logged is decided once for the whole process, and most tests do without that module.
    if (settings_module := sys.modules.get("numakube.apps.host.common_settings")) is not None:
        settings_module.SWITCH.__init__()
