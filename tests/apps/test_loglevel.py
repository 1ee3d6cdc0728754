"""The level of the log, changed while the process runs."""

from __future__ import annotations

import pytest
import structlog

from numakube.apps.loglevel import LevelSwitch, level_of_verbosity
from numakube.kube.clock import JumpingClock


def passes(switch: LevelSwitch, method: str) -> bool:
    """Tell whether a message is logged."""
    try:
        switch(None, method, {"event": "x"})
    except structlog.DropEvent:
        return False
    return True


def test_what_is_below_the_level_is_dropped() -> None:
    """From info on, unless told otherwise."""
    switch = LevelSwitch()
    assert [passes(switch, one) for one in ("debug", "info", "error")] == [False, True, True]
    switch.set("warning")
    assert [passes(switch, one) for one in ("info", "warning")] == [False, True]


async def test_a_level_for_a_while_ends_by_itself() -> None:
    """So that nobody forgets to turn it down."""
    switch, clock = LevelSwitch(), JumpingClock()
    switch.set_for("debug", 60, clock)
    assert switch.level == "debug"
    assert passes(switch, "debug")
    await clock.sleep(61)
    assert switch.level == "info"
    assert not passes(switch, "debug")


def test_exceptions_and_unknown_methods_are_errors() -> None:
    """They are never lost."""
    switch = LevelSwitch()
    switch.set("error")
    assert passes(switch, "exception")


@pytest.mark.parametrize(
    ("verbosity", "level"), [(0, "info"), (3, "info"), (4, "debug"), (10, "debug")]
)
def test_verbosities_of_klog_stand_for_levels(verbosity: int, level: str) -> None:
    """As in PUT /debug/flags/v."""
    assert level_of_verbosity(verbosity) == level
