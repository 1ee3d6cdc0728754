"""The level of the log, changed while the process runs."""

from __future__ import annotations

import pytest
import structlog

from numakube.apps.host.common_settings import (
    MOST_RULES,
    LevelSwitch,
    LogSubject,
    level_of_verbosity,
)
from numakube.errors import ConfigError
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


async def test_a_pod_can_be_followed_for_a_while() -> None:
    """Events about other pods stay as quiet as they were."""
    switch, clock = LevelSwitch(), JumpingClock()
    assert not switch.details
    switch.set_rule(LogSubject(pod="default/web"), "debug", 60, clock)
    assert switch.details
    assert about(switch, pod="default/web")
    assert not about(switch, pod="default/other")
    assert not about(switch)
    (rule,) = switch.rules()
    assert (rule.subject.pod, rule.level) == ("default/web", "debug")
    await clock.sleep(61)
    assert not about(switch, pod="default/web")
    assert switch.rules() == []
    assert not switch.details


def test_a_module_can_be_followed_with_all_below_it() -> None:
    """The innermost rule wins; a rule can silence too, and be taken back."""
    switch, clock = LevelSwitch(), JumpingClock()
    package, _, _ = __name__.rpartition(".")
    assert package
    switch.set_rule(LogSubject(module=package), "debug", 60, clock)
    assert about(switch)
    switch.set_rule(LogSubject(module=__name__), "error", 60, clock)
    assert not about(switch)
    assert switch.remove_rule(LogSubject(module=__name__))
    assert about(switch)
    assert not switch.remove_rule(LogSubject(module="numakube.elsewhere"))


def test_there_are_not_endlessly_many_rules() -> None:
    """A user who may set them must not be able to fill the memory."""
    switch, clock = LevelSwitch(), JumpingClock()
    for number in range(MOST_RULES):
        switch.set_rule(LogSubject(pod=f"default/p{number}"), "debug", 60, clock)
    with pytest.raises(ConfigError, match="rules already"):
        switch.set_rule(LogSubject(pod="default/one-more"), "debug", 60, clock)
    switch.set_rule(LogSubject(pod="default/p1"), "info", 60, clock)


def about(switch: LevelSwitch, **values: object) -> bool:
    """Tell whether a detail with these values is logged."""
    try:
        switch(None, "debug", {"event": "x", **values})
    except structlog.DropEvent:
        return False
    return True
